//! Blame for waiting (METRICS.md, section 8). In a gap between arrivals k ranks wait, and each of the n − k missing
//! ranks gets k · gap / (n − k).

use crate::scene::{US, at, of, once, rooted};
use rankscope_formats::session::Session;
use rankscope_ranklog::Operation::{AllReduce, Broadcast};

/// Returns for each rank the waiting that it caused, the job time lost and its number of last arrivals.
fn blame(session: &Session) -> Vec<(i64, i64, u64)> {
    let mut ranks = session.blame.ranks.clone();
    ranks.sort_by_key(|of| of.rank);
    for of in &ranks {
        assert_eq!(
            of.caused_rank_ns, of.caused_exposed_rank_ns,
            "all of it is exposed"
        );
        assert_eq!(of.job_lost_ns, of.job_lost_exposed_ns, "all of it is exposed");
    }
    ranks
        .iter()
        .map(|of| (of.caused_rank_ns, of.job_lost_ns, of.last_arrivals))
        .collect()
}

/// Arrivals 0, 30, 30, 90 (drawn in `waiting.rs`).
/// - Gap 0–30: one rank waits, three are missing, each gets 1 · 30 / 3 = 10.
/// - Gap 30–30: nothing.
/// - Gap 30–90: three wait, one is missing: 3 · 60 = 180.
///
/// The sum, 10 + 10 + 190, is the total wait, 210. Job time lost: last − second-last, 60.
#[test]
fn tied_ranks_share_the_blame_and_the_last_has_the_rest() {
    let calls = [0, 30, 30, 90].map(|from| at(AllReduce, [from, 150], 0, 1 << 20));
    let (session, _) = once(&calls);
    assert_eq!(
        blame(&session),
        [
            (0, 0, 0),
            (10 * US, 0, 0),
            (10 * US, 0, 0),
            (190 * US, 60 * US, 1)
        ]
    );
    assert_eq!(session.blame.total_rank_ns, 210 * US);
}

/// Two ranks arrive last together, at 40, after two at 0. Gap 0–40: two wait, two are missing: 2 · 40 / 2 = 40 each.
/// Between last and second-last arrival there is no time, so neither of them alone costs the job time.
#[test]
fn two_ranks_that_arrive_last_together_cost_the_job_nothing_alone() {
    let calls = [0, 40, 0, 40].map(|from| at(AllReduce, [from, 100], 0, 1 << 20));
    let (session, _) = once(&calls);
    let blame = blame(&session);
    let caused: Vec<i64> = blame.iter().map(|of| of.0).collect();
    let lost: Vec<i64> = blame.iter().map(|of| of.1).collect();
    assert_eq!(caused, [0, 40 * US, 0, 40 * US]);
    assert_eq!(lost, [0; 4]);
}

/// A late root gets the blame of the ranks that need it: 50 and 30. Nobody needs the others.
#[test]
fn the_root_of_a_broadcast_has_all_the_blame() {
    let (session, _) = once(&[
        rooted(Broadcast, [50, 60], 0),
        rooted(Broadcast, [0, 70], 0),
        rooted(Broadcast, [20, 70], 0),
    ]);
    let caused: Vec<i64> = blame(&session).iter().map(|of| of.0).collect();
    assert_eq!(caused, [80 * US, 0, 0]);
}

/// Two operations in sequence: rank 1 is 20 late in the first, rank 0 is 30 late in the second. Each gets its own
/// blame.
#[test]
fn blame_of_several_operations_adds_up() {
    let (session, _) = of(&[
        vec![
            at(AllReduce, [0, 40], 0, 1 << 20),
            at(AllReduce, [130, 150], 1, 1 << 20),
        ],
        vec![
            at(AllReduce, [20, 40], 0, 1 << 20),
            at(AllReduce, [100, 150], 1, 1 << 20),
        ],
    ]);
    assert_eq!(blame(&session), [(30 * US, 30 * US, 1), (20 * US, 20 * US, 1)]);
}
