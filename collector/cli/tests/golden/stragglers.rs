//! Stragglers from logs: the late ranks, their class and the job's cost (METRICS.md, section 8).
//!
//!
//! ```text
//! a step of 200 µs, three ranks:
//!            0   10              100            100+d 110+d              200
//! all        [BC]                                                          the broadcast starts a step
//! in time         own work       [all-reduce··········]     own work
//! late            own work ……………………………………………………[all-reduce]   own work
//! ```
//!
//! The all-reduce ends 10 µs after the last arrival: each of the two ranks in time waits d, the transfer is 10. Their
//! own time is 90 + (90 − d). That of the late rank is 90 + d + (90 − d): it is later by d than its peers' median. The
//! first of the forty steps starts where no step ended: thirty-nine steps are whole.

use crate::scene::{US, at, logs, merged, rooted};
use rankscope_formats::session::{Finding, RankBlame, Session};
use rankscope_ranklog::Operation::{AllReduce, Broadcast};
use rankscope_ranklog::record::Record;

const STEPS: u64 = 40;
const WHOLE: i64 = STEPS as i64 - 1;
const RANKS: u32 = 3;

/// Merges three ranks. `late` gives the lateness of a rank in a step, in µs.
fn job(late: impl Fn(u32, u64) -> u64) -> Session {
    let folder = tempfile::tempdir().expect("a folder");
    logs(folder.path(), RANKS, |rank, log| {
        for step in 0..STEPS {
            let begin = 10 + step * 200;
            let broadcast = Record {
                tag: 1_000 + step as u32,
                ..rooted(Broadcast, [begin, begin + 10], 0)
            };
            log.push(0, broadcast);
            let last = (0..RANKS).map(|other| late(other, step)).max().unwrap_or(0);
            let times = [begin + 100 + late(rank, step), begin + 110 + last];
            log.push(0, at(AllReduce, times, 100_000 + step as u32, 4 << 20));
        }
    });
    let (session, _) = merged(folder.path());
    assert_eq!(session.steps.count, WHOLE as u64);
    assert!(
        session
            .steps
            .median_ns
            .get()
            .is_ok_and(|&ns| is_near(ns, 200 * US))
    );
    session
}

/// Returns the only finding about lateness.
fn lateness(session: &Session) -> &Finding {
    let all: Vec<&Finding> = session
        .findings
        .iter()
        .filter(|finding| finding.lateness.is_some())
        .collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0]
}

/// Returns the class, the late steps and all steps, the episodes and the median lateness.
fn reported(finding: &Finding) -> (&str, [i64; 2], u64, i64) {
    let of = finding.lateness.as_ref().expect("it is about lateness");
    let steps = [of.late_steps.numerator, of.late_steps.denominator];
    (&of.class, steps, of.episodes, of.median_delay_ns)
}

fn blame_of(session: &Session, rank: u32) -> &RankBlame {
    let found = session.blame.ranks.iter().find(|blame| blame.rank == rank);
    found.expect("every rank is there")
}

fn is_near(value: i64, truth: i64) -> bool {
    // A quantile is the value of its class, which is 1/128 wide.
    (value - truth).abs() * 100 <= truth
}

#[test]
fn no_rank_is_late_if_all_are_alike() {
    let session = job(|_, _| 0);
    assert!(session.findings.iter().all(|finding| finding.lateness.is_none()));
    for blame in &session.blame.ranks {
        assert_eq!((blame.caused_rank_ns, blame.job_lost_ns), (0, 0));
    }
}

/// d = 40 in every step: two ranks wait 40 each, and the job could continue 40 earlier.
#[test]
fn persistent() {
    let session = job(|rank, _| if rank == 2 { 40 } else { 0 });
    let finding = lateness(&session);
    assert_eq!((&*finding.kind, &finding.ranks[..]), ("late-rank", &[2][..]));
    let (class, late, episodes, median) = reported(finding);
    assert_eq!((class, late, episodes), ("persistent", [WHOLE, WHOLE], 1));
    assert!(is_near(median, 40 * US), "{median}");
    assert_eq!(finding.cost_ns.get(), Ok(&(WHOLE * 40 * US)));
    // Blame counts all forty all-reduces, also those outside whole steps.
    let blame = blame_of(&session, 2);
    assert_eq!(blame.caused_rank_ns, STEPS as i64 * 2 * 40 * US);
    assert_eq!(blame.job_lost_ns, STEPS as i64 * 40 * US);
    assert_eq!(blame.caused_exposed_in_steps_rank_ns, WHOLE * 2 * 40 * US);
    assert_eq!(blame.job_lost_exposed_in_steps_ns, WHOLE * 40 * US);
}

/// d = 60 in every fifth step: steps 3, 8, … 38, eight episodes in a fifth of the steps. The probability of being the
/// latest of three by chance eight times is 3⁻⁸. Two tests double it.
#[test]
fn recurrent() {
    let session = job(|rank, step| if rank == 2 && step % 5 == 3 { 60 } else { 0 });
    let finding = lateness(&session);
    assert_eq!((&*finding.kind, &finding.ranks[..]), ("late-rank", &[2][..]));
    let (class, late, episodes, median) = reported(finding);
    assert_eq!((class, late, episodes), ("recurrent", [8, WHOLE], 8));
    assert!(is_near(median, 60 * US), "{median}");
    assert_eq!(finding.cost_ns.get(), Ok(&(8 * 60 * US)));
    let chance = finding.lateness.as_ref().expect("lateness").p_value;
    assert!((chance - 2.0 / 3f64.powi(8)).abs() < 1e-9, "{chance}");
}

/// The same d in eight consecutive steps: one episode.
#[test]
fn transient() {
    let session = job(|rank, step| {
        if rank == 1 && (20..28).contains(&step) {
            60
        } else {
            0
        }
    });
    let finding = lateness(&session);
    assert_eq!((&*finding.kind, &finding.ranks[..]), ("late-rank", &[1][..]));
    let (class, late, episodes, _) = reported(finding);
    assert_eq!((class, late, episodes), ("transient", [8, WHOLE], 1));
    assert_eq!(finding.cost_ns.get(), Ok(&(8 * 60 * US)));
}

/// The ranks are late in turn, d = 40: each is the latest in thirteen of thirty-nine steps, as expected by chance.
#[test]
fn rotating() {
    let session = job(|rank, step| {
        if u64::from(rank) == step % u64::from(RANKS) {
            40
        } else {
            0
        }
    });
    let finding = lateness(&session);
    assert_eq!(
        (&*finding.kind, &finding.ranks[..]),
        ("rotating-lateness", &[][..])
    );
    let (class, late, _, _) = reported(finding);
    assert_eq!((class, late), ("rotating", [WHOLE, WHOLE]));
    assert_eq!(finding.cost_ns.get(), Ok(&(WHOLE * 40 * US)));
}

/// Two ranks are equally late in the same steps. Neither is the latest more often than the other. Without one of them
/// the job could not continue earlier.
#[test]
fn a_tie_of_two() {
    let session = job(|rank, _| if rank > 0 { 40 } else { 0 });
    for rank in [1, 2] {
        let blame = blame_of(&session, rank);
        assert_eq!(blame.job_lost_ns, 0, "the other one came no earlier");
    }
    let caused: i64 = session.blame.ranks.iter().map(|blame| blame.caused_rank_ns).sum();
    assert_eq!(caused, STEPS as i64 * 40 * US);
}
