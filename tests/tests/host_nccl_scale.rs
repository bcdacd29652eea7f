//! Tests that recordings of many ranks of the real NCCL are whole (`tests/host-nccl`).

use rankscope_formats::session::InstanceState;
use rankscope_tests::host_nccl::calls::{calls, expect_as_reported, operations};
use rankscope_tests::host_nccl::{HostNccl, Run};
use rankscope_tests::job::Job;
use rankscope_tests::results::{self, integer};
use rankscope_tests::turn::{self, Turn};
use serde_json::Value;

/// Asserts that all calls were recorded, and that each is matched on all ranks. Returns the report.
fn expect_whole(turn: &Turn, job: Job, ranks: usize, context: &str) -> Value {
    let run = Run::of(turn, job);
    let mut all_calls = 0;
    for (rank, log) in run.logs().iter().enumerate() {
        log.expect_whole();
        let truth = operations(&run.finished, rank);
        let calls = calls(log);
        let context = format!("{context} rank {rank}");
        assert!(!truth.is_empty(), "{context}");
        assert_eq!(calls.len(), truth.len(), "{context}");
        for (line, record) in truth.iter().zip(&calls) {
            expect_as_reported(record, line, &context);
        }
        all_calls += calls.len();
    }
    let session = run.session();
    let of = |path: &str| integer(&session, path);
    assert_eq!(of("/totals/operations") as usize, all_calls, "{context}");
    assert_eq!(of("/coverage/ranks_seen") as usize, ranks, "{context}");
    assert_eq!(of("/coverage/ranks_expected/value") as usize, ranks, "{context}");
    let nothing = ["lost", "failed", "in_flight"].map(|name| of(&format!("/totals/{name}")));
    assert_eq!(nothing, [0; 3], "{context}: {}", session["totals"]);
    let matching = &session["matching"];
    let unexplained = [
        "incomplete",
        "mismatched",
        "unmatched_messages",
        "without_key",
        "causality_violations",
    ];
    for name in unexplained {
        assert_eq!(integer(matching, &format!("/{name}")), 0, "{context}: {matching}");
    }
    for rank in 0..ranks {
        for row in run.rows(rank) {
            assert!(
                matches!(row.matched, InstanceState::Complete | InstanceState::Enqueued),
                "{context} rank {rank}: {row:?}"
            );
        }
        if session["devices"][rank].is_null() {
            continue;
        }
        let of = |name: &str| of(&format!("/devices/{rank}/{name}"));
        assert_eq!(
            [of("without_call"), of("contradictions")],
            [0; 2],
            "{context} rank {rank}"
        );
    }
    println!(
        "{context}: {all_calls} calls in {} instances, {} with times, in {:.0} s",
        of("/totals/instances"),
        of("/totals/operations") - of("/totals/enqueued"),
        run.finished.duration.as_secs_f64()
    );
    session
}

#[test]
#[ignore = "two minutes: make host-nccl"]
fn eight_ranks_are_matched_without_loss() {
    const RANKS: usize = 8;
    // Collectives, messages, several communicators and groups.
    const CASES: [&str; 6] = ["even", "split", "ring", "mixedgroup", "group", "reducescatter"];
    let turn = turn::take();
    for nccl in HostNccl::all() {
        let context = format!("NCCL {}, {RANKS} ranks", nccl.version);
        let session = expect_whole(&turn, nccl.job(RANKS, CASES), RANKS, &context);
        if nccl.plugin_version() >= 4 {
            assert_eq!(integer(&session, "/totals/enqueued"), 0, "{context}");
            let complete = integer(&session, "/matching/complete");
            assert_eq!(complete, integer(&session, "/totals/instances"), "{context}");
        }
    }
    drop(turn);
}

#[test]
#[ignore = "two minutes: make host-nccl"]
fn sixty_four_ranks_on_eight_hosts_are_matched_without_loss() {
    // NCCL supports 32 devices of a host.
    const RANKS: usize = 64;
    const PER_HOST: usize = 8;
    const STEPS: usize = 5;
    let turn = turn::take();
    if let Some(nccl) = HostNccl::with_device_times().last() {
        let context = format!("NCCL {}, {RANKS} ranks", nccl.version);
        let job = nccl
            .job_on_hosts(RANKS, PER_HOST, ["even"])
            .env("LATE_STEPS", STEPS.to_string())
            // The recorders of all ranks need a processor before the first call.
            .env("START_WAIT_US", "5000000")
            // Each channel is a thread per rank.
            .env("NCCL_MAX_NCHANNELS", "1")
            .env("NCCL_BUFFSIZE", "262144");
        let session = expect_whole(&turn, job, RANKS, &context);
        assert_eq!(
            integer(&session, "/matching/complete") as usize,
            STEPS,
            "{context}"
        );
        assert_eq!(results::problems_with(&session, ""), 0, "{context}");
    }
    drop(turn);
}
