//! Tests the merge of synthetic rank logs, in which every wait is known, into a session.

use proptest::prelude::*;
use rankscope_analysis::{MergeError, MergeOptions, merge, merge_as_of};
use rankscope_fixtures::logs::kernels;
use rankscope_fixtures::logs::pipeline::Pipelined;
use rankscope_fixtures::logs::{Ddp, START, SyntheticLog, TRAINING, WORKER, blocked, call, execute, issue};
use rankscope_fixtures::session_files::{assert_same, files};
use rankscope_formats::ids::StepIndex;
use rankscope_formats::session::AxisMethod;
use rankscope_formats::session::Scope;
use rankscope_formats::session::Window;
use rankscope_formats::session::{
    InstanceRow, InstanceState, OperationRow, OperationState, Session, StepRow, TableReader, WorkRow,
    part_path, rank_path,
};
use rankscope_ranklog::Operation;
use rankscope_ranklog::definition::{KIND_STREAM, KIND_TEXT, Payload, Stream};
use rankscope_ranklog::loss::{Loss, LossCause};
use rankscope_ranklog::record::{BlockedIn, Record, RecordKind};
use rankscope_report::export::perfetto::{PerfettoOptions, export};

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn options(run: &Path) -> MergeOptions {
    MergeOptions {
        directories: vec![run.to_path_buf()],
        output: run.join("session"),
        threads: Some(2),
        most_pending: None,
        origins: Vec::new(),
    }
}

fn merged(run: &Path) -> Session {
    merge(&options(run), &mut |_| {}).expect("merge")
}

/// Checks that both ways of a merge give the same session: with many ranks, logs are read before they are matched, and with few
/// ranks at the same time.
fn assert_same_as_of_many(run: &Path) {
    let output = tempfile::tempdir().expect("a folder");
    let merged_as_of = |many_ranks: bool, threads: usize| {
        let options = MergeOptions {
            output: output.path().to_path_buf(),
            threads: Some(threads),
            ..options(run)
        };
        merge_as_of(many_ranks, &options).expect("merge");
        files(output.path())
    };
    let few = merged_as_of(false, 2);
    for threads in [1, 3] {
        let many = merged_as_of(true, threads);
        assert_same(&few, &many, &format!("{threads} threads"));
    }
}

#[test]
fn logs_of_many_ranks_are_merged_as_those_of_few() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("ddp");
    let ddp = Ddp {
        ranks: 12,
        steps: 400,
        slow: Some((3, 50_000)),
        ..Ddp::default()
    };
    ddp.write(&run).expect("write");
    assert_same_as_of_many(&run);
    let run = folder.path().join("pipeline");
    Pipelined::default().write(&run);
    assert_same_as_of_many(&run);
    let run = folder.path().join("kernels");
    (0..3).for_each(|rank| kernels::write(&run, rank, 3, 40).expect("write"));
    assert_same_as_of_many(&run);
}

/// With more hosts than have all of their pairs looked at, and with more pairs than one group has.
#[test]
fn clocks_of_many_ranks_are_aligned_as_those_of_few() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("hosts");
    let ddp = Ddp {
        ranks: 48,
        hosts: 24,
        steps: 200,
        slow: Some((3, 50_000)),
        noise: 1,
        ..Ddp::default()
    };
    ddp.write(&run).expect("write");
    assert_same_as_of_many(&run);
    let axis = merged(&run).axis.evidence.expect("several hosts");
    assert_eq!(axis.pairs_total, 24 * 23 / 2);
    assert_eq!(axis.pairs_unbounded, 0);
    assert!(axis.held_out_instances > 100);
}

fn operations(run: &Path, rank: u32) -> Vec<OperationRow> {
    TableReader::read_all(&rank_path::<OperationRow>(&run.join("session"), rank)).expect("operations")
}

fn instances(run: &Path) -> Vec<InstanceRow> {
    TableReader::read_all(&part_path::<InstanceRow>(&run.join("session"))).expect("instances")
}

fn job(job: &Ddp) -> (TempDir, PathBuf, Session) {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    job.write(&run).expect("write");
    let session = merged(&run);
    (folder, run, session)
}

/// Creates two logs, of ranks 0 and 1, with communicator 0 between them.
fn pair(run: &Path) -> [SyntheticLog<std::io::BufWriter<fs::File>>; 2] {
    [0, 1].map(|rank| {
        let mut log = SyntheticLog::create(run, rank, 2, "host-a").expect("create");
        log.communicator(0, rank, 2, 9).expect("communicator");
        log
    })
}

#[test]
fn a_small_session_stays_as_it_is() {
    let (_folder, _run, mut session) = job(&Ddp {
        ranks: 2,
        steps: 6,
        buckets: 2,
        slow: Some((1, 200_000)),
        ..Ddp::default()
    });
    // These fields differ between machines and runs.
    session.written_unix_ns = 0;
    session.tool.version = "x".to_owned();
    session.directories = vec!["run".to_owned()];
    for rank in &mut session.ranks {
        rank.log = format!("run/rank-{}.rslog", rank.index);
        rank.log_bytes = 0;
    }
    session.tables.iter_mut().for_each(|table| table.bytes = 0);
    insta::assert_json_snapshot!(session);
}

#[test]
fn every_operation_is_matched_and_every_step_found() {
    let work = Ddp {
        steps: 40,
        ..Ddp::default()
    };
    let (_folder, run, session) = job(&work);
    assert_eq!(session.totals.operations, work.operations());
    assert_eq!(session.matching.complete, work.operations() / 4);
    assert_eq!(
        session.matching.incomplete + session.matching.mismatched + session.matching.without_key,
        0
    );
    assert_eq!(session.steps.source, "pattern");
    assert_eq!(session.steps.count, 39, "the first whole step gives only its end");
    assert_eq!(session.coverage.ranks_seen, 4);
    assert!(
        session
            .breakdown
            .iter()
            .all(|rank| rank.adds_up && rank.window == Window::Steps && rank.steps == 39)
    );
    for rank in 0..4 {
        let rows = operations(&run, rank);
        assert_eq!(rows.len() as u64, work.operations() / 4);
        assert!(
            rows.iter()
                .all(|row| row.matched == InstanceState::Complete && row.issue_ns.is_some())
        );
        assert_eq!(
            rows.iter().filter(|row| row.step == Some(StepIndex(7))).count(),
            3
        );
        let steps: Vec<StepRow> =
            TableReader::read_all(&rank_path::<StepRow>(&run.join("session"), rank)).expect("steps");
        assert_eq!(
            steps.iter().map(|row| row.step).collect::<Vec<_>>(),
            (0..39).map(StepIndex).collect::<Vec<_>>()
        );
        for row in &steps {
            let parts = row.host_ns + row.exposed_communication_ns + row.other_blocked_ns;
            assert_eq!(parts, row.end_ns - row.start_ns);
            assert!(row.exposed_wait_ns <= row.exposed_communication_ns);
        }
    }
    // Instances of all ranks agree with their operations.
    let of_instances = instances(&run);
    assert_eq!(of_instances.len() as u64, session.totals.instances);
    assert!(
        of_instances
            .iter()
            .all(|row| row.seen == 4 && row.state == InstanceState::Complete)
    );
    assert!(!run.join("session/.unfinished").exists());
    let read = Session::read(&run.join("session")).expect("read back");
    assert!(read.totals == session.totals && read.steps.list == session.steps.list);
}

#[test]
fn a_slow_rank_is_named_with_its_cost_and_without_one_no_rank_is_named() {
    let even = Ddp {
        steps: 200,
        noise: 1,
        ..Ddp::default()
    };
    let (_folder, _run, without) = job(&even);
    let late = |session: &Session| {
        session
            .findings
            .iter()
            .filter(|finding| finding.kind == "late-rank")
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(late(&without), vec![]);
    let (_folder, _run, with) = job(&Ddp {
        slow: Some((2, 300_000)),
        ..even
    });
    let found = late(&with);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].ranks, vec![2]);
    let lateness = found[0].lateness.as_ref().expect("lateness");
    assert_eq!(lateness.class, "persistent");
    assert!(lateness.p_value < 0.01);
    // The counterfactual: the additional time of a step, compared with a run without the fault.
    let per_step = |session: &Session| (session.axis.end_ns - session.axis.start_ns) as f64 / 201.0;
    let truth = per_step(&with) - per_step(&without);
    let reported = found[0].cost_of_step.value.expect("a cost").numerator as f64;
    assert!(
        (reported - truth).abs() < 0.1 * truth,
        "reported {reported}, true {truth}"
    );
    assert_eq!(with.blame.ranks[0].rank, 2);
}

#[test]
fn a_thousand_ranks_are_matched() {
    let work = Ddp {
        ranks: 1024,
        steps: 200,
        slow: Some((700, 300_000)),
        ..Ddp::default()
    };
    // The job makes more calls than may be pending at one time.
    assert!(work.operations() > rankscope_analysis::matching::MAX_PENDING as u64);
    let (_folder, _run, session) = job(&work);
    assert_eq!(session.totals.operations, work.operations());
    assert_eq!(session.matching.complete, work.operations() / 1024);
    assert_eq!(session.matching.incomplete, 0);
    assert_eq!(session.coverage.ranks_seen, 1024);
    let late: Vec<_> = session
        .findings
        .iter()
        .flat_map(|finding| finding.ranks.clone())
        .collect();
    assert_eq!(late, [700], "{:?}", session.findings);
}

#[test]
fn known_blocked_time_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let mut logs = pair(&run);
    // Rank 0 waits 4 ms for rank 1 in each of 20 operations and computes during 1 ms of the wait.
    for n in 0..20u64 {
        let base = START + n * 10_000_000;
        for (rank, log) in logs.iter_mut().enumerate() {
            let at = base + if rank == 0 { 0 } else { 4_000_000 };
            let work = 0x1000 + n * 64;
            log.push(TRAINING.0, issue(Operation::AllReduce, at, work));
            let done = base + 5_000_000;
            log.push(
                WORKER.0,
                call(Operation::AllReduce, at, done, n as u32, 1 << 20, work),
            );
            log.push(WORKER.0, execute(at, done, work));
            let start = if rank == 0 { base + 1_000_000 } else { at };
            log.push(TRAINING.0, blocked(BlockedIn::WorkWait, start, done, work));
        }
    }
    for log in logs {
        log.end().expect("end");
    }
    let session = merged(&run);
    let rows = operations(&run, 0);
    assert_eq!(rows.len(), 20);
    for row in &rows {
        assert_eq!(
            (row.exposed_wait_ns, row.hidden_wait_ns),
            (Some(3_000_000), Some(1_000_000))
        );
        assert_eq!(row.arrival_order, Some(0));
    }
    assert!(
        operations(&run, 1)
            .iter()
            .all(|row| row.exposed_wait_ns == Some(0))
    );
    let all_reduce = &session.operations[0];
    assert_eq!(all_reduce.exposed_wait_rank_ns, 60_000_000);
    let transfer = all_reduce.transfer_ns.get().expect("transfer");
    assert_eq!((transfer.min, transfer.max), (1e6, 1e6));
    assert_eq!(session.blame.ranks[0].rank, 1);
    assert_eq!(session.blame.ranks[0].job_lost_exposed_ns, 60_000_000);
    let zero = &session.breakdown[0];
    let overlap = zero.overlap.get().expect("all waits were seen");
    assert_eq!(overlap.denominator, zero.communication_ns);
    assert_eq!(
        zero.operations_with_wait_seen.get().expect("counted").share(),
        1.0
    );
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    Ddp {
        ranks: 5,
        steps: 700,
        noise: 3,
        ..Ddp::default()
    }
    .write(&run)
    .expect("write");
    let with = |threads| {
        let options = MergeOptions {
            threads: Some(threads),
            ..options(&run)
        };
        let mut session = merge(&options, &mut |_| {}).expect("merge");
        session.written_unix_ns = 0;
        (session, operations(&run, 3), instances(&run))
    };
    assert!(with(1) == with(4));
}

#[test]
fn a_missing_log_is_named_and_its_instances_are_incomplete() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let work = Ddp {
        steps: 10,
        ..Ddp::default()
    };
    work.write(&run).expect("write");
    fs::remove_file(run.join("rank-3.rslog")).expect("remove");
    let session = merged(&run);
    assert_eq!(
        (session.coverage.ranks_seen, session.coverage.ranks_expected.value),
        (3, Some(4))
    );
    assert_eq!(session.coverage.missing.len(), 1);
    assert_eq!(session.coverage.missing[0].number, 3);
    assert!(
        session
            .coverage
            .advice
            .as_ref()
            .is_some_and(|advice| advice.contains("LD_PRELOAD"))
    );
    assert_eq!(session.matching.complete, 0);
    assert_eq!(session.matching.incomplete, work.operations() / 4);
    assert_eq!(session.matching.listed[0].missing_members, vec![3]);
    assert_eq!(
        session.totals.operations,
        work.operations() / 4 * 3,
        "what was recorded is there"
    );
    assert!(
        operations(&run, 0)
            .iter()
            .all(|row| row.exposed_wait_ns.is_none())
    );
}

#[test]
fn a_log_cut_anywhere_gives_its_readable_part() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    Ddp {
        ranks: 2,
        steps: 20,
        ..Ddp::default()
    }
    .write(&run)
    .expect("write");
    let whole = fs::read(run.join("rank-1.rslog")).expect("read");
    for keep in (0..whole.len()).step_by(whole.len() / 23 + 1) {
        fs::write(run.join("rank-1.rslog"), &whole[..keep]).expect("write");
        let session = merged(&run);
        assert!(!session.problems.listed.is_empty());
        assert_eq!(operations(&run, 0).len(), 63, "rank 0 loses nothing");
        assert!(session.breakdown.iter().all(|rank| rank.adds_up));
    }
}

#[test]
fn a_call_in_progress_is_shown_with_the_ranks_that_wait_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let [mut zero, mut one] = pair(&run);
    zero.push(
        TRAINING.0,
        call(Operation::AllReduce, START + 10, START + 20, 0, 64, 0),
    );
    one.push(
        TRAINING.0,
        call(Operation::AllReduce, START + 11, START + 20, 0, 64, 0),
    );
    let mut stuck = call(Operation::Broadcast, START + 30, 0, 1, 64, 0);
    stuck.peer = 1;
    zero.in_flight(&[(0, 100, stuck)]).expect("in flight");
    zero.end().expect("end");
    one.end().expect("end");
    let session = merged(&run);
    assert_eq!((session.matching.complete, session.matching.incomplete), (1, 1));
    assert_eq!(session.totals.in_flight, 1);
    assert!(session.ranks[0].in_flight[0].starts_with("broadcast"));
    assert!(
        session
            .findings
            .iter()
            .any(|finding| finding.kind == "never-finished" && finding.ranks == vec![0])
    );
    let rows = operations(&run, 0);
    assert_eq!(rows[1].state, OperationState::InFlight);
    assert_eq!(rows[1].leave_ns, None);
}

#[test]
fn messages_are_matched_by_their_ends_and_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let [mut zero, mut one] = pair(&run);
    let post = |operation: Operation, at: u64, buffer: u64, peer: i32| Record {
        operation: operation as u8,
        enter_ticks: at,
        leave_ticks: at + 1,
        object: buffer,
        bytes: 4096,
        communicator: 0,
        tag: 5,
        aux: 5,
        peer,
        ..Record::new(RecordKind::Post)
    };
    let complete = |operation: Operation, enter: u64, leave: u64, buffer: u64, peer: i32| Record {
        operation: operation as u8,
        enter_ticks: enter,
        leave_ticks: leave,
        object: buffer,
        bytes: 4096,
        communicator: 0,
        peer,
        ..Record::new(RecordKind::Complete)
    };
    // Three messages 0 → 1 through two buffers, waited for in a different order. The last receive accepts any source.
    for (n, buffer) in [(0, 0xA), (1, 0xB), (2, 0xA)] {
        zero.push(0, post(Operation::Send, START + 1000 + n * 100, buffer, 1));
        one.push(
            0,
            post(
                Operation::Receive,
                START + n * 10,
                buffer,
                if n == 2 { -1 } else { 0 },
            ),
        );
    }
    for (n, buffer) in [(0, 0xB), (1, 0xA), (2, 0xA)] {
        zero.push(
            0,
            complete(
                Operation::Send,
                START + 2000 + n * 10,
                START + 2005 + n * 10,
                buffer,
                1,
            ),
        );
        one.push(
            0,
            complete(
                Operation::Receive,
                START + 500 + n * 600,
                START + 1000 + n * 600,
                buffer,
                0,
            ),
        );
    }
    // One more send that nobody receives.
    zero.push(0, post(Operation::Send, START + 9000, 0xC, 1));
    zero.push(0, complete(Operation::Send, START + 9001, START + 9002, 0xC, 1));
    zero.end().expect("end");
    one.end().expect("end");
    let session = merged(&run);
    assert_eq!(
        (session.matching.complete, session.matching.unmatched_messages),
        (3, 1)
    );
    assert_eq!(session.matching.listed[0].kind, "unmatched-message");
    let received = operations(&run, 1);
    assert_eq!(
        received.iter().map(|row| row.sequence).collect::<Vec<_>>(),
        vec![0, 1, 2]
    );
    // The message through buffer A was posted at 0, sent at 1000 and waited for from 1100 on.
    assert_eq!(
        (received[0].exposed_wait_ns, received[0].hidden_wait_ns),
        (Some(0), Some(1000))
    );
    // The message through buffer B was posted at 10, waited for from 500 to 1000, and sent at 1100. The send is after
    // the end of the wait, as with a wrong clock. The wait ends with the receive.
    assert_eq!(
        (received[1].exposed_wait_ns, received[1].hidden_wait_ns),
        (Some(500), Some(490))
    );
    assert_eq!(session.matching.causality_violations, 1);
}

#[test]
fn two_attempts_and_two_rank_zeros_are_never_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    for restart in 0..2u8 {
        let job = Ddp {
            ranks: 2,
            steps: 5,
            ..Ddp::default()
        };
        let mut logs: Vec<_> = (0..2)
            .map(|rank| {
                let folder = run.join(format!("attempt-{restart}"));
                fs::create_dir_all(&folder).expect("mkdir");
                let file = fs::File::create(folder.join(format!("rank-{rank}.rslog"))).expect("create");
                // Nonce and pid distinguish logs: those of the second attempt are other processes.
                let mut log = SyntheticLog::new_of(
                    file,
                    rank,
                    2,
                    "host-a",
                    u64::from(restart) << 8,
                    1 + u32::from(restart),
                )
                .expect("log");
                log.property("env.TORCHELASTIC_RUN_ID", "job-7")
                    .expect("property");
                log.property("env.TORCHELASTIC_RESTART_COUNT", &restart.to_string())
                    .expect("property");
                log.communicator(0, rank, 2, restart + 1).expect("communicator");
                log
            })
            .collect();
        job.fill(&mut logs).expect("fill");
        for log in logs {
            log.end().expect("end");
        }
    }
    let session = merged(&run);
    assert_eq!(
        (session.attempts.len(), session.worlds.len(), session.ranks.len()),
        (2, 2, 4)
    );
    let numbers: Vec<_> = session
        .ranks
        .iter()
        .map(|rank| (rank.attempt, rank.number.value))
        .collect();
    assert_eq!(
        numbers,
        vec![(0, Some(0)), (0, Some(1)), (1, Some(0)), (1, Some(1))]
    );
    let names: std::collections::BTreeSet<_> = session.ranks.iter().map(|rank| &rank.name).collect();
    assert_eq!(names.len(), 4);
    assert_eq!(session.matching.incomplete, 0);
    assert_eq!(session.matching.complete, session.totals.operations / 2);
}

/// Writes two groups of two processes without a launcher's identity. The second group begins at `second`, in ticks.
fn two_groups(run: &Path, second: u64) {
    for (group, begin) in [(0u32, START), (1, second)] {
        for rank in 0..2u32 {
            let folder = run.join(format!("group-{group}"));
            fs::create_dir_all(&folder).expect("mkdir");
            let file = fs::File::create(folder.join(format!("rank-{rank}.rslog"))).expect("create");
            let process = (u64::from(group) << 8, 1 + group);
            let mut log = SyntheticLog::new_at(file, (rank, 2), "host-a", process, begin).expect("log");
            log.communicator(0, rank, 2, 1 + group as u8)
                .expect("communicator");
            for number in 1..=20 {
                let at = begin + number * 1_000_000;
                log.push(0, call(Operation::AllReduce, at, at + 1000, 0, 64, 0));
            }
            log.end().expect("end");
        }
    }
}

#[test]
fn groups_that_live_at_the_same_time_are_worlds_of_one_attempt() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let shape = |second: u64| {
        two_groups(&run, second);
        let session = merged(&run);
        let last = session.ranks.last().expect("a rank").name.clone();
        (
            session.attempts.len(),
            session.worlds.len(),
            session.ranks.len(),
            last,
        )
    };
    assert_eq!(shape(START), (1, 2, 4, "rank 1, world 1".to_owned()));
    // The second group started late, while the first one ran.
    assert_eq!(shape(START + 5_000_000).0, 1);
    // It started when the first one had ended.
    assert_eq!(
        shape(START + 30_000_000),
        (2, 2, 4, "rank 1, attempt 1".to_owned())
    );
}

#[test]
fn sub_groups_know_their_members_by_world_rank() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    for rank in 0..4u32 {
        let mut log = SyntheticLog::create(&run, rank, 4, "host-a").expect("create");
        log.communicator(0, rank, 4, 1).expect("world");
        // Overlapping groups {0, 1} and {1, 2, 3}. The second numbers its members differently.
        let at = |n: u64| START + n * 1000 + u64::from(rank);
        if rank < 2 {
            log.communicator(1, rank, 2, 2).expect("group");
            let call = call(Operation::AllReduce, at(1), at(2), 0, 64, 0);
            log.push(
                0,
                Record {
                    communicator: 1,
                    ..call
                },
            );
        }
        if rank > 0 {
            log.communicator(2, 3 - rank, 3, 3).expect("group");
            let call = call(Operation::AllReduce, at(3), at(4), 0, 64, 0);
            log.push(
                0,
                Record {
                    communicator: 2,
                    ..call
                },
            );
        }
        log.push(0, call(Operation::Barrier, at(5), at(6), 0, 0, 0));
        log.end().expect("end");
    }
    let session = merged(&run);
    assert_eq!(session.matching.complete, 3);
    let members: Vec<_> = session
        .communicators
        .iter()
        .map(|known| (known.role.as_str(), known.members.clone()))
        .collect();
    assert!(members.contains(&("world", vec![Some(0), Some(1), Some(2), Some(3)])));
    assert!(members.contains(&("sub-group", vec![Some(0), Some(1)])));
    assert!(members.contains(&("sub-group", vec![Some(3), Some(2), Some(1)])));
}

#[test]
fn two_hosts_share_an_axis_with_a_stated_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    for rank in 0..2u32 {
        let host = if rank == 0 { "host-a" } else { "host-b" };
        let mut log = SyntheticLog::create(&run, rank, 2, host).expect("create");
        log.communicator(0, rank, 2, 1).expect("communicator");
        log.push(
            0,
            call(Operation::AllReduce, START + 10, START + 100_000, 0, 1 << 16, 0),
        );
        log.end().expect("end");
    }
    let session = merged(&run);
    assert_eq!(session.hosts.len(), 2);
    // One all-reduce of 0.1 ms gives a tighter bound than wall clocks of ±0.5 ms each.
    assert_eq!(session.axis.method, AxisMethod::Messages);
    let error = *session
        .axis
        .error_between_hosts_ns
        .get()
        .expect("bounded from both sides");
    assert!((99_990..110_000).contains(&error), "{error}");
    // The error is too large to say which rank waited in it.
    assert_eq!(session.operations[0].classes.inconclusive, 1);
    assert_eq!(session.communicators[0].scope, Scope::AcrossHosts);
}

#[test]
fn losses_are_in_the_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let [mut zero, one] = pair(&run);
    zero.losses(&[Loss {
        cause: LossCause::Disk,
        kind: RecordKind::Call,
        count: 17,
        first_ticks: START + 5,
        last_ticks: START + 9,
    }])
    .expect("losses");
    zero.end().expect("end");
    one.end().expect("end");
    let session = merged(&run);
    assert_eq!(session.totals.lost, 17);
    assert_eq!(session.ranks[0].lost, 17);
    assert_eq!((session.losses[0].first_ns, session.losses[0].last_ns), (5, 9));
    assert!(
        session
            .findings
            .iter()
            .any(|finding| finding.kind == "losses" && finding.title.contains("17"))
    );
}

#[test]
fn only_a_session_is_ever_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    Ddp {
        ranks: 2,
        steps: 3,
        ..Ddp::default()
    }
    .write(&run)
    .expect("write");
    let precious = folder.path().join("precious");
    fs::create_dir(&precious).expect("mkdir");
    fs::write(precious.join("thesis.txt"), "…").expect("write");
    let elsewhere = MergeOptions {
        output: precious.clone(),
        ..options(&run)
    };
    assert!(matches!(
        merge(&elsewhere, &mut |_| {}),
        Err(MergeError::Occupied(_))
    ));
    assert!(precious.join("thesis.txt").exists());
    assert_eq!(merged(&run).totals.operations, merged(&run).totals.operations);
}

#[test]
fn a_session_becomes_a_trace_with_every_operation() {
    let work = Ddp {
        ranks: 3,
        steps: 30,
        slow: Some((1, 100_000)),
        ..Ddp::default()
    };
    let (_folder, run, session) = job(&work);
    let trace = run.join("trace.pftrace");
    let whole = export(
        &run.join("session"),
        &session,
        &PerfettoOptions::whole(trace.clone()),
        &mut |_| {},
    )
    .expect("export");
    assert_eq!(
        (whole.operations, whole.dropped, whole.cut_off_ns),
        (work.operations(), 0, None)
    );
    assert_eq!(fs::metadata(&trace).expect("a file").len(), whole.written.bytes);
    // Calls and their communicator's lanes, steps, waits.
    let expected = 2 * work.operations() + 3 * 29 + 3 * (2 + 31);
    assert_eq!(whole.written.slices, expected);
    assert_eq!(whole.written.counter_values, 4 * work.operations());
    let small = PerfettoOptions {
        max_bytes: whole.written.bytes / 3,
        ..PerfettoOptions::whole(trace.clone())
    };
    let cut = export(&run.join("session"), &session, &small, &mut |_| {}).expect("export");
    assert!(cut.cut_off_ns.is_some_and(|at| at > 0));
    assert!(
        cut.written.bytes < whole.written.bytes / 2,
        "{} of {}",
        cut.written.bytes,
        whole.written.bytes
    );
    let part = PerfettoOptions {
        ranks: Some(vec![1]),
        range_ns: Some((0, 10_000_000)),
        ..PerfettoOptions::whole(trace)
    };
    let part = export(&run.join("session"), &session, &part, &mut |_| {}).expect("export");
    assert_eq!(part.ranks, 1);
    assert!(part.operations < work.operations() / 3 && part.operations > 10);
}

/// Generates a small number, a timestamp or any number.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..6,
        3 => 1_700_000_000_000_000_000u64..1_700_000_000_900_000_000,
        1 => any::<u64>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// With any content of the records of calls, groups, devices and marks, the merge reports what it can and counts
    /// every operation. It does not panic, although this build checks arithmetic.
    #[test]
    fn any_records_of_devices_can_be_merged(
        records in proptest::collection::vec(
            (
                prop_oneof![3 => Just(RecordKind::Enqueue), 3 => Just(RecordKind::Device), 1 => Just(RecordKind::Group),
                    1 => Just(RecordKind::Mark)],
                prop_oneof![4 => Just(1u8), 1 => 0u8..24], any::<u8>(), 0u32..3, 0u32..40, -1i32..3, number(), number(),
                number(), 0u64..2_000_000,
            ),
            0..400,
        ),
        version in "[0-9]?",
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        for rank in 0..2u32 {
            let mut log = SyntheticLog::create(folder.path(), rank, 2, "host-a").expect("create");
            log.property("source.nccl_plugin", &version).expect("property");
            log.communicator_of(rankscope_ranklog::Library::Nccl, 0, rank, 2, 9).expect("communicator");
            log.communicator(1, rank, 2, 10).expect("communicator");
            let mut at = START;
            for &(kind, operation, flags, communicator, sequence, peer, object, aux, bytes, duration) in &records {
                at += 1_000;
                log.push(0, Record {
                    operation, flags, communicator, sequence, peer, object, aux, bytes,
                    element_bytes: 4,
                    tag: flags.into(),
                    enter_ticks: at,
                    leave_ticks: at + 500,
                    ..Record::new(kind)
                });
                at += duration;
            }
            log.end().expect("end");
        }
        let session = merged(folder.path());
        let rows: usize = (0..2).map(|rank| operations(folder.path(), rank).len()).sum();
        prop_assert!(rows as u64 >= session.totals.operations);
        prop_assert!(rows as u64 <= session.totals.operations + session.totals.captured);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The same holds for CUPTI records: works, launches, links, streams and coverage, at any time and for any call.
    /// They are mixed with calls and groups of NCCL and with losses.
    #[test]
    fn any_records_of_cupti_can_be_merged(
        records in proptest::collection::vec(
            (
                prop_oneof![8 => Just(RecordKind::Activity), 3 => Just(RecordKind::Enqueue), 1 => Just(RecordKind::Group)],
                0u8..12, any::<u8>(), 0u32..3, 0u32..40, -1i32..3, number(), number(), number(), 0u64..2_000_000, any::<bool>(),
            ),
            0..400,
        ),
        lost in proptest::option::of((number(), number())),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        for rank in 0..2u32 {
            let mut log = SyntheticLog::create(folder.path(), rank, 2, "host-a").expect("create");
            log.property("source.cupti", "18").expect("property");
            log.communicator_of(rankscope_ranklog::Library::Nccl, 0, rank, 2, 9).expect("communicator");
            log.communicator(1, rank, 2, 10).expect("communicator");
            for (number, name) in ["ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "my_kernel", "ncclDevKernel_SendRecv"]
                .iter()
                .enumerate()
            {
                log.definition(KIND_TEXT, Payload::text(number as u32, name.as_bytes())).expect("text");
            }
            for index in 0..2 {
                let stream = Stream { index, device: 0, context: index, number: index };
                log.definition(KIND_STREAM, Payload::stream(stream)).expect("stream");
            }
            let mut at = START;
            for &(kind, operation, flags, communicator, sequence, peer, object, aux, bytes, duration, is_wild) in &records {
                at += 1_000;
                let is_activity = kind == RecordKind::Activity;
                // Works are recorded long after they ran, or at impossible times.
                let (enter, leave) = match (is_activity, is_wild) {
                    (true, true) => (object, object.wrapping_add(aux).min(1 << 62)),
                    (true, false) => (at - duration.min(at - START), at),
                    _ => (at, at + 500),
                };
                log.push(0, Record {
                    operation: if is_activity { operation } else { operation % 6 },
                    flags,
                    communicator,
                    sequence,
                    peer,
                    object: if is_activity { object } else { object % 3 },
                    aux: if is_activity { aux } else { aux % 5 },
                    bytes,
                    element_bytes: flags % 9,
                    tag: sequence,
                    enter_ticks: enter,
                    leave_ticks: leave,
                    ..Record::new(kind)
                });
                at += duration;
            }
            if let Some((first_ticks, last_ticks)) = lost {
                let loss = Loss {
                    cause: LossCause::NoBuffer,
                    kind: RecordKind::Activity,
                    count: 1,
                    first_ticks,
                    last_ticks,
                };
                log.losses(&[loss]).expect("losses");
            }
            log.end().expect("end");
        }
        assert_same_as_of_many(folder.path());
        let session = merged(folder.path());
        for rank in 0..2 {
            let path = rank_path::<WorkRow>(&folder.path().join("session"), rank);
            let works = if path.exists() { TableReader::<WorkRow>::read_all(&path).expect("works") } else { Vec::new() };
            let reported = session.activity.iter().find(|entry| entry.rank == rank);
            let counted = reported.map_or(0, |entry| {
                entry.kernels + entry.communication_kernels + entry.copies + entry.sets + entry.graphs
            });
            prop_assert_eq!(works.len() as u64, counted);
            prop_assert!(works.is_sorted_by_key(|work| work.start_ns));
            prop_assert!(reported.is_none_or(|entry| entry.adds_up));
        }
    }
}
