//! DistributedDataParallel's search for unused parameters.

use crate::findings::draft::part::{HOST, TRANSFER};
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};

/// Minimum cost of a finding, in percent of step time.
const MIN_COST_PERCENT: f64 = 1.0;
/// Minimum share of steps with a search, in percent.
const MIN_STEPS_PERCENT: f64 = 50.0;

/// DDP searches for unused parameters.
pub const RULE: Rule = Rule {
    id: "unused-parameter-search",
    title: "DDP searches for unused parameters in each step",
    means: "With find_unused_parameters=True, DDP walks the autograd graph after each forward pass. After the last \
            gradient bucket, it all-reduces one number per parameter.",
    fires: "c10d::Reducer::search_unused_parameters ran in at least half of the steps. The search and the transfer \
            of the additional all-reduce take at least 1 % of step time.",
    silent: "DDP without find_unused_parameters. DDP with static_graph=True, which searches once. Searches that cost \
            less. The recording does not show whether the model has unused parameters; if it has, the search is \
            needed, as the advice says.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let entries = facts.in_steps();
    let window: i64 = entries.iter().map(|entry| entry.window_ns).sum();
    let steps: u64 = entries.iter().map(|entry| entry.steps).sum();
    let (mut searches, mut searched) = (0, 0);
    for entry in &entries {
        if let Some(sums) = facts.sums(entry.rank as usize) {
            searches += sums.reducer.unused_searches;
            searched += sums.reducer.unused_searches_ns;
        }
    }
    if searches == 0 || window == 0 {
        return Vec::new();
    }
    let steps_percent = searches as f64 / steps as f64 * 100.0;
    // The bitmap has one number per parameter. It is the smallest all-reduce that occurs in each step.
    let bitmap = facts
        .session
        .operations
        .iter()
        .filter(|class| {
            class.operation == "all-reduce" && !class.launches && class.operations >= searches * 9 / 10
        })
        .filter_map(|class| Some((class.size_from_bytes?, class.transfer_ns.value?.p50)))
        .min_by_key(|&(size, _)| size);
    let ranks = entries.len() as i64;
    let map_ns = bitmap.map_or(0, |(_, median)| median as i64) * searches as i64 / ranks;
    let cost = searched / ranks + map_ns;
    let cost_percent = (cost * ranks) as f64 / window as f64 * 100.0;
    if steps_percent < MIN_STEPS_PERCENT || cost_percent < MIN_COST_PERCENT {
        return Vec::new();
    }
    let draft = Draft::new(
        RULE.id,
        "DDP's search for unused parameters",
        format!(
            "DDP searches for unused parameters in each step: {} per rank, {cost_percent:.1} % of step time",
            shown(cost)
        ),
    )
    .evidence(format!(
        "{searches} searches in {steps} steps, summed over ranks, took {}, {} of step time",
        shown(searched),
        percent(searched, window)
    ))
    .evidence(match bitmap {
        Some((_, median)) => format!(
            "each step all-reduces one additional number per parameter: about {} of transfer",
            shown(median as i64)
        ),
        None => "the duration of the additional all-reduce is unknown".to_owned(),
    })
    .cause("find_unused_parameters=True")
    .advice(
        "set find_unused_parameters=False if every parameter gets a gradient in every step (PyTorch reports an error \
         if not); set static_graph=True if the same parameters never get one",
    )
    .holds("searches per step", steps_percent, ">=", MIN_STEPS_PERCENT, "%")
    .holds("share of step time in the search and its all-reduce", cost_percent, ">=", MIN_COST_PERCENT, "%")
    .ranks(entries.iter().map(|entry| entry.rank))
    .cost(
        cost,
        "measured time in the search, mean over ranks, plus the median transfer of the smallest all-reduce of each \
         step",
        &[HOST, TRANSFER],
    );
    vec![match facts.session.steps.median_ns.value {
        Some(median) => draft.of_step(cost * ranks / (steps as i64).max(1), median),
        None => draft,
    }]
}
