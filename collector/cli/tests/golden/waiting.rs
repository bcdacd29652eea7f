//! Waiting and transfer (METRICS.md, section 3).

use crate::scene::{US, at, once, rooted};
use rankscope_formats::session::{InstanceRow, InstanceState, WaitClass};
use rankscope_ranklog::Operation::{AllReduce, Broadcast, Reduce};

fn wait_and_transfer(row: &InstanceRow) -> (Option<i64>, Option<i64>, WaitClass) {
    assert_eq!(row.state, InstanceState::Complete);
    assert_eq!(row.hidden_wait_rank_ns, Some(0), "nothing computes meanwhile");
    (row.exposed_wait_rank_ns, row.transfer_ns, row.class)
}

/// ```text
///          0        30                 90        150
/// rank 0   [wait .................... ][transfer ]   waits 90
/// rank 1            [wait ............][transfer ]   waits 60
/// rank 2            [wait ............][transfer ]   waits 60: equal arrivals wait equally long
/// rank 3                               [transfer ]   waits 0
/// ```
/// Σ wait 210 of Σ duration 150 + 120 + 120 + 60 = 450: 47 %, mixed. Transfer: 150 − 90.
#[test]
fn tied_ranks_wait_equally_long_for_the_last() {
    let calls = [0, 30, 30, 90].map(|from| at(AllReduce, [from, 150], 0, 1 << 20));
    let (session, row) = once(&calls);
    assert_eq!(
        wait_and_transfer(&row),
        (Some(210 * US), Some(60 * US), WaitClass::Mixed)
    );
    assert_eq!(session.operations[0].exposed_wait_rank_ns, 210 * US);
    assert_eq!(session.totals.exposed_wait_rank_ns, 210 * US);
}

/// All four arrive at 10 and leave at 110: nobody waits, all of it is transfer.
#[test]
fn ranks_that_arrive_together_do_not_wait() {
    let (_, row) = once(&[at(AllReduce, [10, 110], 0, 1 << 20); 4]);
    assert_eq!(
        wait_and_transfer(&row),
        (Some(0), Some(100 * US), WaitClass::TransferBound)
    );
}

/// The bounds of the classes. Two ranks leave at 100. Rank 0 arrives at 0, rank 1 at t, and Σ wait / Σ duration is t /
/// (200 − t). 33 / 167 = 19.8 % is transfer-bound, 34 / 166 = 20.5 % is mixed. 88 / 112 = 78.6 % is mixed, 89 / 111 =
/// 80.2 % is skew-bound.
#[test]
fn classes_start_at_a_fifth_and_at_four_fifths() {
    let class = |late: u64| {
        once(&[0, late].map(|from| at(AllReduce, [from, 100], 0, 64)))
            .1
            .class
    };
    assert_eq!([33, 34].map(class), [WaitClass::TransferBound, WaitClass::Mixed]);
    assert_eq!([88, 89].map(class), [WaitClass::Mixed, WaitClass::SkewBound]);
}

/// ```text
///              0        20           50   60   70
/// rank 0 root                        [.........]        leaves at 60
/// rank 1       [wait ...............][.........]   waits 50 for the root
/// rank 2                [wait ......][.........]   waits 30
/// ```
/// Transfer: the last leave, 70, − the root's enter, 50.
#[test]
fn a_broadcast_waits_for_its_root_alone() {
    let (_, row) = once(&[
        rooted(Broadcast, [50, 60], 0),
        rooted(Broadcast, [0, 70], 0),
        rooted(Broadcast, [20, 70], 0),
    ]);
    assert_eq!(
        (row.exposed_wait_rank_ns, row.transfer_ns),
        (Some(80 * US), Some(20 * US))
    );
}

/// The root arrives at 0 and leaves at 20, rank 1 arrives at 10 and leaves at 40. Rank 2 arrives at 100 and leaves at
/// 110: nobody waited for it, and it waited for nobody. Nothing was transferred to it before it arrived
/// (docs/adr/0020-waiting-and-lateness.md, *algorithmic wait*): 110 − 100.
#[test]
fn a_rank_late_to_a_finished_broadcast_delays_no_rank() {
    let (session, row) = once(&[
        rooted(Broadcast, [0, 20], 0),
        rooted(Broadcast, [10, 40], 0),
        rooted(Broadcast, [100, 110], 0),
    ]);
    assert_eq!(
        (row.exposed_wait_rank_ns, row.transfer_ns),
        (Some(0), Some(10 * US))
    );
    assert_eq!(session.blame.total_rank_ns, 0);
}

/// Senders 0 and 2 arrive at 0 and 40 and leave at 5 and 45. The root, rank 1, arrives at 10 and leaves at 60. It needs
/// the last sender: 40 − 10 = 30. Senders wait for nobody. Transfer: 60 − 40.
#[test]
fn a_reduce_waits_at_its_root_for_the_last_sender() {
    let (_, row) = once(&[
        rooted(Reduce, [0, 5], 1),
        rooted(Reduce, [10, 60], 1),
        rooted(Reduce, [40, 45], 1),
    ]);
    assert_eq!(
        (row.exposed_wait_rank_ns, row.transfer_ns),
        (Some(30 * US), Some(20 * US))
    );
}

/// Both arrive and leave at 10: no time, no class and no bandwidth.
#[test]
fn an_operation_without_length_has_no_class() {
    let (session, row) = once(&[at(AllReduce, [10, 10], 0, 1 << 20); 2]);
    assert_eq!(wait_and_transfer(&row), (Some(0), Some(0), WaitClass::None));
    assert_eq!(row.bus_bytes_per_s, None);
    assert_eq!(session.operations[0].bus_bytes_per_s.value, None);
    assert!(session.operations[0].bus_bytes_per_s.reason.is_some());
}
