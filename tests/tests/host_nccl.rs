//! Tests rankscope on the real NCCL, which runs here without a GPU (`tests/host-nccl`).
//!
//! Calls, groups, communicators, captures and calls of the plugin are those of the real library. The device side is a
//! stand-in that reports the truth. `make host-nccl` builds the library from NCCL's sources. Without it, these tests
//! report so and check nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use rankscope_formats::session::{OperationRow, OperationState};
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::{Enqueued, FLAG_SIMULATED, Record, RecordKind};
use rankscope_tests::host_nccl::calls::{calls, comparable, expect_as_reported, operations};
use rankscope_tests::host_nccl::{HostNccl, Run, is_fatal};
use rankscope_tests::job::Finished;
use rankscope_tests::nccl::series;
use rankscope_tests::recorded::{self, Recorded};
use rankscope_tests::results::integer;
use rankscope_tests::truth::{self, number};
use rankscope_tests::turn::Turn;
use rankscope_tests::{results, turn};
use serde_json::Value;

const RANKS: usize = 3;
/// Cases in which one process drives several ranks, so that the order of its calls is that of its threads.
const SEVERAL_RANKS: [&str; 2] = ["initall", "threads"];
/// Cases that make many calls, wait for a long time, or make calls that the program does not report. Other tests run some
/// of them.
const LONG: [&str; 12] = [
    "even",
    "late",
    "latea2a",
    "latebroadcast",
    "lategraph",
    "latenoself",
    "latep2p",
    "many",
    "onerefused",
    "price",
    "refused",
    "simulate",
];
/// Maximum difference between two readings of a clock for one event, in nanoseconds.
const STAMPS_NS: i64 = 50_000;
/// Steps of the cases `late…` and `even`.
const STEPS: usize = 10;
/// How late the late rank is in each step.
const LATE_MS: f64 = 50.0;

/// Returns the ordinary cases of a version.
fn ordinary(nccl: &HostNccl) -> Vec<String> {
    let mut cases = nccl.cases();
    cases.retain(|case| {
        let case = case.as_str();
        !is_fatal(case) && !SEVERAL_RANKS.contains(&case) && !LONG.contains(&case)
    });
    cases
}

/// Records cases, and returns the run with its directory.
fn record(turn: &Turn, nccl: &HostNccl, cases: &[&str]) -> (tempfile::TempDir, Finished) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let job = nccl.job(RANKS, cases.iter().copied());
    let finished = job
        .limit(Duration::from_secs(300))
        .record_into(directory.path())
        .run(turn);
    finished.expect_status(0);
    (directory, finished)
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn every_call_is_recorded_as_the_program_reports_it() {
    let turn = turn::take();
    for nccl in HostNccl::all() {
        let cases = ordinary(nccl);
        let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
        let (directory, finished) = record(&turn, nccl, &cases);
        let logs = recorded::read_ranks(directory.path(), &finished.pids);
        // The program's name of each communicator, with the identity that was recorded.
        let mut identities: BTreeMap<String, [u8; 16]> = BTreeMap::new();
        for (rank, log) in logs.iter().enumerate() {
            log.expect_whole();
            let truth = operations(&finished, rank);
            let calls = calls(log);
            let context = format!("NCCL {} rank {rank}", nccl.version);
            assert!(truth.len() > 300, "{context}: {} calls", truth.len());
            assert_eq!(calls.len(), truth.len(), "{context}");
            for (line, record) in truth.iter().zip(&calls) {
                expect_as_reported(record, line, &context);
                let communicator = log.communicator(record);
                let name = truth::communicator(line);
                let known = *identities.entry(name.clone()).or_insert(communicator.identity);
                // New members of a grown communicator know it by its id, and others by its parent. The merge joins both.
                if name != "grown" {
                    assert_eq!(known, communicator.identity, "{context}: {name}");
                }
            }
            expect_groups(log, &truth, &calls, &context);
        }
        let mut distinct: Vec<&[u8; 16]> = identities.values().collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(identities.len() > 10, "{identities:?}");
        assert_eq!(distinct.len(), identities.len(), "{identities:?}");
        println!(
            "NCCL {}: {} calls of rank 0 on {} communicators, as reported",
            nccl.version,
            operations(&finished, 0).len(),
            identities.len()
        );
    }
    drop(turn);
}

/// Asserts that calls share a recorded group exactly if the program made them in one.
fn expect_groups(log: &Recorded, truth: &[Value], calls: &[&Record], context: &str) {
    let mut groups: BTreeMap<u64, u32> = BTreeMap::new();
    for (line, record) in truth.iter().zip(calls) {
        let (group, recorded) = (number(line, "group"), Enqueued::from_aux(record.aux).group);
        if group > 0 {
            let known = *groups.entry(group).or_insert(recorded);
            assert_eq!(known, recorded, "{context}: {line}");
        }
    }
    let mut distinct: Vec<u32> = groups.values().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(!groups.is_empty(), "{context}");
    assert_eq!(distinct.len(), groups.len(), "{context}");
    let simulated = log
        .of_kind(RecordKind::Group)
        .filter(|record| record.flags & FLAG_SIMULATED != 0);
    assert_eq!(simulated.count(), 0, "{context}");
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn results_and_return_codes_are_the_same_with_and_without_the_preload() {
    let turn = turn::take();
    for nccl in HostNccl::all() {
        let cases = ordinary(nccl);
        let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
        let job = nccl.job(RANKS, cases.iter().copied());
        let plain = job.limit(Duration::from_secs(300)).run(&turn);
        plain.expect_status(0);
        let (_directory, traced) = record(&turn, nccl, &cases);
        for rank in 0..RANKS {
            let (plain, traced) = (comparable(&plain, rank), comparable(&traced, rank));
            assert!(plain.len() > 100, "{}", plain.len());
            for (one, other) in plain.iter().zip(&traced) {
                assert_eq!(one, other, "NCCL {} rank {rank}", nccl.version);
            }
            assert_eq!(plain.len(), traced.len(), "NCCL {} rank {rank}", nccl.version);
        }
    }
    drop(turn);
}

fn timed(turn: &Turn, nccl: &HostNccl, cases: &[&str]) -> Run {
    Run::of(turn, nccl.job(RANKS, cases.iter().copied()))
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn device_times_are_those_of_the_kernels_within_the_stated_error() {
    // Each launch of these cases has one operation.
    const CASES: [&str; 6] = [
        "allreduce",
        "allgather",
        "reducescatter",
        "reduce",
        "late",
        "graph",
    ];
    let turn = turn::take();
    for nccl in HostNccl::with_device_times() {
        let cases = if nccl.times_end_with_a_graph() { 5 } else { 6 };
        let run = timed(&turn, nccl, &CASES[..cases]);
        let session = run.session();
        let logs = run.logs();
        let mut off_by = Vec::new();
        for (rank, log) in logs.iter().enumerate() {
            let context = format!("NCCL {} rank {rank}", nccl.version);
            let version = log.log.properties.get("source.nccl_plugin");
            assert_eq!(version, Some(&nccl.plugin_version().to_string()), "{context}");
            let error_ns = integer(&session, &format!("/devices/{rank}/widest_error_ns/value"));
            let of = |name: &str| integer(&session, &format!("/devices/{rank}/{name}"));
            assert_eq!(
                [of("bypassed"), of("without_call"), of("contradictions")],
                [0; 3],
                "{context}"
            );
            let all = run.rows(rank);
            let ahead_ns = Run::axis_ahead_ns(log, &all);
            let mut rows: Vec<&OperationRow> = all
                .iter()
                .filter(|row| row.state == OperationState::Completed)
                .collect();
            rows.sort_by_key(|row| row.enter_ns);
            let launches = run.launches(rank);
            assert!(!launches.is_empty(), "{context}");
            assert_eq!(rows.len(), launches.len(), "{context}");
            for (row, (start_ns, end_ns)) in rows.iter().zip(launches) {
                let leave_ns = row.leave_ns.expect("a time");
                for (found, expected) in [(row.enter_ns, start_ns), (leave_ns, end_ns)] {
                    let late_ns = found - (expected + ahead_ns);
                    assert!(
                        (-STAMPS_NS..=error_ns + STAMPS_NS).contains(&late_ns),
                        "{context}: {late_ns} ns late, at most {error_ns} stated: {row:?}"
                    );
                    off_by.push(late_ns.abs());
                }
            }
        }
        off_by.sort_unstable();
        let median_ns = off_by[off_by.len() / 2];
        println!(
            "NCCL {}: {} times, off by {median_ns} ns in the median, {} at p99",
            nccl.version,
            off_by.len(),
            off_by[off_by.len() * 99 / 100]
        );
        // The stated error may be wide, and would then admit wrong times.
        assert!(median_ns < STAMPS_NS, "NCCL {}: {median_ns} ns", nccl.version);
    }
    drop(turn);
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn a_rank_that_is_late_by_50_ms_is_named_at_its_cost() {
    let turn = turn::take();
    for nccl in HostNccl::with_device_times() {
        let cases = ["late", "latenoself", "lategraph"];
        let timed_cases = if nccl.times_end_with_a_graph() { 2 } else { 3 };
        for case in &cases[..timed_cases] {
            let context = format!("NCCL {} {case}", nccl.version);
            let session = timed(&turn, nccl, &[case]).session();
            let ranks = results::late_ranks(&session);
            assert_eq!(ranks, [1], "{context}: {}", session["findings"]);
            let cost_ms = results::late_cost_ms(&session);
            let share = cost_ms / LATE_MS;
            println!("{context}: {cost_ms:.1} ms per step");
            assert!((0.7..1.5).contains(&share), "{context}: {cost_ms} ms per step");
        }
        let session = timed(&turn, nccl, &["even"]).session();
        let context = format!("NCCL {} even", nccl.version);
        assert!(results::late_ranks(&session).is_empty(), "{context}");
        // All operations have times, so a late rank would have been seen.
        let operations = integer(&session, "/totals/operations");
        assert_eq!(operations as usize, RANKS * STEPS, "{context}");
        assert_eq!(integer(&session, "/totals/enqueued"), 0, "{context}");
    }
    drop(turn);
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn a_late_member_of_a_broadcast_is_named_where_broadcasts_have_times() {
    let turn = turn::take();
    for nccl in HostNccl::with_device_times() {
        let context = format!("NCCL {} latebroadcast", nccl.version);
        let session = timed(&turn, nccl, &["latebroadcast"]).session();
        let ranks = results::late_ranks(&session);
        let enqueued = integer(&session, "/totals/enqueued") as usize;
        if nccl.times_broadcasts() {
            assert_eq!(ranks, [1], "{context}: {}", session["findings"]);
            assert_eq!(enqueued, 0, "{context}");
            let share = results::late_cost_ms(&session) / LATE_MS;
            println!("{context}: {share:.2} of the lateness");
            // On a busy machine, the waiting members are late themselves.
            assert!((0.4..1.5).contains(&share), "{context}: {share} of the lateness");
        } else {
            // The report says that it does not know.
            assert!(ranks.is_empty(), "{context}: {ranks:?}");
            assert_eq!(enqueued, RANKS * STEPS, "{context}");
            let reason = &session["waits"]["reason"];
            assert_eq!(reason, "completion times were not recorded", "{context}");
        }
    }
    drop(turn);
}

/// Ranks that send to each other in one direction are a pipeline. Its first stage is not a late replica of
/// another rank.
#[test]
#[ignore = "a minute: make host-nccl"]
fn a_late_sender_is_the_stage_for_which_the_receiver_waits() {
    const PAIR: usize = 2;
    let turn = turn::take();
    for nccl in HostNccl::with_device_times() {
        let context = format!("NCCL {} latep2p", nccl.version);
        let session = Run::of(&turn, nccl.job(PAIR, ["latep2p"])).session();
        assert_eq!(
            integer(&session, "/matching/complete") as usize,
            STEPS,
            "{context}"
        );
        let caused_ms = |rank: i64| {
            let blamed = session["blame"]["ranks"].as_array().expect("a list");
            let of_rank = blamed.iter().find(|blamed| blamed["rank"] == rank);
            let caused_ns = of_rank.and_then(|blamed| blamed["caused_exposed_in_steps_rank_ns"].as_f64());
            caused_ns.unwrap_or(0.0) / 1e6
        };
        // The first operation, which builds the connection, precedes the steps.
        let share = caused_ms(1) / ((STEPS - 1) as f64 * LATE_MS);
        println!("{context}: rank 1 caused {share:.2} of its lateness");
        assert!((0.7..1.5).contains(&share), "{context}: {share}");
        assert!(
            caused_ms(0) < caused_ms(1) / 10.0,
            "{context}: {} ms",
            caused_ms(0)
        );
        let stages = &session["structure"][0]["pipelines"][0]["stages"];
        assert_eq!(stages[0]["ranks"], serde_json::json!([1]), "{context}: {stages}");
        let own_ms = |stage: usize| {
            let of = |name: &str| {
                stages[stage][name]
                    .as_f64()
                    .unwrap_or_else(|| panic!("{name}: {stages}"))
            };
            of("own_rank_ns") / of("steps") / 1e6
        };
        assert!(own_ms(0) > LATE_MS * 0.8, "{context}: {} ms", own_ms(0));
        assert!(own_ms(1) < LATE_MS * 0.3, "{context}: {} ms", own_ms(1));
        assert!(results::late_ranks(&session).is_empty(), "{context}");
    }
    drop(turn);
}

#[test]
fn times_after_a_message_to_itself_are_left_out_and_nothing_is_claimed() {
    let turn = turn::take();
    for nccl in HostNccl::with_device_times() {
        let run = timed(&turn, nccl, &["latea2a"]);
        let session = run.session();
        let context = format!("NCCL {}: {}", nccl.version, session["problems"]);
        let explained = results::problems_with(&session, "after a copy of a rank to itself");
        assert_eq!(explained, RANKS, "{context}");
        // The first group of messages has such a copy, so no operation has times.
        let operations = integer(&session, "/totals/operations");
        assert!(operations as usize >= RANKS * STEPS, "{context}");
        assert_eq!(integer(&session, "/totals/enqueued"), operations, "{context}");
        for rank in 0..RANKS {
            let contradictions = integer(&session, &format!("/devices/{rank}/contradictions"));
            assert_eq!(contradictions, 0, "{context}");
        }
        assert!(results::late_ranks(&session).is_empty(), "{context}");
    }
    drop(turn);
}

#[test]
fn a_group_of_broadcasts_and_a_graph_end_kernel_times_and_not_the_job() {
    let turn = turn::take();
    let affected = HostNccl::all()
        .iter()
        .filter(|nccl| nccl.times_end_with_a_graph());
    let reasons = [
        ("broadcastgroup", "after a broadcast in a group"),
        ("graphchain", "after the capture of a call into a graph"),
    ];
    for (nccl, (case, reason)) in affected.flat_map(|nccl| reasons.map(|reason| (nccl, reason))) {
        // If kernel times were requested to the end, the communicator would never end.
        let run = timed(&turn, nccl, &["allreduce", case, "reducescatter", case]);
        let session = run.session();
        let explained = results::problems_with(&session, reason);
        assert_eq!(explained, RANKS, "NCCL {}: {}", nccl.version, session["problems"]);
        for rank in 0..RANKS {
            let rows = run.rows(rank);
            let state_of = |operation: Operation| {
                let rows = rows.iter().filter(move |row| row.operation == operation);
                rows.map(|row| row.state).collect::<Vec<_>>()
            };
            let is = |expected: OperationState| move |state: &OperationState| *state == expected;
            let before = state_of(Operation::AllReduce);
            assert_eq!(before.first(), Some(&OperationState::Completed), "{before:?}");
            let after = state_of(Operation::ReduceScatter);
            assert!(
                !after.is_empty() && after.iter().all(is(OperationState::Enqueued)),
                "{after:?}"
            );
        }
    }
    drop(turn);
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn replays_belong_to_their_captured_calls() {
    const CASES: [&str; 5] = ["graph", "graphchain", "graphgroup", "graphp2p", "graphmixed"];
    let turn = turn::take();
    for nccl in HostNccl::with_device_times() {
        for case in CASES {
            let context = format!("NCCL {} {case}", nccl.version);
            let run = timed(&turn, nccl, &[case]);
            let session = run.session();
            for rank in 0..RANKS {
                let of = |name: &str| integer(&session, &format!("/devices/{rank}/{name}"));
                assert_eq!(of("without_call"), 0, "{context}");
                let truth = run.finished.truth(rank);
                let captured = truth
                    .iter()
                    .filter(|line| line["op"].is_string() && line["captured"] == 1)
                    .count();
                let launched = truth.iter().filter(|line| line["replay"].is_number()).count();
                assert!(captured > 0 && launched > 0, "{context}");
                // Without kernel events, this version reports no replays (on one host).
                let replays = if nccl.times_end_with_a_graph() {
                    0
                } else {
                    captured * launched
                };
                assert_eq!(of("replays") as usize, replays, "{context} rank {rank}");
            }
            let matching = &session["matching"];
            if !nccl.times_end_with_a_graph() {
                // Its group has a message of each rank to itself, after which times are left out.
                let has_times = case != "graphp2p";
                let complete = integer(matching, "/complete");
                assert_eq!(complete > 0, has_times, "{context}: {matching}");
            }
            for name in ["incomplete", "mismatched", "unmatched_messages"] {
                assert_eq!(integer(matching, &format!("/{name}")), 0, "{context}: {matching}");
            }
        }
    }
    drop(turn);
}

#[test]
fn a_collective_that_one_rank_does_not_call_is_found() {
    let turn = turn::take();
    for nccl in HostNccl::all() {
        let (directory, _) = record(&turn, nccl, &["hang"]);
        let session = results::session(directory.path());
        let incomplete = integer(&session, "/matching/incomplete");
        assert_eq!(incomplete, 1, "NCCL {}: {}", nccl.version, session["matching"]);
    }
    drop(turn);
}

#[test]
fn a_group_that_is_only_simulated_is_recorded_as_such() {
    let turn = turn::take();
    for nccl in HostNccl::all() {
        if series(&nccl.version) < (2, 22) {
            continue;
        }
        let (directory, finished) = record(&turn, nccl, &["simulate"]);
        for log in recorded::read_ranks(directory.path(), &finished.pids) {
            let simulated = log
                .of_kind(RecordKind::Group)
                .filter(|record| record.flags & FLAG_SIMULATED != 0);
            let groups: Vec<u64> = simulated.map(|record| record.object).collect();
            let calls = calls(&log);
            let of_calls: Vec<u64> = calls
                .iter()
                .map(|call| Enqueued::from_aux(call.aux).group.into())
                .collect();
            // The group has one call.
            assert_eq!(groups.len(), 1, "NCCL {}", nccl.version);
            assert_eq!(of_calls, groups, "NCCL {}: {calls:?}", nccl.version);
        }
    }
    drop(turn);
}
