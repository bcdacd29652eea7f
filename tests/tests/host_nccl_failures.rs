//! Tests that failures of the real NCCL are the same with and without rankscope, and are recorded (`tests/host-nccl`).

use std::time::Duration;

use rankscope_ranklog::record::{FLAG_FAILED, FLAG_SEQUENCE_UNKNOWN, RecordKind};
use rankscope_tests::host_nccl::calls::{calls, comparable, operations, recorded as call_of, reported};
use rankscope_tests::host_nccl::{HostNccl, over_sockets};
use rankscope_tests::job::{Finished, Job};
use rankscope_tests::recorded;
use rankscope_tests::results::{self, integer};
use rankscope_tests::turn::{self, Turn};
use serde_json::Value;

const RANKS: usize = 3;
const KILLED: i32 = 128 + libc::SIGKILL;

/// Runs a case with and without a recording, and asserts the same calls and results. Returns the recording.
fn expect_the_same(
    turn: &Turn,
    job: impl Fn() -> Job,
    statuses: [i32; RANKS],
    context: &str,
) -> (tempfile::TempDir, Finished) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let job = || job().limit(Duration::from_secs(120));
    let plain = job().run(turn);
    plain.expect_statuses(&statuses);
    let traced = job().record_into(directory.path()).run(turn);
    traced.expect_statuses(&statuses);
    for rank in 0..RANKS {
        let context = format!("{context} rank {rank}");
        let plain = comparable(&plain, rank);
        assert!(plain.len() > 1, "{context}: {plain:?}");
        assert_eq!(comparable(&traced, rank), plain, "{context}");
    }
    (directory, traced)
}

/// Returns what a rank got from a function, in order.
fn results_of(finished: &Finished, rank: usize, function: &str) -> Vec<u64> {
    let lines = finished.truth(rank).into_iter();
    let of_function = lines.filter(|line| line["call"] == function);
    of_function
        .map(|line| line["result"].as_u64().expect("a result"))
        .collect()
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn aborts_return_the_same_with_and_without_the_preload() {
    let turn = turn::take();
    for nccl in HostNccl::all() {
        for case in ["abort", "hang"] {
            let context = format!("NCCL {} {case}", nccl.version);
            expect_the_same(&turn, || nccl.job(RANKS, [case]), [0; RANKS], &context);
            // Here the proxy's threads are in the middle of the transfer, too.
            let job = || over_sockets(nccl.job(RANKS, [case]));
            let context = format!("{context} over sockets");
            let (directory, finished) = expect_the_same(&turn, job, [0; RANKS], &context);
            let session = results::session(directory.path());
            assert_eq!(integer(&session, "/totals/lost"), 0, "{context}");
            assert_eq!(integer(&session, "/totals/failed"), 0, "{context}");
            let (missing, called) = if case == "hang" { (1, RANKS - 1) } else { (0, 0) };
            assert_eq!(integer(&session, "/matching/incomplete"), missing, "{context}");
            assert_eq!(
                integer(&session, "/totals/operations") as usize,
                called,
                "{context}"
            );
            drop(finished);
        }
    }
    drop(turn);
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn refused_calls_return_the_same_and_are_recorded_as_refused() {
    let turn = turn::take();
    for nccl in HostNccl::all() {
        let context = format!("NCCL {} refused", nccl.version);
        let (directory, finished) =
            expect_the_same(&turn, || nccl.job(RANKS, ["refused"]), [0; RANKS], &context);
        for (rank, log) in recorded::read_ranks(directory.path(), &finished.pids)
            .iter()
            .enumerate()
        {
            log.expect_whole();
            let truth = operations(&finished, rank);
            let calls = calls(log);
            assert_eq!(calls.len(), truth.len(), "{context}");
            for (line, record) in truth.iter().zip(&calls) {
                let (is, expected) = (call_of(record), reported(line));
                assert_eq!(
                    (is.operation, is.bytes, is.result, is.is_in_group),
                    (
                        expected.operation,
                        expected.bytes,
                        expected.result,
                        expected.is_in_group
                    ),
                    "{context}: {line}"
                );
                let is_refused = record.flags & FLAG_FAILED != 0;
                assert_eq!(is_refused, expected.result != 0, "{context}: {line}");
            }
            let refused = calls.iter().filter(|record| record.flags & FLAG_FAILED != 0);
            let numbered = refused.filter(|record| record.flags & FLAG_SEQUENCE_UNKNOWN == 0);
            assert_eq!(numbered.count(), 0, "{context}");
            // The group and the creation of two communicators.
            let failed = |kind| log.of_kind(kind).filter(|record| record.flags & FLAG_FAILED != 0);
            assert_eq!(failed(RecordKind::Group).count(), 1, "{context}");
            let created: Vec<u32> = failed(RecordKind::Call).map(|record| record.tag).collect();
            let expected = ["ncclCommInitRank", "ncclCommInitAll", "ncclCommSplit"];
            let expected: Vec<u64> = expected
                .iter()
                .flat_map(|function| results_of(&finished, rank, function))
                .collect();
            assert_eq!(
                created.iter().map(|&code| u64::from(code)).collect::<Vec<_>>(),
                expected,
                "{context}"
            );
        }
        let session = results::session(directory.path());
        // Six calls are refused themselves, and one with its group.
        assert_eq!(
            integer(&session, "/totals/failed") as usize,
            7 * RANKS,
            "{context}"
        );
        expect_matched(&session, 1, 7 * RANKS, &context);
    }
    drop(turn);
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn a_group_that_one_rank_is_refused_shifts_no_number() {
    let turn = turn::take();
    for nccl in HostNccl::all() {
        let context = format!("NCCL {} onerefused", nccl.version);
        let (directory, _finished) =
            expect_the_same(&turn, || nccl.job(RANKS, ["onerefused"]), [0; RANKS], &context);
        let session = results::session(directory.path());
        assert_eq!(integer(&session, "/totals/failed"), 2, "{context}");
        // Four all-reduces and three messages.
        expect_matched(&session, 7, 2, &context);
    }
    drop(turn);
}

/// Asserts the number of matched instances, and that only refused calls are not matched.
fn expect_matched(session: &Value, instances: i64, refused: usize, context: &str) {
    let matching = &session["matching"];
    let of = |name: &str| integer(matching, &format!("/{name}"));
    assert_eq!(
        of("complete") + of("enqueued"),
        instances,
        "{context}: {matching}"
    );
    assert_eq!(of("without_key") as usize, refused, "{context}: {matching}");
    for name in ["incomplete", "mismatched", "unmatched_messages"] {
        assert_eq!(of(name), 0, "{context}: {matching}");
    }
}

#[test]
#[ignore = "two minutes: make host-nccl"]
fn a_peer_that_dies_is_named_with_the_error_of_the_others() {
    const REMOTE_ERROR: u64 = 6;
    let turn = turn::take();
    let mut versions = 0;
    let mut failures_of_all = 0;
    for nccl in HostNccl::all() {
        versions += 1;
        for is_network in [false, true] {
            let context = format!("NCCL {} die, network: {is_network}", nccl.version);
            let job = || {
                let job = nccl.job(RANKS, ["die"]);
                if is_network { over_sockets(job) } else { job }
            };
            let (directory, finished) = expect_the_same(&turn, job, [0, 0, KILLED], &context);
            let mut failures = 0;
            for (rank, log) in recorded::read_ranks(directory.path(), &finished.pids)
                .iter()
                .enumerate()
            {
                assert_eq!(log.lost(RecordKind::Enqueue), 0, "{context}");
                assert_eq!(calls(log).len(), operations(&finished, rank).len(), "{context}");
                // The program asked hundreds of times, and got the error once.
                let recorded: Vec<u64> = log
                    .of_kind(RecordKind::Failure)
                    .map(|record| record.tag.into())
                    .collect();
                let mut expected = results_of(&finished, rank, "ncclCommGetAsyncError");
                expected.retain(|&state| state != 0 && state != 7);
                assert_eq!(recorded, expected, "{context} rank {rank}");
                // Without a network, nobody notices.
                assert!(
                    recorded.is_empty() || is_network,
                    "{context} rank {rank}: {recorded:?}"
                );
                assert!(
                    recorded.iter().all(|&code| code == REMOTE_ERROR),
                    "{context} rank {rank}: {recorded:?}"
                );
                failures += recorded.len();
            }
            let session = results::session(directory.path());
            let listed = &session["matching"]["listed"][0];
            assert_eq!(
                listed["missing_members"],
                serde_json::json!([RANKS - 1]),
                "{context}: {listed}"
            );
            let findings = session["findings"].as_array().expect("a list");
            let failed = findings
                .iter()
                .find(|finding| finding["kind"] == "communicator-error");
            assert_eq!(
                failed.is_some(),
                failures > 0,
                "{context}: {}",
                session["findings"]
            );
            println!("{context}: {failures} failures");
            failures_of_all += failures;
            if let Some(failed) = failed {
                assert_eq!(failed["severity"], "critical", "{context}: {failed}");
                let text = failed.to_string();
                assert!(text.contains("ncclRemoteError"), "{context}: {text}");
                assert_eq!(
                    failed["ranks"],
                    serde_json::json!([RANKS - 1]),
                    "{context}: {failed}"
                );
                assert!(text.contains("dying") || !nccl.has_names(), "{context}: {text}");
            }
        }
    }
    // Whether a version notices depends on its state when the peer dies.
    assert!(failures_of_all > 0 || versions == 0, "no version noticed");
    drop(turn);
}
