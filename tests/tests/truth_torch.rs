//! Tests that the recording of PyTorch jobs agrees with their own reports, and that the recorded jobs behave as without
//! the library. Runs on the current wheel and on Debian's PyTorch, which has a different Gloo.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rankscope_ranklog::Operation;
use rankscope_ranklog::definition::IdentitySource;
use rankscope_ranklog::reader::{Ending, ThreadRecord};
use rankscope_ranklog::record::{
    BlockedIn, FLAG_BYTES_UNKNOWN, FLAG_FAILED, FLAG_SEQUENCE_UNKNOWN, Record, RecordKind,
};
use rankscope_tests::behaviour::Behaviour;
use rankscope_tests::job::{Finished, Job, for_each_python};
use rankscope_tests::process::{self, Process};
use rankscope_tests::python::Python;
use rankscope_tests::recorded::{self, Recorded};
use rankscope_tests::results;
use rankscope_tests::truth::{self, bytes_per_member, member, number};
use rankscope_tests::turn::{self, Turn};
use rankscope_tests::{compile, counter};
use serde_json::Value;
use tempfile::TempDir;

/// A finished job and its logs, by rank.
struct Recording {
    finished: Finished,
    logs: Vec<Recorded>,
    _directory: TempDir,
}

fn record(turn: &Turn, job: Job, statuses: &[i32]) -> Recording {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let finished = job.record_into(directory.path()).run(turn);
    finished.expect_statuses(statuses);
    let logs = recorded::read_ranks(directory.path(), &finished.pids);
    for recorded in &logs {
        recorded.expect_whole();
        recorded.expect_durations_below(finished.duration);
    }
    Recording {
        finished,
        logs,
        _directory: directory,
    }
}

/// Runs a job alone, then records it. It must behave the same, and end with these statuses.
fn record_as_alone(turn: &Turn, what: &str, statuses: &[i32], job: impl Fn() -> Job) -> Recording {
    let alone = job().run(turn);
    alone.expect_statuses(statuses);
    let recording = record(turn, job(), statuses);
    Behaviour::of(&alone).expect_of(&recording.finished, what);
    recording
}

/// Does so with a program of `tests/programs/torch/`.
fn record_program(turn: &Turn, python: &Python, source: &str, statuses: &[i32]) -> Recording {
    let what = format!("{source} on {}", python.name);
    record_as_alone(turn, &what, statuses, || {
        Job::torch(python, source, statuses.len())
    })
}

/// Key of an operation, equal on all its members: identity, operation, tag, sequence.
type Key = ([u8; 16], u8, u32, u32);

fn key(recorded: &Recorded, call: &Record) -> Key {
    let identity = recorded.communicator(call).identity;
    (identity, call.operation, call.tag, call.sequence)
}

/// Asserts that every operation has each of its members once, and that they agree on its size, if it has one.
fn expect_pairs(logs: &[Recorded]) -> usize {
    let mut instances: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
    let mut sizes = BTreeMap::new();
    for recorded in logs {
        for call in recorded.calls() {
            let unknown = FLAG_SEQUENCE_UNKNOWN | FLAG_BYTES_UNKNOWN;
            assert_eq!(call.flags & unknown, 0, "{call:?}");
            let key = key(recorded, call);
            instances.entry(key).or_default().push(call.bytes);
            sizes.insert(key.0, recorded.communicator(call).size as usize);
        }
    }
    for (key, bytes) in &instances {
        assert_eq!(bytes.len(), sizes[&key.0], "members of {key:?}");
        if key.1 != Operation::AllToAllV as u8 {
            assert!(bytes.iter().all(|size| *size == bytes[0]), "{key:?}: {bytes:?}");
        }
    }
    instances.len()
}

/// Asserts that every library call is inside the execution of the work that it names, and that this work was issued
/// before.
fn expect_works(recorded: &Recorded) {
    let all = |kind: RecordKind| -> Vec<&ThreadRecord> {
        let of_kind = |held: &&ThreadRecord| held.record.kind == kind as u8;
        recorded.records.iter().filter(of_kind).collect()
    };
    let (executions, issues) = (all(RecordKind::Execute), all(RecordKind::Issue));
    for call in recorded.records.iter().filter(|held| {
        held.record.kind == RecordKind::Call as u8 && held.record.operation != Operation::Connect as u8
    }) {
        let around = executions.iter().filter(|execution| {
            let (outer, inner) = (&execution.record, &call.record);
            execution.lane == call.lane
                && outer.object == inner.aux
                && outer.enter_ticks <= inner.enter_ticks
                && inner.leave_ticks <= outer.leave_ticks
        });
        assert_eq!(around.count(), 1, "executions around {call:?}");
    }
    assert_eq!(executions.len(), issues.len());
    // An address is reused once its work is done: the n-th issue of an address belongs to its n-th execution.
    let by_object = |records: &[&ThreadRecord]| {
        let mut times: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for held in records {
            times
                .entry(held.record.object)
                .or_default()
                .push(held.record.enter_ticks);
        }
        for times in times.values_mut() {
            times.sort_unstable();
        }
        times
    };
    let (executed, issued) = (by_object(&executions), by_object(&issues));
    for (object, executed) in &executed {
        let issued = issued.get(object).map_or(&[][..], Vec::as_slice);
        assert_eq!(issued.len(), executed.len(), "issues of {object:#x}");
        assert!(issued.iter().zip(executed).all(|(issue, start)| issue <= start));
    }
}

/// Returns the Gloo calls of which a c10d operation consists: (operation, bytes, element size, root).
fn gloo_calls(line: &Value, rank: usize, size: usize) -> Vec<(Operation, u64, u64, i32)> {
    let operation = truth::operation(line);
    let (bytes, element) = (number(line, "bytes"), number(line, "element_size"));
    let one = (operation, bytes, element, member(line, "root"));
    match operation {
        // A reduce-scatter consists of one all-reduce per member, each of that member's part.
        Operation::ReduceScatter => vec![(Operation::AllReduce, bytes, element, one.3); size],
        Operation::AllToAllV => {
            let to = bytes_per_member(line, "to");
            assert_eq!(to.len(), size, "rank {rank}");
            vec![(operation, to.iter().sum(), element, one.3)]
        }
        _ => vec![one],
    }
}

#[test]
fn every_c10d_operation_is_recorded_as_it_happened() {
    let turn = turn::share();
    let most_scatters = Cell::new(0);
    for_each_python(|python| {
        let size = 3;
        let Recording {
            finished,
            logs,
            _directory: directory,
        } = record_program(&turn, python, "collectives.py", &[0; 3]);
        let mut scatters_of_all = 0;
        for (rank, recorded) in logs.iter().enumerate() {
            let lines = finished.truth(rank);
            let done: Vec<Value> = lines
                .into_iter()
                .filter(|line| line.get("refused").is_none())
                .collect();
            // c10d numbers its works, and Gloo calls have that number as their tag.
            let mut calls: Vec<&Record> = recorded.calls().collect();
            calls.sort_by_key(|call| (call.tag, call.enter_ticks));
            let got: Vec<_> = calls
                .iter()
                .map(|call| {
                    let operation = Operation::from_u8(call.operation).unwrap_or(Operation::Unknown);
                    (operation, call.bytes, u64::from(call.element_bytes), call.peer)
                })
                .collect();
            let expected: Vec<_> = done
                .iter()
                .filter(|line| !truth::is_message(line))
                .flat_map(|line| gloo_calls(line, rank, size))
                .collect();
            assert_eq!(got, expected, "{} rank {rank}", python.name);
            assert_eq!(
                recorded.messages(),
                truth::messages(&done),
                "{} rank {rank}",
                python.name
            );
            // The issue of a work names the operation that the user requested: a reduce-scatter is one.
            let issue_count = |operation: Operation| {
                recorded
                    .of_kind(RecordKind::Issue)
                    .filter(|issue| issue.operation == operation as u8)
                    .count()
            };
            let scatters = done
                .iter()
                .filter(|line| truth::operation(line) == Operation::ReduceScatter);
            let scatters = scatters.count();
            scatters_of_all += scatters;
            assert_eq!(issue_count(Operation::ReduceScatter), size * scatters);
            assert_eq!(issue_count(Operation::Barrier), 3);
            let counts: Vec<u64> = recorded
                .of_kind(RecordKind::Continuation)
                .flat_map(|record| record.continuation_counts())
                .collect();
            let to: Vec<u64> = (0..2)
                .flat_map(|_| (0..5).map(|peer| if peer < 3 { (rank as u64 + peer + 1) * 4 } else { 0 }))
                .collect();
            assert_eq!(counts, to, "{} rank {rank}", python.name);
            expect_works(recorded);
        }
        expect_pairs(&logs);
        expect_one_world(&logs);
        expect_requested(&results::session(directory.path()), size * scatters_of_all);
        most_scatters.set(most_scatters.get().max(scatters_of_all));
    });
    assert!(most_scatters.get() > 0 || Python::wheel().is_none());
}

/// Asserts that the session lists the reduce-scatters that ran as this number of all-reduces, and no other operation that
/// ran as another one.
fn expect_requested(session: &Value, scatters: usize) {
    let mut calls: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for class in session["operations"].as_array().expect("classes") {
        for requested in class["requested"].as_array().expect("requested operations") {
            let key = (
                requested["operation"].as_str().expect("a name"),
                class["operation"].as_str().expect("a name"),
            );
            *calls.entry(key).or_default() += number(requested, "calls");
        }
    }
    assert_eq!(
        calls.into_iter().collect::<Vec<_>>(),
        // Gloo in PyTorch 1.13 refuses a reduce-scatter.
        Vec::from_iter((scatters > 0).then_some((("reduce-scatter", "all-reduce"), scatters as u64)))
    );
}

/// Asserts that all ranks have one communicator with the same identity.
fn expect_one_world(logs: &[Recorded]) {
    for (rank, recorded) in logs.iter().enumerate() {
        let communicators: Vec<_> = recorded.log.communicators.values().collect();
        let [world] = communicators[..] else {
            panic!("{communicators:?}")
        };
        assert_eq!((world.rank as usize, world.size as usize), (rank, logs.len()));
        assert_eq!(world.identity_source, IdentitySource::KeyAndBlob);
        let first = logs[0].log.communicators.values().next();
        assert_eq!(first.map(|first| first.identity), Some(world.identity));
    }
}

/// Finds groups by size. Sizes differ between groups, so each recorded size identifies its group. The identity of that
/// communicator is the same on all members, and no two groups share one. Returns each group's size.
fn groups(recording: &Recording) -> BTreeMap<String, usize> {
    let mut identities: BTreeMap<String, BTreeSet<[u8; 16]>> = BTreeMap::new();
    let mut sizes = BTreeMap::new();
    for (rank, recorded) in recording.logs.iter().enumerate() {
        let lines: Vec<Value> = recording.finished.truth(rank);
        let of_size: BTreeMap<u64, String> = lines
            .iter()
            .filter(|line| truth::operation(line) == Operation::AllReduce)
            .map(|line| (number(line, "bytes"), truth::communicator(line)))
            .collect();
        let mut expected = BTreeMap::new();
        for line in &lines {
            *expected
                .entry((truth::operation(line) as u8, number(line, "bytes")))
                .or_insert(0) += 1;
        }
        let mut got = BTreeMap::new();
        for call in recorded.calls() {
            *got.entry((call.operation, call.bytes)).or_insert(0) += 1;
            if call.operation == Operation::AllReduce as u8 {
                let group = &of_size[&call.bytes];
                let communicator = recorded.communicator(call);
                assert_eq!(communicator.identity_source, IdentitySource::KeyAndBlob);
                identities
                    .entry(group.clone())
                    .or_default()
                    .insert(communicator.identity);
                sizes.insert(group.clone(), communicator.size as usize);
            }
        }
        assert_eq!(got, expected, "rank {rank}");
    }
    for (group, identities) in &identities {
        assert_eq!(identities.len(), 1, "identities of {group}");
    }
    let different: BTreeSet<_> = identities.values().flatten().collect();
    assert_eq!(different.len(), identities.len(), "{identities:?}");
    expect_pairs(&recording.logs);
    sizes
}

#[test]
fn overlapping_groups_are_distinguished() {
    let turn = turn::share();
    for_each_python(|python| {
        let recording = record_program(&turn, python, "subgroups.py", &[0; 3]);
        let sizes: Vec<(String, usize)> = groups(&recording).into_iter().collect();
        let expected = [
            ("head", 2),
            ("pair 0", 2),
            ("pair 1", 2),
            ("tail", 2),
            ("world", 3),
        ];
        assert_eq!(sizes, expected.map(|(name, size)| (name.to_owned(), size)));
    });
}

#[test]
fn successive_worlds_are_distinguished() {
    let turn = turn::share();
    for_each_python(|python| {
        let recording = record_program(&turn, python, "reinit.py", &[0; 2]);
        let worlds = groups(&recording);
        assert_eq!(worlds.len(), 3);
        for recorded in &recording.logs {
            // Each world was destroyed before the next was created.
            let created: Vec<(u32, u64)> = recorded
                .log
                .communicators
                .values()
                .map(|communicator| (communicator.index, communicator.created_ticks))
                .collect();
            assert_eq!(created.len(), 3);
            for pair in created.windows(2) {
                let end = recorded.log.communicator_ends[&pair[0].0];
                assert!(
                    end < pair[1].1,
                    "{created:?} {:?}",
                    recorded.log.communicator_ends
                );
            }
        }
    });
}

#[test]
fn asynchronous_work_of_two_threads_is_paired_correctly() {
    let turn = turn::share();
    for_each_python(|python| {
        let recording = record_program(&turn, python, "swapped.py", &[0; 2]);
        assert_eq!(groups(&recording).len(), 2);
        for recorded in &recording.logs {
            expect_works(recorded);
        }
    });
}

#[test]
fn gradients_of_a_training_are_counted_to_the_byte() {
    const STEPS: usize = 20;
    // Eight layers of 256 × 256 weights and 256 biases, in floats.
    const GRADIENT_BYTES: u64 = 8 * (256 * 256 + 256) * 4;
    let turn = turn::share();
    for_each_python(|python| {
        let what = format!("ddp.py on {}", python.name);
        let Recording { finished, logs, .. } = record_as_alone(&turn, &what, &[0; 2], || {
            Job::torch(python, "ddp.py", 2).env("STEPS", STEPS.to_string())
        });
        assert_eq!(finished.truth(0).len(), STEPS);
        for recorded in &logs {
            let reduced = recorded
                .calls()
                .filter(|call| call.operation == Operation::AllReduce as u8);
            let bytes: u64 = reduced.map(|call| call.bytes).sum();
            assert_eq!(bytes, STEPS as u64 * GRADIENT_BYTES, "{}", python.name);
            // The training thread waits in the reducer, once a step.
            let waits = blocked_in(recorded, BlockedIn::ReducerFinalize);
            assert_eq!(waits.len(), STEPS, "{}", python.name);
            expect_works(recorded);
        }
        expect_pairs(&logs);
        expect_one_world(&logs);
    });
}

fn blocked_in(recorded: &Recorded, place: BlockedIn) -> Vec<&Record> {
    recorded
        .of_kind(RecordKind::Blocked)
        .filter(|blocked| blocked.aux == place as u64)
        .collect()
}

#[test]
fn a_known_wait_is_found_within_five_percent() {
    const KNOWN_MS: f64 = 300.0;
    let turn = turn::take();
    let test = |python: &Python, asynchronous: &str| {
        let job = || {
            Job::torch(python, "blocked.py", 2)
                .env("BLOCKED_MS", KNOWN_MS.to_string())
                .env("BLOCKED_ASYNC", asynchronous)
        };
        let Recording { finished, logs, .. } = if asynchronous == "1" {
            record(&turn, job(), &[0; 2])
        } else {
            record_as_alone(&turn, &format!("blocked.py on {}", python.name), &[0; 2], job)
        };
        for (rank, recorded) in logs.iter().enumerate() {
            let reported: Vec<f64> = finished
                .truth(rank)
                .iter()
                .filter(|line| {
                    truth::operation(line) == Operation::AllReduce && member(line, "late") != rank as i32
                })
                .map(|line| number(line, "blocked_ns") as f64 / 1e6)
                .collect();
            let ms_per_tick = recorded.ns_per_tick().expect("two calibrations") / 1e6;
            let found: Vec<f64> = blocked_in(recorded, BlockedIn::WorkWait)
                .iter()
                .map(|blocked| (blocked.leave_ticks - blocked.enter_ticks) as f64 * ms_per_tick)
                // All other waits are for ranks that have already arrived, and are short even on a busy machine.
                .filter(|&ms| ms > KNOWN_MS / 2.0)
                .collect();
            assert_eq!((reported.len(), found.len()), (2, 2), "{found:?}");
            for (reported, found) in reported.iter().zip(&found) {
                assert!(
                    (found / reported - 1.0).abs() < 0.05,
                    "blocked for {reported} ms, found {found} ms"
                );
            }
            // The mean also matches the other rank's sleep, which the program knows without measuring.
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            assert!(
                (mean / KNOWN_MS - 1.0).abs() < 0.05,
                "slept for {KNOWN_MS} ms, found {found:?} ms"
            );
        }
    };
    for_each_python(|python| test(python, "0"));
    if let Some(wheel) = Python::wheel() {
        test(&wheel, "1");
    }
}

#[test]
fn the_failure_of_a_dead_peer_is_recorded() {
    let turn = turn::share();
    for_each_python(|python| {
        let Recording { finished, logs, .. } = record_program(&turn, python, "peer_dies.py", &[7, 7, 0]);
        for (rank, recorded) in logs.iter().enumerate() {
            let sizes: Vec<u64> = recorded
                .calls()
                .filter(|call| call.flags & FLAG_FAILED == 0)
                .map(|call| call.bytes)
                .collect();
            let reported: Vec<u64> = finished
                .truth(rank)
                .iter()
                .map(|line| number(line, "bytes"))
                .collect();
            assert_eq!(sizes, reported, "{} rank {rank}", python.name);
            // The worker that executes a work stores the exception for the waiting thread. No call fails in the worker.
            for kind in [RecordKind::Call, RecordKind::Blocked] {
                let failed: Vec<&Record> = recorded
                    .of_kind(kind)
                    .filter(|record| record.flags & FLAG_FAILED != 0)
                    .collect();
                let expected = usize::from(rank < 2);
                assert_eq!(failed.len(), expected, "{} rank {rank}: {failed:?}", python.name);
                if kind == RecordKind::Call {
                    assert!(failed.iter().all(|call| call.bytes == 99 * 4));
                }
            }
        }
    });
}

#[test]
fn ranks_that_leave_early_lose_nothing() {
    let turn = turn::share();
    for_each_python(|python| {
        let Recording { finished, logs, .. } = record_program(&turn, python, "early_exit.py", &[0, 5, 0]);
        for (rank, recorded) in logs.iter().enumerate() {
            let lines = finished.truth(rank);
            assert_eq!(
                recorded.messages(),
                truth::messages(&lines),
                "{} rank {rank}",
                python.name
            );
            let place = if rank == 0 {
                BlockedIn::SendWait
            } else {
                BlockedIn::ReceiveWait
            };
            assert_eq!(blocked_in(recorded, place).len(), lines.len());
        }
    });
}

/// Checks all-reduces of 64 floats, numbered from 0 by c10d's tag: none is missing, none occurs twice. Returns their
/// number.
fn expect_counted(recorded: &Recorded, least: u64) -> u64 {
    let mut tags: Vec<u64> = recorded
        .calls()
        .filter(|call| call.flags & FLAG_FAILED == 0)
        .map(|call| {
            assert_eq!(call.bytes, 256);
            u64::from(call.tag)
        })
        .collect();
    tags.sort_unstable();
    let missing = tags.iter().zip(0..).find(|(tag, expected)| **tag != *expected);
    assert_eq!(missing, None, "{}", recorded.log.path.display());
    assert!(tags.len() as u64 >= least, "{} of {least}", tags.len());
    tags.len() as u64
}

#[test]
fn a_job_ended_by_sigterm_loses_nothing() {
    let turn = turn::take();
    for_each_python(|python| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let running = Job::torch(python, "counter.py", 2)
            .counted()
            .record_into(directory.path())
            .start(&turn);
        counter::await_all(&running, 2, 200);
        for rank in 0..2 {
            running.rank(rank).signal(libc::SIGTERM);
        }
        let finished = running.wait();
        for (rank, recorded) in recorded::read_ranks(directory.path(), &finished.pids)
            .iter()
            .enumerate()
        {
            // The rank that ends second may have failed because the first one was gone.
            let code = finished.ranks[rank].code();
            assert!(
                code == 128 + libc::SIGTERM || code == 1,
                "{}",
                finished.ranks[rank].complaints()
            );
            recorded.expect_whole();
            let read = expect_counted(recorded, finished.counts[rank]);
            assert!(read <= finished.counts[rank] + 1);
        }
    });
}

#[test]
fn a_job_that_torchrun_ends_loses_nothing() {
    let _turn = turn::take();
    let Some(python) = Python::wheel() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (reported, live, logs) = (
        directory.path().join("reported"),
        directory.path().join("live"),
        directory.path().join("logs"),
    );
    for made in [&reported, &live] {
        std::fs::create_dir(made).unwrap_or_else(|error| panic!("{error}"));
    }
    let mut command = python.torchrun(2);
    command
        .arg(compile::programs().join("torch/ddp.py"))
        .env("STEPS", "1000000")
        .env("TRUTH_DIR", &reported)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    process::preload(&mut command, Some(&logs));
    command.env("RANKSCOPE_LIVE_DIR", &live);
    let torchrun = Process::start(command);
    let steps = |rank: usize| {
        let text = std::fs::read_to_string(reported.join(format!("rank{rank}.jsonl"))).unwrap_or_default();
        text.matches('\n').count()
    };
    let limit = std::time::Instant::now() + Duration::from_secs(60);
    while steps(0).min(steps(1)) < 5 {
        assert!(
            std::time::Instant::now() < limit,
            "no steps: {:?}",
            torchrun.wait(Duration::ZERO)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    torchrun.signal(libc::SIGTERM);
    let ended = torchrun.wait(Duration::from_secs(60));
    assert_ne!(ended.code(), 0);
    let logs = recorded::read_all(&logs);
    // The launcher itself communicates by other means, and leaves no log.
    assert_eq!(logs.len(), 2);
    for recorded in &logs {
        let rank: usize = recorded.log.properties["env.RANK"].parse().expect("a number");
        recorded.expect_whole();
        assert!(recorded.log.properties.contains_key("env.TORCHELASTIC_RUN_ID"));
        let steps = steps(rank) as u64;
        let reduced = recorded
            .calls()
            .filter(|call| call.operation == Operation::AllReduce as u8 && call.flags & FLAG_FAILED == 0);
        let bytes: u64 = reduced.map(|call| call.bytes).sum();
        let step_bytes = 8 * (256 * 256 + 256) * 4;
        assert!(
            (steps * step_bytes..=(steps + 1) * step_bytes).contains(&bytes),
            "{bytes} bytes in {steps} steps"
        );
        assert_ne!(recorded.log.ending, Ending::Torn);
    }
}
