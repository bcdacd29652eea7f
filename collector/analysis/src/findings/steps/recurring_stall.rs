//! Recurring device stalls at the same place of the step.

use crate::findings::draft::part::{HOST, IDLE, TRANSFER, WAITING};
use crate::findings::rule::Rule;
use crate::findings::shown::{percent, some};
use crate::findings::{Draft, Facts, shown};
use crate::model::kernel_name;
use rankscope_formats::ids::RankIndex;
use std::collections::BTreeMap;

/// Minimum cost of a finding, in percent of the recorded steps.
const MIN_COST_PERCENT: i64 = 2;
/// Maximum number of reported places.
const MAX_PLACES: usize = 3;

/// A recurring stall.
pub const RULE: Rule = Rule {
    id: "recurring-stall",
    title: "Devices stall at the same place in many steps",
    means: "In many steps, a rank's devices do not compute before the same kernel.",
    fires: "Stretches without compute at the same place take at least 1 % of a step, in at least 20 % of the steps \
            (METRICS.md, section 6). Together they take at least 2 % of the recorded time of all ranks.",
    silent: "Stretches that do not recur. Gaps on one stream while another stream computes. Runs without --kernels.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let mut places = Place::measure(facts);
    places.retain(Place::fires);
    places.sort_by_key(|place| std::cmp::Reverse(place.ns));
    places
        .iter()
        .take(MAX_PLACES)
        .map(|place| place.draft(facts))
        .collect()
}

/// Stretches without compute at one place, summed over ranks.
struct Place<'a> {
    /// Name of the kernel after the stretches.
    before: &'a str,
    cause: &'a str,
    ns: i64,
    /// Number of steps with such a stretch, …
    steps: u64,
    /// … of this many.
    of_steps: u64,
    /// Ranks with this place.
    ranks: Vec<RankIndex>,
    /// Number of ranks with recorded device work.
    ranks_known: i64,
    /// Recorded time of these ranks, above 0, in rank-ns.
    window_ns: i64,
}

impl<'a> Place<'a> {
    /// Returns all places, in the order of their names.
    fn measure(facts: &Facts<'a>) -> Vec<Self> {
        let entries = facts.session.activity.iter();
        let known: Vec<_> = entries.filter(|entry| entry.window_ns > 0).collect();
        let window_ns = known.iter().map(|entry| entry.window_ns).sum();
        let mut places: BTreeMap<(&str, &str), Self> = BTreeMap::new();
        for entry in &known {
            for stall in &entry.recurring_stalls {
                let place =
                    places
                        .entry((&stall.before, &stall.cause))
                        .or_insert_with_key(|&(before, cause)| Self {
                            before,
                            cause,
                            ns: 0,
                            steps: 0,
                            of_steps: 0,
                            ranks: Vec::new(),
                            ranks_known: known.len() as i64,
                            window_ns,
                        });
                place.ns += stall.ns;
                place.steps += stall.steps;
                place.of_steps += stall.of_steps;
                place.ranks.push(RankIndex(entry.rank));
            }
        }
        places.into_values().collect()
    }

    fn fires(&self) -> bool {
        self.ns * 100 >= self.window_ns * MIN_COST_PERCENT
    }

    fn draft(&self, facts: &Facts<'_>) -> Draft {
        let ns = self.ns;
        let kernel = kernel_name::short(self.before);
        let (why, advice, lies_in) = meaning(self.cause);
        Draft::new(
            RULE.id,
            format!("the place before {kernel}"),
            format!(
                "the devices do not compute before {kernel} in {} of {} steps: {} of their time",
                self.steps,
                self.of_steps,
                percent(ns, self.window_ns)
            ),
        )
        .evidence(format!(
            "{} per step on average, {} in total on {}",
            shown(ns / i64::try_from(self.steps.max(1)).unwrap_or(1)),
            shown(ns),
            some(&facts.names(&self.ranks))
        ))
        .cause(why)
        .advice(advice)
        .holds(
            "steps",
            self.steps as f64 / self.of_steps.max(1) as f64 * 100.0,
            ">=",
            20.0,
            "%",
        )
        .holds(
            "share of the devices' time",
            ns as f64 / self.window_ns as f64 * 100.0,
            ">=",
            MIN_COST_PERCENT as f64,
            "%",
        )
        .ranks(self.ranks.iter().copied())
        .cost(
            ns / self.ranks_known,
            "time without compute at this place, mean over the ranks with recorded device work",
            lies_in,
        )
    }
}

/// Returns the likely cause, the advice, and the parts of the job's time for the cause of a stall.
fn meaning(cause: &str) -> (&'static str, &'static str, &'static [&'static str]) {
    match cause {
        "communication" | "late-peer" | "slow-transfer" => (
            "the device waits for communication at this place",
            "start this communication earlier, or first run work that does not depend on it",
            &[WAITING, TRANSFER],
        ),
        "memory" => (
            "the device copies memory at this place, and does not compute meanwhile",
            "copy on a separate stream from pinned memory (pin_memory, non_blocking=True)",
            &[IDLE],
        ),
        "host-late" => (
            "the host launches this kernel too late: it prepares input, waits for the device, or runs Python",
            "check the host's threads before this kernel: data loading, .item(), .cpu(), print, the \
             optimizer's loop; CUDA graphs or torch.compile reduce the launch overhead",
            &[HOST, IDLE],
        ),
        _ => (
            "the reason for the stall is unknown",
            "check this place in the trace",
            &[IDLE],
        ),
    }
}
