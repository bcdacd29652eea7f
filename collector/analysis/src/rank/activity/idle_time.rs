//! Idle gaps of streams and recurring stretches without compute.

use super::cuda_calls::CudaCalls;
use super::gaps::{CAUSES, Gaps, Idle, Place, Ran};
use super::sums::{IdleSums, Recurring};
use crate::model::part_window::PartWindow;
use rankscope_formats::session::{IdleCause, StallRow, WorkClass};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum number of stretches without compute that are stored until their step is over.
const MAX_STRETCHES: usize = 1 << 18;
/// Maximum number of places with sums.
const MAX_PLACES: usize = 1 << 14;
/// A stretch at one place recurs (METRICS.md, section 6) if it takes at least one part in this many of a step …
const SHARE_OF_STEP: i64 = 100;
/// … in at least one of this many steps …
const SHARE_OF_STEPS: u64 = 5;
/// … and there are at least this many steps.
const MIN_STEPS: u64 = 5;
/// Maximum number of recurring places in a summary.
const MAX_TOP: usize = 12;

/// Stretches without compute at one place, in the steps of which they took a hundredth or more.
#[derive(Clone, Copy, Default)]
struct AtPlace {
    steps: u64,
    ns: i64,
}

/// The idle time of one rank's devices.
pub struct IdleTime {
    /// The part of the run that is reported.
    window: PartWindow,
    gaps: Gaps,
    places: FxHashMap<Place, AtPlace>,
    /// Sums so far.
    pub sums: IdleSums,
}

impl IdleTime {
    /// Creates the idle time of a part of a run.
    pub fn new(window: PartWindow) -> Self {
        Self {
            window,
            gaps: Gaps::default(),
            places: FxHashMap::default(),
            sums: IdleSums::default(),
        }
    }

    /// Adds device work, in order of its start. Returns why its stream was idle before it. `calls` are the CUDA calls
    /// that may have waited then.
    pub fn ran(&mut self, work: &Ran, calls: &CudaCalls, stalls: &mut Vec<StallRow>) -> Idle {
        let idle = self.gaps.work(work, stalls);
        if self.window.contains(work.start_ns) {
            self.count(work, idle, calls);
        }
        if self.gaps.stretches.len() > MAX_STRETCHES {
            // Without steps nothing needs them.
            self.gaps.stretches.drain(..MAX_STRETCHES / 2);
        }
        idle
    }

    fn count(&mut self, work: &Ran, idle: Idle, calls: &CudaCalls) {
        if let Some(place) = CAUSES.iter().position(|&cause| cause == idle.cause) {
            let in_part_ns = work.start_ns.saturating_sub(self.window.from_ns);
            self.sums.by_cause[place].add(idle.ns.min(in_part_ns));
        }
        if work.class == WorkClass::Compute
            && idle.cause == IdleCause::HostWait
            && let Some(function) = calls.last_wait(work.start_ns - idle.ns, work.start_ns)
        {
            self.sums.after_waits.entry(function).or_default().add(idle.ns);
        }
    }

    /// Evaluates a step in which all activity was recorded: finds the places that took a hundredth of it or more.
    pub fn step(&mut self, start_ns: i64, end_ns: i64) {
        let mut in_step: BTreeMap<Place, i64> = BTreeMap::new();
        while let Some(stretch) = self
            .gaps
            .stretches
            .pop_front_if(|stretch| stretch.end_ns <= end_ns)
        {
            if stretch.end_ns > start_ns {
                let sum = in_step.entry(stretch.place).or_default();
                *sum = stretch.length_ns.saturating_add(*sum);
            }
        }
        for (place, ns) in in_step {
            let is_large = ns.saturating_mul(SHARE_OF_STEP) >= end_ns - start_ns;
            if is_large && (self.places.len() < MAX_PLACES || self.places.contains_key(&place)) {
                let sum = self.places.entry(place).or_default();
                sum.steps += 1;
                sum.ns = sum.ns.saturating_add(ns);
            }
        }
    }

    /// Closes the last stretch.
    pub fn finish(&mut self, stalls: &mut Vec<StallRow>) {
        self.gaps.finish(stalls);
    }

    /// Returns the places of recurring stretches with most time. `steps` is the number of steps.
    pub fn recurring(&self, steps: u64) -> Vec<Recurring> {
        let mut places: Vec<Recurring> = self
            .places
            .iter()
            .filter(|(_, sum)| steps >= MIN_STEPS && sum.steps * SHARE_OF_STEPS >= steps)
            .map(|(&place, sum)| Recurring {
                place,
                steps: sum.steps,
                ns: sum.ns,
            })
            .collect();
        places.sort_by_key(|recurring| (Reverse(recurring.ns), recurring.place));
        places.truncate(MAX_TOP);
        places
    }
}
