//! Tests that the recording of NCCL programs agrees with their own reports.
//!
//! Every call has the right size, type, root and number, on communicators with the same identity on all members. The
//! library is a test double (`tests/doubles/nccl`): this says nothing about the completion of operations.

use std::collections::{BTreeMap, BTreeSet};

use rankscope_formats::session::{OperationRow, TableReader, rank_path};
use rankscope_ranklog::definition::IdentitySource;
use rankscope_ranklog::record::{
    Enqueued, FLAG_CAPTURED, FLAG_DIRECT, FLAG_FAILED, FLAG_SEQUENCE_UNKNOWN, FLAG_SIMULATED, MemoryCall,
    NO_COMMUNICATOR, Record, RecordKind,
};
use rankscope_ranklog::{Library, Operation};
use rankscope_tests::compile;
use rankscope_tests::engine::{count, engine};
use rankscope_tests::job::{Finished, Job};
use rankscope_tests::nccl::Nccl;
use rankscope_tests::recorded::{self, Recorded};
use rankscope_tests::truth::{self, member, number};
use rankscope_tests::{process, results, turn};
use serde_json::Value;

/// One call, as the program reports it and as it was recorded.
#[derive(Debug, PartialEq)]
struct Asked {
    communicator: String,
    operation: Operation,
    element_bytes: u64,
    bytes: u64,
    peer: i32,
}

fn reported(line: &Value) -> Asked {
    let operation = truth::operation(line);
    let peer = member(line, if member(line, "peer") >= 0 { "peer" } else { "root" });
    Asked {
        communicator: line["communicator"].as_str().expect("a name").to_owned(),
        operation,
        element_bytes: number(line, "element_size"),
        bytes: number(line, "bytes"),
        peer,
    }
}

/// Returns the calls of the program's single thread in order, without those of simulated groups.
fn calls(recorded: &Recorded) -> Vec<&Record> {
    let simulated: BTreeSet<u64> = recorded
        .of_kind(RecordKind::Group)
        .filter(|record| record.flags & FLAG_SIMULATED != 0)
        .map(|record| record.object)
        .collect();
    let mut calls: Vec<&Record> = recorded
        .of_kind(RecordKind::Enqueue)
        .filter(|record| !simulated.contains(&u64::from(Enqueued::from_aux(record.aux).group)))
        .collect();
    calls.sort_by_key(|record| record.enter_ticks);
    calls
}

fn check_calls(recorded: &Recorded, truth: &[Value], rank: usize) {
    let properties = &recorded.log.properties;
    assert!(
        properties
            .iter()
            .any(|(key, model)| key.starts_with("device.") && model == "Double of a GPU"),
        "{properties:?}"
    );
    let calls = calls(recorded);
    let (refused, calls): (Vec<&Record>, Vec<&Record>) = calls
        .into_iter()
        .partition(|record| record.flags & FLAG_FAILED != 0);
    // Only rank 0 made a call that its library refused.
    assert_eq!(refused.len(), usize::from(rank == 0));
    for record in refused {
        assert_eq!(
            record.flags,
            FLAG_DIRECT | FLAG_FAILED | FLAG_SEQUENCE_UNKNOWN | 2,
            "{record:?}"
        );
        assert_eq!(record.tag, 4, "ncclInvalidArgument");
    }
    let got: Vec<Asked> = calls
        .iter()
        .map(|record| {
            assert_eq!(record.flags, FLAG_DIRECT, "{record:?}");
            assert_eq!(record.tag, 0, "{record:?}");
            assert!(
                record.enter_ticks <= record.leave_ticks && record.object != 0,
                "{record:?}"
            );
            let communicator = recorded.communicator(record);
            assert_eq!(communicator.library, Library::Nccl);
            Asked {
                communicator: communicator.name.clone(),
                operation: Operation::from_u8(record.operation).expect("a known operation"),
                element_bytes: u64::from(record.element_bytes),
                bytes: record.bytes,
                peer: record.peer,
            }
        })
        .collect();
    let expected: Vec<Asked> = truth.iter().map(reported).collect();
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(&expected) {
        // A signal is one element without bytes.
        assert_eq!(got, expected);
    }
    // Collectives of a communicator are numbered together, messages by peer, and others separately. A simulated call
    // also uses a number.
    let mut numbers: BTreeMap<(u32, u8, i32), u32> = BTreeMap::new();
    let mut all: Vec<&Record> = recorded
        .of_kind(RecordKind::Enqueue)
        .filter(|record| record.flags & FLAG_FAILED == 0)
        .collect();
    all.sort_by_key(|record| record.enter_ticks);
    for record in all {
        let operation = Operation::from_u8(record.operation).expect("known");
        let counted = match operation {
            Operation::Send | Operation::Receive => (record.communicator, record.operation, record.peer),
            Operation::Put | Operation::Signal | Operation::WaitSignal => {
                (record.communicator, record.operation, -1)
            }
            _ => (record.communicator, 0, -1),
        };
        let number = numbers.entry(counted).or_insert(0);
        assert_eq!(record.sequence, *number, "{record:?}");
        *number += 1;
    }
}

fn check_types(recorded: &Recorded) {
    let aux = |operation: Operation, bytes: u64| {
        let record = recorded
            .of_kind(RecordKind::Enqueue)
            .find(|record| record.operation == operation as u8 && record.bytes == bytes)
            .expect("a call");
        Enqueued::from_aux(record.aux)
    };
    let first = aux(Operation::AllReduce, 4004);
    assert_eq!((first.group, first.data_type, first.reduction), (0, 7, 0));
    let average = aux(Operation::ReduceScatter, 156);
    assert_eq!((average.data_type, average.reduction), (9, 4));
    let own = aux(Operation::AllReduce, 340);
    assert_eq!(own.reduction, Enqueued::CUSTOM);
    let gathered = aux(Operation::AllGather, 154);
    assert_eq!((gathered.data_type, gathered.reduction), (6, Enqueued::NONE));
}

fn check_groups(recorded: &Recorded, rank: usize) {
    let mut groups: Vec<&Record> = recorded.of_kind(RecordKind::Group).collect();
    groups.sort_by_key(|record| record.enter_ticks);
    let reported: Vec<(u64, u8)> = groups.iter().map(|record| (record.bytes, record.flags)).collect();
    // The groups of the communicator, of the messages and their all-reduce, of rank 0's simulation, of the messages
    // after it, and of the three devices. Groups that the library itself opens are not the program's.
    let mut expected = vec![(0, 0), (3, 0), (2, FLAG_SIMULATED), (2, 0), (3, 0)];
    if rank > 0 {
        expected.remove(2);
    }
    assert_eq!(reported, expected);
    for group in groups {
        assert!(group.aux > 0 && group.aux <= group.enter_ticks, "{group:?}");
        let members = recorded
            .of_kind(RecordKind::Enqueue)
            .filter(|record| u64::from(Enqueued::from_aux(record.aux).group) == group.object)
            .count() as u64;
        assert_eq!(members, group.bytes);
    }
}

fn check_the_rest(recorded: &Recorded, rank: usize) {
    let memory: Vec<u64> = recorded
        .of_kind(RecordKind::Memory)
        .map(|record| record.aux)
        .collect();
    let expected = [
        MemoryCall::Allocate,
        MemoryCall::RegisterWindow,
        MemoryCall::DeregisterWindow,
        MemoryCall::Register,
        MemoryCall::Deregister,
        MemoryCall::Free,
        MemoryCall::Suspend,
        MemoryCall::Resume,
    ];
    assert_eq!(memory, expected.map(|call| call as u64));
    let failures: Vec<u32> = recorded
        .of_kind(RecordKind::Failure)
        .map(|record| record.tag)
        .collect();
    assert_eq!(failures, [6], "asked a hundred times, reported once");
    let refused = recorded
        .of_kind(RecordKind::Call)
        .filter(|record| record.flags & FLAG_FAILED != 0);
    let refused: Vec<(u8, u32)> = refused.map(|record| (record.operation, record.tag)).collect();
    let expected: &[(u8, u32)] = if rank == 0 {
        &[(Operation::Connect as u8, 4)]
    } else {
        &[]
    };
    assert_eq!(refused, expected);
    for record in recorded
        .of_kind(RecordKind::Call)
        .filter(|record| record.flags & FLAG_FAILED == 0)
    {
        let is_made = record.operation == Operation::Connect as u8;
        assert!(
            is_made || record.operation == Operation::Disconnect as u8,
            "{record:?}"
        );
        assert_eq!(record.flags, 0, "{record:?}");
        // A communicator without a handle at the return of the call, or a member that gets no child, leaves a record
        // without a communicator.
        assert!(is_made || record.communicator != NO_COMMUNICATOR, "{record:?}");
    }
}

/// Checks the communicators by name: for each log the identity, rank and size.
fn check_identities(all: &[Recorded], size: usize) {
    let mut known: BTreeMap<String, BTreeMap<usize, (String, u32, u32)>> = BTreeMap::new();
    let mut distinct = BTreeSet::new();
    for (rank, recorded) in all.iter().enumerate() {
        for communicator in recorded.log.communicators.values() {
            assert_eq!(communicator.library, Library::Nccl);
            assert_eq!(
                communicator.identity_source,
                IdentitySource::UniqueId,
                "{communicator:?}"
            );
            let identity: String = communicator
                .identity
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            if communicator.name.is_empty() {
                // All members are in one process: no other process knows them.
                distinct.insert(identity);
                continue;
            }
            let reported = (identity, communicator.rank, communicator.size);
            let before = known
                .entry(communicator.name.clone())
                .or_default()
                .insert(rank, reported);
            assert_eq!(before, None, "{communicator:?}");
        }
    }
    assert_eq!(distinct.len(), size, "one per process");
    let mut identities = BTreeSet::new();
    for (name, members) in &known {
        let mut seen: BTreeSet<&String> = members.values().map(|(identity, ..)| identity).collect();
        if name == "grown" {
            // The new member has the identity of the id. The others have one derived from the old communicator.
            assert_eq!(seen.len(), 2, "{members:?}");
            let (by_id, ..) = &members[&(size - 1)];
            let alias = all[0]
                .log
                .communicator_aliases
                .keys()
                .map(|alias| alias.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
                .next();
            assert_eq!(alias.as_ref(), Some(by_id));
            seen.remove(by_id);
        }
        assert_eq!(seen.len(), 1, "{name}: {members:?}");
        identities.extend(seen.into_iter().cloned());
        let sizes: BTreeSet<u32> = members.values().map(|&(_, _, size)| size).collect();
        assert_eq!(sizes.len(), 1, "{name}: {members:?}");
        let ranks: Vec<u32> = members.values().map(|&(_, rank, _)| rank).collect();
        assert_eq!(ranks, (0..ranks.len() as u32).collect::<Vec<_>>(), "{name}");
        assert_eq!(sizes.first().copied(), Some(ranks.len() as u32), "{name}");
    }
    assert_eq!(identities.len(), known.len(), "each name another communicator");
    let expected: &[&str] = if size > 2 {
        &[
            "even",
            "even again",
            "few",
            "fewer",
            "grown",
            "odd",
            "odd again",
            "patient",
            "scalable",
            "world",
        ]
    } else {
        &["patient", "scalable", "world"]
    };
    for name in expected {
        assert!(known.contains_key(*name), "{name} of {:?}", known.keys());
    }
}

fn check_session(directory: &std::path::Path, finished: &Finished, size: usize) {
    results::merge(directory);
    let session = results::report(directory);
    let operations: u64 = (0..size).map(|rank| finished.truth(rank).len() as u64).sum();
    let count = |path: &str| {
        session
            .pointer(path)
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("no {path}"))
    };
    // One more was refused.
    assert_eq!(count("/totals/operations"), operations + 1);
    assert_eq!(count("/totals/enqueued"), operations);
    assert_eq!(count("/totals/failed"), 1);
    let matching = &session["matching"];
    assert_eq!(count("/matching/complete"), 0, "{matching}");
    assert_eq!(count("/matching/incomplete"), 0, "{matching}");
    assert_eq!(count("/matching/mismatched"), 0, "{matching}");
    assert_eq!(count("/matching/unmatched_messages"), 0, "{matching}");
    assert_eq!(count("/matching/without_key"), 1, "{matching}");
    // Each collective is one instance, in any communicator, and each message too. The communicators inside one process
    // have one instance each.
    let mut instances: BTreeMap<String, u64> = BTreeMap::new();
    let mut members: BTreeMap<String, u64> = BTreeMap::new();
    let mut messages = 0;
    for rank in 0..size {
        let mut own: BTreeMap<String, u64> = BTreeMap::new();
        for call in finished.truth(rank).iter().map(reported) {
            match call.operation {
                Operation::Send => messages += 1,
                Operation::Receive | Operation::Put | Operation::Signal | Operation::WaitSignal => {}
                _ if call.communicator.is_empty() => {}
                _ => *own.entry(call.communicator).or_insert(0) += 1,
            }
        }
        for (name, calls) in own {
            *members.entry(name.clone()).or_insert(0) += 1;
            assert_eq!(*instances.entry(name).or_insert(calls), calls);
        }
    }
    let collectives: u64 = instances
        .iter()
        .filter(|(name, _)| members[*name] > 1)
        .map(|(_, calls)| calls)
        .sum();
    assert_eq!(
        count("/matching/enqueued"),
        collectives + messages + size as u64,
        "{matching}"
    );
    assert_eq!(count("/matching/one_sided"), 3 * size as u64, "{matching}");
    let members = |name: &str| -> Vec<Value> {
        let all = session["communicators"].as_array().expect("communicators");
        let one = all
            .iter()
            .find(|one| one["name"] == name)
            .unwrap_or_else(|| panic!("no {name}"));
        one["members"].as_array().expect("members").clone()
    };
    assert_eq!(members("world"), (0..size).map(Value::from).collect::<Vec<_>>());
    if size > 2 {
        assert_eq!(members("grown"), (0..size).map(Value::from).collect::<Vec<_>>());
        assert_eq!(members("fewer"), (1..size).map(Value::from).collect::<Vec<_>>());
    }
}

/// Checks the trace: every call once with its arguments, each instance a chain through its ranks, and no complaint.
fn check_trace(directory: &std::path::Path) {
    let session = results::report(directory);
    let count_of = |path: &str| session.pointer(path).and_then(Value::as_u64).expect("a count");
    let directory = directory.to_str().expect("a plain name");
    let trace = format!("{directory}/nccl.pftrace");
    let ended = results::rankscope(["export", "--perfetto", "-o", &trace, directory]);
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    if engine(&["check", &trace]).is_none() {
        return;
    }
    let counted = |query: &str| count(&trace, query).unwrap_or_default();
    assert_eq!(
        counted("select count(*) from slice where category = 'nccl'"),
        count_of("/totals/operations")
    );
    let with_state = "select count(*) from slice join args using (arg_set_id) \
                      where key = 'debug.state' and string_value = 'enqueued'";
    assert_eq!(counted(with_state), count_of("/totals/enqueued"));
    for (category, kinds) in [
        ("group", "group"),
        ("memory", "%allocate%"),
        ("failure", "error 6%"),
    ] {
        let query =
            format!("select count(*) from slice where category = '{category}' and name like '{kinds}'");
        assert!(counted(&query) > 0, "{category}");
    }
    assert!(counted("select count(*) from flow") > 0);
    // Nothing records their times on the device.
    assert_eq!(
        counted("select count(*) from slice where category = 'communicator'"),
        0
    );
}

fn every_call(size: usize, late: bool) {
    let turn = turn::take();
    let Some(program) = compile::nccl("nccl_all.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut job = Job::program(&program, size).record_into(directory.path());
    if late {
        job = job.env("NCCL_DOUBLE_LATE", "1");
    }
    let finished = job.run(&turn);
    finished.expect_status(0);
    let all = recorded::read_ranks(directory.path(), &finished.pids);
    for (rank, recorded) in all.iter().enumerate() {
        recorded.expect_whole();
        check_calls(recorded, &finished.truth(rank), rank);
        check_types(recorded);
        check_groups(recorded, rank);
        check_the_rest(recorded, rank);
    }
    check_identities(&all, size);
    check_session(directory.path(), &finished, size);
    check_trace(directory.path());
}

#[test]
fn every_call_is_recorded_as_it_was_made() {
    every_call(4, false);
}

#[test]
fn handles_that_are_set_at_the_end_of_their_group_are_known() {
    every_call(3, true);
}

#[test]
fn a_process_that_drives_all_devices_is_reported_once() {
    let turn = turn::take();
    let Some(program) = compile::nccl("nccl_devices.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let finished = Job::program(&program, 1).record_into(directory.path()).run(&turn);
    finished.expect_status(0);
    results::merge(directory.path());
    let session = results::report(directory.path());
    let reported = |path: &str| session.pointer(path).cloned().unwrap_or_default();
    assert_eq!(reported("/totals/operations"), 40);
    assert_eq!(reported("/matching/enqueued"), 10);
    assert_eq!(reported("/matching/without_key"), 0);
    assert_eq!(reported("/coverage/ranks_seen"), 4);
    assert_eq!(reported("/coverage/missing"), Value::Array(Vec::new()));
}

#[test]
fn additional_functions_of_rccl_are_recorded() {
    let turn = turn::take();
    let Some(program) = compile::rccl("rccl_all.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let finished = Job::program(&program, 3).record_into(directory.path()).run(&turn);
    finished.expect_status(0);
    results::merge(directory.path());
    let session = results::report(directory.path());
    let reported = |path: &str| session.pointer(path).cloned().unwrap_or_default();
    assert_eq!(reported("/totals/operations"), 12);
    // HIP reports the capture.
    assert_eq!(reported("/totals/captured"), 3);
    assert_eq!(reported("/matching/enqueued"), 4);
    assert_eq!(reported("/matching/without_key"), 0);
    let session = directory.path().join("session");
    for rank in 0..3u32 {
        let rows: Vec<OperationRow> =
            TableReader::read_all(&rank_path::<OperationRow>(&session, rank)).expect("a table");
        let bytes = |operation| {
            let mut of_kind = rows.iter().filter(|row| row.operation == operation);
            of_kind.next().and_then(|row| row.bytes)
        };
        assert_eq!(bytes(Operation::AllToAll), Some(100));
        assert_eq!(bytes(Operation::AllToAllV), Some(2 * (30 * u64::from(rank) + 21)));
    }
}

#[test]
fn without_a_directory_a_program_is_not_affected() {
    let turn = turn::take();
    let Some(program) = compile::nccl("nccl_all.cc") else {
        return;
    };
    let finished = Job::program(&program, 2).preload_idle().run(&turn);
    finished.expect_status(0);
    let without = Job::program(&program, 2).run(&turn);
    without.expect_status(0);
    for rank in 0..2 {
        assert_eq!(finished.truth(rank), without.truth(rank));
    }
}

/// Tests that the real library, as far as it works without a GPU, gives the same answers with and without rankscope.
#[test]
fn real_libraries_answer_as_without_the_preload() {
    let turn = turn::take();
    let Some(program) = compile::nccl("nccl_smoke.cc") else {
        return;
    };
    for library in Nccl::all() {
        let run = |directory: Option<&std::path::Path>, preloaded: bool| {
            let mut command = std::process::Command::new(&program);
            if preloaded {
                process::preload(&mut command, directory);
            } else {
                process::clean(&mut command);
            }
            // The program's own path names the double. This variable takes precedence.
            command.env("LD_LIBRARY_PATH", &library.directory);
            let ended = process::run(command, std::time::Duration::from_secs(60));
            assert_eq!(
                ended.code(),
                0,
                "NCCL {}: {}",
                library.version,
                ended.complaints()
            );
            ended.text()
        };
        let without = run(None, false);
        assert!(without.contains("version 0 1"), "{without}");
        assert_eq!(run(None, true), without, "NCCL {}", library.version);
        let directory = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(
            run(Some(directory.path()), true),
            without,
            "NCCL {}",
            library.version
        );
        let recorded = recorded::read_all(directory.path());
        let [recorded] = &recorded[..] else {
            panic!("one process, {} logs", recorded.len())
        };
        let count = |kind: RecordKind| recorded.of_kind(kind).count();
        // Three calls on nothing, one group, and two communicators that cannot be created.
        assert_eq!(
            [RecordKind::Enqueue, RecordKind::Group, RecordKind::Call].map(count),
            [3, 1, 2],
            "NCCL {}",
            library.version
        );
        for record in recorded
            .of_kind(RecordKind::Enqueue)
            .chain(recorded.of_kind(RecordKind::Call))
        {
            assert_ne!(record.flags & FLAG_FAILED, 0, "{record:?}");
        }
    }
    drop(turn);
}

/// Tests that steps are found from the calls alone, and that a call costs few bytes.
#[test]
fn a_training_is_divided_into_steps() {
    let turn = turn::take();
    let Some(program) = compile::nccl("nccl_train.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let finished = Job::program(&program, 4)
        .arg("400")
        .record_into(directory.path())
        .run(&turn);
    finished.expect_status(0);
    results::merge(directory.path());
    let session = results::report(directory.path());
    let count = |path: &str| session.pointer(path).and_then(Value::as_u64).expect("a count");
    // 400 × 3 all-reduces and 100 messages in each direction, on each rank.
    assert_eq!(count("/totals/operations"), 4 * 1400);
    assert_eq!(count("/matching/enqueued"), 1200 + 4 * 100);
    // Every fourth step has messages: the pattern is four of the program's steps long.
    let steps = count("/steps/count");
    assert!((95..=100).contains(&steps), "{steps} steps");
    assert_eq!(session["steps"]["source"], "pattern");
    for rank in session["ranks"].as_array().expect("ranks") {
        let bytes = rank["log_bytes"].as_u64().expect("bytes");
        assert!(bytes <= 24 * 1400, "{bytes} bytes for 1400 calls");
    }
    // There is no picture of waiting, because none was measured.
    assert_eq!(session["waits"]["reason"], "completion times were not recorded");
    assert_eq!(session["waits"]["ranks"], Value::Array(Vec::new()));
    let verdict = session["findings"].to_string();
    assert!(
        !verdict.contains("late-rank"),
        "nobody can be late without times: {verdict}"
    );
}

/// Tests that captured calls are templates: they are distinguished from instances, and do not count as executed.
#[test]
fn captured_calls_are_templates() {
    let turn = turn::take();
    let Some(program) = compile::nccl("nccl_graph.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let finished = Job::program(&program, 2).record_into(directory.path()).run(&turn);
    finished.expect_status(0);
    for recorded in recorded::read_ranks(directory.path(), &finished.pids) {
        recorded.expect_whole();
        let captured = recorded
            .of_kind(RecordKind::Enqueue)
            .filter(|record| record.flags & FLAG_CAPTURED != 0);
        let mut bytes: Vec<u64> = captured.map(|record| record.bytes).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, [200, 200, 800, 800, 800, 804]);
    }
    results::merge(directory.path());
    let session = results::report(directory.path());
    let count = |path: &str| session.pointer(path).and_then(Value::as_u64).expect("a count");
    assert_eq!(count("/totals/operations"), 20);
    assert_eq!(count("/totals/enqueued"), 20);
    assert_eq!(count("/totals/captured"), 12);
    assert_eq!(count("/matching/enqueued"), 10);
    // Four collectives and a message in each direction.
    assert_eq!(count("/matching/templates"), 6);
    assert_eq!(count("/matching/incomplete") + count("/matching/mismatched"), 0);
}
