//! Recurring device stalls at the same place of the step.

use crate::findings::draft::part::{HOST, IDLE, TRANSFER, WAITING};
use crate::findings::rule::Rule;
use crate::findings::shown::{percent, some};
use crate::findings::{Draft, Facts, shown};
use crate::model::kernel_name;
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

/// Stretches at one place, summed over ranks.
#[derive(Default)]
struct OfPlace {
    ns: i64,
    steps: u64,
    of_steps: u64,
    ranks: Vec<u32>,
}

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let known: Vec<_> = facts
        .session
        .activity
        .iter()
        .filter(|entry| entry.window_ns > 0)
        .collect();
    let window: i64 = known.iter().map(|entry| entry.window_ns).sum();
    if window == 0 {
        return Vec::new();
    }
    let mut places: BTreeMap<(&str, &str), OfPlace> = BTreeMap::new();
    for entry in &known {
        for place in &entry.recurring_stalls {
            let sum = places.entry((&place.before, &place.cause)).or_default();
            sum.ns += place.ns;
            sum.steps += place.steps;
            sum.of_steps += place.of_steps;
            sum.ranks.push(entry.rank);
        }
    }
    let mut places: Vec<_> = places.into_iter().collect();
    places.retain(|(_, sum)| sum.ns * 100 >= window * MIN_COST_PERCENT);
    places.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.ns));
    let ranks_known = known.len() as i64;
    let places = places.into_iter().take(MAX_PLACES);
    places
        .map(|((before, cause), of_place)| {
            let OfPlace {
                ns,
                steps,
                of_steps,
                ranks,
            } = of_place;
            let kernel = kernel_name::short(before);
            let (why, advice, lies_in): (&str, &str, &[&str]) = match cause {
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
                _ => ("the reason for the stall is unknown", "check this place in the trace", &[IDLE]),
            };
            Draft::new(
                RULE.id,
                format!("the place before {kernel}"),
                format!(
                    "the devices do not compute before {kernel} in {steps} of {of_steps} steps: {} of their time",
                    percent(ns, window)
                ),
            )
            .evidence(format!(
                "{} per step on average, {} in total on {}",
                shown(ns / i64::try_from(steps.max(1)).unwrap_or(1)),
                shown(ns),
                some(&facts.names(&ranks))
            ))
            .cause(why)
            .advice(advice)
            .holds("steps", steps as f64 / of_steps.max(1) as f64 * 100.0, ">=", 20.0, "%")
            .holds(
                "share of the devices' time",
                ns as f64 / window as f64 * 100.0,
                ">=",
                MIN_COST_PERCENT as f64,
                "%",
            )
            .ranks(ranks)
            .cost(
                ns / ranks_known,
                "time without compute at this place, mean over the ranks with recorded device work",
                lies_in,
            )
        })
        .collect()
}
