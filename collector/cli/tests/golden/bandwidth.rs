//! Bandwidth (METRICS.md, section 2): algbw = S / t, busbw = algbw · f.

use crate::scene::{at, once, rooted};
use rankscope_formats::session::InstanceRow;
use rankscope_ranklog::Operation::{self, AllGather, AllReduce, AllToAll, Barrier, Broadcast, ReduceScatter};

const MIB: u64 = 1 << 20;

/// Merges an operation of four ranks that arrive at 0 and leave at 100 µs, with 1 MiB each as count times element size.
fn four(operation: Operation) -> InstanceRow {
    let call = match operation {
        Operation::Broadcast => rooted(operation, [0, 100], 0),
        _ => at(operation, [0, 100], 0, MIB),
    };
    let call = rankscope_ranklog::record::Record { bytes: MIB, ..call };
    once(&[call; 4]).1
}

/// t = 100 µs, c·e = 1,048,576. S = c·e for all-reduce and broadcast. S = 4 · c·e if the call's count is that of one
/// member. 1,048,576 B / 100 µs = 10.48576 GB/s. The factor f is 2 · 3/4 = 1.5, 3/4 or 1.
#[test]
fn bandwidth_uses_the_size_and_the_factor_of_the_operation() {
    let algorithm = 10.485_76e9;
    for (operation, parts, factor) in [
        (AllReduce, 1.0, 1.5),
        (AllGather, 4.0, 0.75),
        (ReduceScatter, 4.0, 0.75),
        (AllToAll, 4.0, 0.75),
        (Broadcast, 1.0, 1.0),
    ] {
        let row = four(operation);
        let is_near = |shown: Option<f64>, expected: f64| {
            shown.is_some_and(|shown| (shown / expected - 1.0).abs() < 1e-9)
        };
        assert_eq!(row.size_bytes, Some(parts as u64 * MIB), "{operation:?}");
        assert!(is_near(row.algorithm_bytes_per_s, parts * algorithm), "{row:?}");
        assert!(
            is_near(row.bus_bytes_per_s, parts * algorithm * factor),
            "{row:?}"
        );
    }
}

/// A barrier moves no data and has no bandwidth.
#[test]
fn a_barrier_has_no_bandwidth() {
    let row = once(&[at(Barrier, [0, 100], 0, 0); 4]).1;
    assert_eq!((row.size_bytes, row.bus_bytes_per_s), (None, None));
}

/// Rank 0 waits 100 of 150 µs, rank 1 waits 0 of 50 µs: the wait share is 50 %. A transfer with this much waiting says
/// nothing about the path, so it has no bandwidth. The effective bandwidth uses the whole duration: S / 150 µs = 6.99
/// GB/s.
#[test]
fn an_instance_with_much_waiting_has_only_an_effective_bandwidth() {
    let (session, row) = once(&[0, 100].map(|from| at(AllReduce, [from, 150], 0, MIB)));
    assert_eq!(row.bus_bytes_per_s, None);
    let class = &session.operations[0];
    assert!(class.bus_bytes_per_s.value.is_none() && class.bus_bytes_per_s.reason.is_some());
    let effective = class.effective_bytes_per_s.get().expect("effective").max;
    assert!(
        (effective / (MIB as f64 / 150e-6) - 1.0).abs() < 1e-9,
        "{effective}"
    );
}

/// t = 0 is invalid. It is counted and gives no infinity.
#[test]
fn a_bandwidth_without_time_is_invalid_and_counted() {
    let (session, row) = once(&[at(AllReduce, [10, 10], 0, MIB); 2]);
    assert_eq!((row.algorithm_bytes_per_s, row.bus_bytes_per_s), (None, None));
    assert_eq!(session.operations[0].bandwidth_invalid, 1);
}
