//! Tests that the measured traffic is what the algorithms of the real NCCL move (`tests/host-nccl`).
//!
//! NCCL uses sockets between all ranks, so that its proxies move all data.

use std::collections::BTreeMap;

use rankscope_ranklog::Operation;
use rankscope_tests::host_nccl::calls::{Asked, operations, reported};
use rankscope_tests::host_nccl::{HostNccl, Run, over_sockets};
use rankscope_tests::{results, turn};
use serde_json::Value;

const RANKS: usize = 3;
/// The largest difference between the parts of a ring's ranks in a call. NCCL divides data in multiples of 16 bytes, for
/// each of four channels, and twice for an all-reduce.
const PART_BYTES: f64 = 16.0 * 4.0 * 2.0;

/// Bytes from a rank to a rank.
type Pairs = BTreeMap<(usize, usize), u64>;

fn moved(session: &Value) -> Pairs {
    let mut sent = Pairs::new();
    let mut received = Pairs::new();
    for entry in session["traffic"].as_array().expect("a list") {
        let of = |name: &str| entry[name].as_u64().unwrap_or_else(|| panic!("{name}: {entry}"));
        let (rank, peer) = (of("rank") as usize, of("peer_rank") as usize);
        assert_ne!(rank, peer, "{entry}");
        *sent.entry((rank, peer)).or_default() += of("sent_bytes");
        *received.entry((peer, rank)).or_default() += of("received_bytes");
    }
    // Both ends measure, each on its own.
    assert_eq!(sent, received);
    sent.retain(|_, bytes| *bytes > 0);
    sent
}

/// Calls of each rank, and the traffic that was measured.
struct Measured {
    calls: Vec<Vec<Asked>>,
    moved: Pairs,
    session: Value,
}

/// Runs cases with an algorithm.
fn run(turn: &turn::Turn, nccl: &HostNccl, algorithm: &str, cases: &[&str]) -> Measured {
    let job = over_sockets(nccl.job(RANKS, cases.iter().copied()))
        .env("NCCL_ALGO", algorithm)
        .env("RANKSCOPE_NCCL_TRAFFIC", "1");
    let run = Run::of(turn, job);
    for log in run.logs() {
        log.expect_whole();
    }
    let session = run.session();
    let calls = (0..RANKS).map(|rank| operations(&run.finished, rank).iter().map(reported).collect());
    Measured {
        calls: calls.collect(),
        moved: moved(&session),
        session,
    }
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn a_ring_moves_the_bytes_of_its_formula() {
    const CASES: [&str; 5] = ["allreduce", "allgather", "reducescatter", "broadcast", "reduce"];
    let turn = turn::take();
    for nccl in HostNccl::with_device_times() {
        let context = format!("NCCL {}", nccl.version);
        let Measured { calls, moved, .. } = run(&turn, nccl, "Ring", &CASES);
        let calls = &calls[0];
        assert_eq!(moved.len(), RANKS, "{context}: one ring: {moved:?}");
        let others = RANKS as u64 - 1;
        let all_reduced: Vec<u64> = calls
            .iter()
            .filter(|call| call.operation == Operation::AllReduce)
            .map(|call| call.bytes)
            .collect();
        let mut total = 0;
        let mut exact_total = 0;
        for (&(rank, next), &bytes) in &moved {
            let exact: u64 = calls
                .iter()
                .map(|call| match call.operation {
                    // The calls state bytes per rank.
                    Operation::AllGather | Operation::ReduceScatter => others * call.bytes,
                    // From 2.29 on, NCCL reports nothing about broadcasts.
                    Operation::Broadcast if !nccl.times_broadcasts() => 0,
                    Operation::Broadcast if call.peer as usize != next => call.bytes,
                    Operation::Reduce if call.peer as usize != rank => call.bytes,
                    Operation::AllReduce | Operation::Broadcast | Operation::Reduce => 0,
                    other => panic!("{other:?}"),
                })
                .sum();
            let share = 2.0 * others as f64 / RANKS as f64;
            let of_all_reduces = share * all_reduced.iter().sum::<u64>() as f64;
            let off_by = bytes as f64 - exact as f64 - of_all_reduces;
            let bound = PART_BYTES * all_reduced.len() as f64;
            println!("{context}: {rank} to {next}: {bytes} bytes, {off_by:+.0} from the formula");
            assert!(
                off_by.abs() <= bound,
                "{context}: {rank} to {next}: {off_by} bytes"
            );
            total += bytes;
            exact_total += exact;
        }
        // Rounding moves bytes between the pairs only.
        let expected = exact_total + 2 * others * all_reduced.iter().sum::<u64>();
        assert_eq!(total, expected, "{context}");
    }
    drop(turn);
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn a_tree_moves_each_byte_up_and_down_once() {
    let turn = turn::take();
    for nccl in HostNccl::with_device_times() {
        let context = format!("NCCL {}", nccl.version);
        let Measured { calls, moved, .. } = run(&turn, nccl, "Tree", &["allreduce"]);
        for (&(from, to), bytes) in &moved {
            assert_eq!(moved.get(&(to, from)), Some(bytes), "{context}: {moved:?}");
        }
        let reduced: u64 = calls[0].iter().map(|call| call.bytes).sum();
        let expected = 2 * (RANKS as u64 - 1) * reduced;
        assert_eq!(moved.values().sum::<u64>(), expected, "{context}: {moved:?}");
    }
    drop(turn);
}

#[test]
#[ignore = "a minute: make host-nccl"]
fn messages_move_their_bytes_to_their_peers() {
    let turn = turn::take();
    for nccl in HostNccl::with_device_times() {
        let context = format!("NCCL {}", nccl.version);
        let measured = run(&turn, nccl, "Ring", &["ring", "pair", "alltoallnoself"]);
        let Measured { calls, moved, .. } = &measured;
        let mut expected = Pairs::new();
        for (rank, calls) in calls.iter().enumerate() {
            for call in calls.iter().filter(|call| call.operation == Operation::Send) {
                *expected.entry((rank, call.peer as usize)).or_default() += call.bytes;
            }
        }
        assert!(expected.len() >= 2 * RANKS, "{context}: {expected:?}");
        let explained = results::problems_with(&measured.session, "only one of the messages");
        if nccl.plugin_version() > 4 {
            assert_eq!(*moved, expected, "{context}");
            assert_eq!(explained, 0, "{context}");
            continue;
        }
        // NCCL 2.27 reports nothing about a message that its proxy moves together with another one.
        assert_eq!(explained, RANKS, "{context}: {}", measured.session["problems"]);
        for (pair, &bytes) in moved {
            assert!(
                bytes <= expected[pair],
                "{context}: {pair:?}: {moved:?}, not {expected:?}"
            );
        }
        assert_ne!(*moved, expected, "{context}");
    }
    drop(turn);
}
