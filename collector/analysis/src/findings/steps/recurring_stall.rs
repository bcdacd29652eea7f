//! A place in the step at which the devices do not compute, again and again.

use crate::findings::draft::part::{HOST, IDLE, TRANSFER, WAITING};
use crate::findings::rule::Rule;
use crate::findings::shown::{percent, some};
use crate::findings::{Draft, Facts, shown};
use crate::model::kernel_name;
use std::collections::BTreeMap;

/// Cost from which it is told, percent of the recorded steps.
const LEAST_COST_PERCENT: i64 = 2;
/// Places that are told.
const MOST_PLACES: usize = 3;

/// A recurring stall.
pub const RULE: Rule = Rule {
    id: "recurring-stall",
    title: "The devices stand still at the same place of each step",
    means: "Before the same kernel the devices of a rank have nothing to compute, in many steps.",
    fires: "A stretch without compute takes at least 1 % of a step at the same place in at least a fifth of the steps \
            (METRICS.md, section 6), and at least 2 % of the recorded time of the ranks together.",
    silent: "Stretches that come once, gaps on one stream behind which another computes, and runs without --kernels.",
    find: Some(find),
    of_stated: None,
};

/// Stretches at one place, over all ranks.
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
    places.retain(|(_, sum)| sum.ns * 100 >= window * LEAST_COST_PERCENT);
    places.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.ns));
    let ranks_known = known.len() as i64;
    let places = places.into_iter().take(MOST_PLACES);
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
                    "the device waits for communication there",
                    "start that communication earlier, or find work that does not need it",
                    &[WAITING, TRANSFER],
                ),
                "memory" => (
                    "the device copies there, and computes nothing meanwhile",
                    "copy on a stream of its own from pinned memory (pin_memory, non_blocking=True)",
                    &[IDLE],
                ),
                "host-late" => (
                    "the host launches this kernel too late: it prepares input, waits for the device, or runs Python",
                    "look at the host's threads before this kernel: data loading, .item(), .cpu(), printing, the optimiser's loop; \
                     CUDA graphs or torch.compile make launches cheaper",
                    &[HOST, IDLE],
                ),
                _ => ("what the device waits for is not known", "look at this place in the trace", &[IDLE]),
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
                "{} each time on average, {} on {}",
                shown(ns / i64::try_from(steps.max(1)).unwrap_or(1)),
                shown(ns),
                some(&facts.names(&ranks))
            ))
            .cause(why)
            .advice(advice)
            .holds("steps", steps as f64 / of_steps.max(1) as f64 * 100.0, ">=", 20.0, "%")
            .holds(
                "of the devices' time",
                ns as f64 / window as f64 * 100.0,
                ">=",
                LEAST_COST_PERCENT as f64,
                "%",
            )
            .ranks(ranks)
            .cost(
                ns / ranks_known,
                "time without compute at this place, by the mean of the ranks whose devices are known",
                lies_in,
            )
        })
        .collect()
}
