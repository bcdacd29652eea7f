//! Lateness of the ranks of a world over all whole training steps (METRICS.md, section 8).

use super::groups::Groups;
use super::own_delays::OwnDelay;
use crate::model::quantiles::Sketch;
use rankscope_formats::ids::StepIndex;
use std::cmp::Reverse;

/// Maximum number of late steps of a rank that are kept one by one.
const MAX_LATE: usize = 1024;

/// A step in which a rank was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateStep {
    /// The step.
    pub step: StepIndex,
    /// Own delay, in ns.
    pub delay_ns: i64,
    /// True if it was the latest of the compared ranks.
    pub is_latest: bool,
}

/// Lateness of one rank.
#[derive(Clone, Default)]
pub struct RankLateness {
    /// Number of steps that all ranks have.
    pub steps: u64,
    /// Number of steps in which it was late.
    pub late: u64,
    /// Number of runs of late steps.
    pub episodes: u64,
    /// Number of steps in which it was late with the largest own delay.
    pub latest: u64,
    /// Its first late steps, up to the maximum number.
    pub late_steps: Vec<LateStep>,
    /// Own delay in late steps.
    pub late_delay: Sketch,
    /// True if it was late in the last step.
    was_late: bool,
}

impl RankLateness {
    fn add(&mut self, step: StepIndex, delay: OwnDelay) {
        let OwnDelay {
            ns,
            is_late,
            is_latest,
        } = delay;
        self.steps += 1;
        self.latest += u64::from(is_latest && is_late);
        self.late += u64::from(is_late);
        self.episodes += u64::from(is_late && !self.was_late);
        self.was_late = is_late;
        if is_late {
            let delay_ns = ns.unwrap_or(0);
            self.late_delay.add(delay_ns as f64);
            if self.late_steps.len() < MAX_LATE {
                self.late_steps.push(LateStep {
                    step,
                    delay_ns,
                    is_latest,
                });
            }
        }
    }

    /// Returns the middle delay in ns: the own delay to which the middle nanosecond of all its lateness belongs. Next
    /// to a pause of a second, barely late steps say nothing about the frequency of the pause. Returns `None` if there
    /// are too many late steps to keep.
    fn middle_delay_ns(&self) -> Option<i64> {
        if self.late_steps.len() < self.late as usize {
            return None;
        }
        let mut delays: Vec<i64> = self.late_steps.iter().map(|late| late.delay_ns).collect();
        delays.sort_unstable_by_key(|&delay| Reverse(delay));
        let all: i64 = delays.iter().sum();
        let mut sum = 0;
        delays.iter().copied().find(|&delay| {
            sum += delay;
            sum * 2 >= all
        })
    }

    /// Returns the number of notably late steps, and of their episodes. Notably late means late by a quarter of
    /// [`RankLateness::middle_delay_ns`]. If delays vary like waits for rare events, this is two thirds of them. An
    /// episode is a run of steps that are late by half of the middle delay. A hiccup next to a pause is then not a
    /// second pause.
    pub fn notable(&self) -> (u64, u64) {
        let Some(middle) = self.middle_delay_ns() else {
            return (self.late, self.episodes);
        };
        let late_by = |least: i64| self.late_steps.iter().filter(move |late| late.delay_ns >= least);
        let mut episodes = 0;
        let mut before = None;
        for late in late_by(middle / 2) {
            episodes += u64::from(before.is_none_or(|before: StepIndex| before.0 + 1 != late.step.0));
            before = Some(late.step);
        }
        (late_by(middle / 4).count() as u64, episodes)
    }

    /// Returns the number of kept steps in which it was the latest by at least `least_ns`.
    fn latest_from(&self, least_ns: i64) -> u64 {
        let late = self.late_steps.iter();
        late.filter(|late| late.is_latest && late.delay_ns >= least_ns)
            .count() as u64
    }
}

/// Lateness of all ranks of a world, by row.
pub struct Lateness {
    /// Lateness per rank.
    pub ranks: Vec<RankLateness>,
    /// Number of steps in which any rank was late.
    pub any_late: u64,
    /// Number of steps per rank in which any compared rank was late, including the rank.
    pub late_among: Vec<u64>,
}

impl Lateness {
    /// Creates empty counts for this number of ranks.
    pub fn new(ranks: usize) -> Self {
        Self {
            ranks: vec![RankLateness::default(); ranks],
            any_late: 0,
            late_among: vec![0; ranks],
        }
    }

    /// Adds a step with the own delay of each rank.
    pub fn add(&mut self, groups: &Groups, step: StepIndex, delay_of: impl Fn(usize) -> OwnDelay) {
        for (rank, lateness) in self.ranks.iter_mut().enumerate() {
            lateness.add(step, delay_of(rank));
        }
        self.any_late += u64::from(self.ranks.iter().any(|rank| rank.was_late));
        for group in groups.iter() {
            if group.iter().any(|&rank| self.ranks[rank].was_late) {
                group.iter().for_each(|&rank| self.late_among[rank] += 1);
            }
        }
    }

    /// Returns the number of steps in which a rank is the latest, and the number of steps in which any compared rank is
    /// late. Only delays of at least half of this rank's middle delay count. Hiccups of another rank up to a third of
    /// its own delay then hide nothing (simulated in `findings::ranks::lateness`). Returns `None` if there are too many
    /// late steps to keep.
    pub fn latest_of_notable(&self, groups: &Groups, row: usize) -> Option<(u64, u64)> {
        let least_ns = self.ranks.get(row)?.middle_delay_ns()? / 2;
        let peers: Vec<&RankLateness> = groups.peers(row).iter().map(|&peer| &self.ranks[peer]).collect();
        if peers
            .iter()
            .any(|peer| peer.late_steps.len() < peer.late as usize)
        {
            return None;
        }
        let all = peers.iter().map(|peer| peer.latest_from(least_ns)).sum();
        Some((self.ranks[row].latest_from(least_ns), all))
    }
}
