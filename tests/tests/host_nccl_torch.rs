//! Tests that rankscope records PyTorch's NCCL backends, on the real NCCL without a GPU (`tests/host-nccl`).
//!
//! PyTorch's C++ code and NCCL's host code are real. The CUDA runtime, the driver and the devices are stand-ins, and the
//! CPU computes. PyTorch's Flight Recorder tells which collectives its backend issued. Without NCCL's sources or a PyTorch
//! for CUDA, these tests report so and check nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rankscope_ranklog::Operation;
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_tests::host_nccl::HostNccl;
use rankscope_tests::job::{Finished, Job};
use rankscope_tests::python::Python;
use rankscope_tests::recorded;
use rankscope_tests::results::integer;
use rankscope_tests::truth;
use rankscope_tests::{results, turn};
use serde_json::Value;

const RANKS: usize = 3;
/// The default backend of PyTorch 2.15, and `ProcessGroupNCCL`, which was the default before.
const BACKENDS: [&str; 2] = ["nccl", "nccl-legacy"];

fn job(python: &Python, backend: &str) -> Job {
    Job::torch(python, "device_ddp.py", RANKS)
        .env("BACKEND", backend)
        .limit(Duration::from_secs(300))
}

/// Returns the bytes of tensors in a report.
fn bytes(line: &Value, side: &str) -> Vec<u64> {
    let tensors = line[side].as_array().expect("a list");
    tensors
        .iter()
        .map(|bytes| bytes.as_u64().expect("a number"))
        .collect()
}

/// Returns the number of members of a group of the program.
fn size_of_group(line: &Value) -> usize {
    match line["communicator"].as_str() {
        Some("group of 2") => 2,
        _ => RANKS,
    }
}

/// Returns the calls of NCCL that make a collective of PyTorch: operation and bytes.
fn calls_of(line: &Value, backend: &str, rank: usize) -> Vec<(Operation, u64)> {
    let (size, is_root) = (size_of_group(line), rank == 0);
    let (inputs, outputs) = (bytes(line, "inputs"), bytes(line, "outputs"));
    // Of some operations the Flight Recorder knows only the one side.
    let first = inputs.iter().chain(&outputs).copied().next();
    let is_legacy = backend == "nccl-legacy";
    let one = |operation| vec![(operation, first.expect("a tensor"))];
    let to_others = |operation| one(operation).repeat(size - 1);
    match line["name"].as_str().expect("a name") {
        "all_reduce" => one(Operation::AllReduce),
        "all_reduce_barrier" | "barrier" => vec![(Operation::AllReduce, 4)],
        "broadcast" => one(Operation::Broadcast),
        "reduce" => one(Operation::Reduce),
        "_all_gather_base" => one(Operation::AllGather),
        "all_gather" if is_legacy => one(Operation::AllGather),
        "all_gather" => one(Operation::Broadcast).repeat(size),
        "_reduce_scatter_base" => vec![(Operation::ReduceScatter, outputs[0])],
        "reduce_scatter" if is_legacy => vec![(Operation::ReduceScatter, outputs[0])],
        "reduce_scatter" => vec![(Operation::Reduce, outputs[0]); size],
        "all_to_all" if inputs.len() > 1 => {
            let pairs = inputs.iter().zip(&outputs);
            pairs
                .flat_map(|(&sent, &received)| [(Operation::Send, sent), (Operation::Receive, received)])
                .collect()
        }
        "all_to_all" | "all_to_all_single" => vec![(Operation::AllToAll, inputs[0] / size as u64)],
        "gather" if is_root => to_others(Operation::Receive),
        "scatter" if is_root => to_others(Operation::Send),
        "gather" | "send" => one(Operation::Send),
        "scatter" | "recv" => one(Operation::Receive),
        // Its members are reported by themselves.
        "coalesced" => Vec::new(),
        name => panic!("no collective that is known: {name}"),
    }
}

/// Returns the lines of a rank's report for one operation.
fn lines(finished: &Finished, rank: usize, operation: &str) -> Vec<Value> {
    let mut lines = finished.truth(rank);
    lines.retain(|line| line["op"] == operation);
    lines
}

/// Returns a call as recorded: operation and bytes.
fn operation_and_bytes(record: &Record) -> (Operation, u64) {
    let operation = Operation::from_u8(record.operation).expect("a known operation");
    (operation, record.bytes)
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn every_collective_that_pytorch_issued_is_recorded_and_losses_stay_the_same() {
    let turn = turn::take();
    let Some(python) = HostNccl::torch() else {
        return;
    };
    for backend in BACKENDS {
        let plain = job(&python, backend).run(&turn);
        plain.expect_status(0);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let traced = job(&python, backend).record_into(directory.path()).run(&turn);
        traced.expect_status(0);
        let logs = recorded::read_ranks(directory.path(), &traced.pids);
        let mut identities: BTreeMap<String, [u8; 16]> = BTreeMap::new();
        let mut calls_of_all = 0;
        for (rank, log) in logs.iter().enumerate() {
            let context = format!("{backend} rank {rank}");
            log.expect_whole();
            let losses = lines(&plain, rank, "step");
            assert_eq!(losses.len(), 10, "{context}");
            assert_eq!(lines(&traced, rank, "step"), losses, "{context}");

            let issued = lines(&traced, rank, "issued");
            let truth = issued.iter().flat_map(|line| {
                let calls = calls_of(line, backend, rank);
                calls.into_iter().map(move |call| (line, call))
            });
            let truth: Vec<_> = truth.collect();
            let mut calls: Vec<&Record> = log.of_kind(RecordKind::Enqueue).collect();
            calls.sort_by_key(|record| record.enter_ticks);
            for (record, (line, call)) in calls.iter().zip(&truth) {
                assert_eq!(operation_and_bytes(record), *call, "{context}: {line}");
                let communicator = log.communicator(record);
                let group = truth::communicator(line);
                let mut known = *identities.entry(group.clone()).or_insert(communicator.identity);
                let is_message = matches!(line["name"].as_str(), Some("send" | "recv"));
                if known != communicator.identity && is_message && backend == "nccl-legacy" {
                    // ProcessGroupNCCL sends a single message on a communicator of its two ranks.
                    assert_eq!(communicator.size, 2, "{context}: {line}");
                    let messages = format!("{group}, single messages");
                    known = *identities.entry(messages).or_insert(communicator.identity);
                } else {
                    assert_eq!(
                        communicator.size as usize,
                        size_of_group(line),
                        "{context}: {line}"
                    );
                }
                assert_eq!(known, communicator.identity, "{context}: {line}");
            }
            assert_eq!(calls.len(), truth.len(), "{context}");
            assert!(calls.len() > 100, "{context}");
            calls_of_all += calls.len();
        }
        // Each group has a communicator of its own.
        let distinct: BTreeSet<&[u8; 16]> = identities.values().collect();
        assert_eq!(distinct.len(), identities.len(), "{backend}: {identities:?}");
        println!(
            "{backend}: {calls_of_all} calls on {} communicators",
            identities.len()
        );
        let session = results::session(directory.path());
        for communicator in session["communicators"].as_array().expect("a list") {
            assert_eq!(communicator["library"], "nccl", "{backend}");
        }
        assert_eq!(
            integer(&session, "/totals/operations") as usize,
            calls_of_all,
            "{backend}"
        );
        for name in [
            "matching/incomplete",
            "matching/mismatched",
            "matching/unmatched_messages",
            "totals/lost",
        ] {
            assert_eq!(integer(&session, &format!("/{name}")), 0, "{backend}: {name}");
        }
    }
    drop(turn);
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn a_rank_that_is_late_in_a_training_with_ddp_is_named_at_its_cost() {
    const LATE_MS: f64 = 50.0;
    let turn = turn::take();
    let Some(python) = HostNccl::torch() else {
        return;
    };
    // The other backend gathers with broadcasts of several roots in one group, which ends kernel times (ADR 0009).
    let backend = "nccl-legacy";
    // Waits of the reducer are in the host's order, and operations with times in the device's. The steps are found
    // nevertheless.
    for late in [Some(1), None] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut job = job(&python, backend).env("STEPS", "20");
        if let Some(late) = late {
            job = job
                .env("SLOW_RANK", late.to_string())
                .env("SLOW_MS", LATE_MS.to_string());
        }
        job.record_into(directory.path()).run(&turn).expect_status(0);
        let session = results::session(directory.path());
        let timed = integer(&session, "/totals/operations") - integer(&session, "/totals/enqueued");
        // NCCL has no kernel times of broadcasts, and DDP makes four.
        assert_eq!(
            integer(&session, "/totals/enqueued") as usize,
            4 * RANKS,
            "{late:?}"
        );
        assert!(timed > 300, "{late:?}: {timed}");
        assert_eq!(
            results::late_ranks(&session),
            Vec::from_iter(late),
            "{}",
            session["findings"]
        );
        if late.is_some() {
            let cost_ms = results::late_cost_ms(&session);
            println!("{timed} operations with times, {cost_ms:.1} ms per step");
            assert!((0.7..1.5).contains(&(cost_ms / LATE_MS)), "{cost_ms} ms per step");
        }
    }
    drop(turn);
}
