//! DistributedDataParallel searches for unused parameters in every step.

use crate::findings::draft::part::{HOST, TRANSFER};
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};

/// Cost from which it is told, percent of step time.
const LEAST_COST_PERCENT: f64 = 1.0;
/// Share of the steps in which it was seen, percent.
const LEAST_STEPS_PERCENT: f64 = 50.0;

/// DDP searches for unused parameters.
pub const RULE: Rule = Rule {
    id: "unused-parameter-search",
    title: "DDP searches the graph for unused parameters in each step",
    means: "With find_unused_parameters=True DDP walks the autograd graph after each forward pass, and all-reduces one number \
            per parameter after the last gradient bucket.",
    fires: "c10d::Reducer::search_unused_parameters was called in at least half of the steps, and the search together with the \
            transfer of the one more all-reduce takes at least 1 % of step time.",
    silent: "DDP without find_unused_parameters, or with static_graph=True, which searches once; searches that cost less. Whether \
             the model has unused parameters is not recorded: then the search is needed, and the advice says so.",
    find: Some(find),
    of_stated: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let entries = facts.in_steps();
    let window: i64 = entries.iter().map(|entry| entry.window_ns).sum();
    let steps: u64 = entries.iter().map(|entry| entry.steps).sum();
    let (mut searches, mut searched) = (0, 0);
    for entry in &entries {
        if let Some(sums) = facts.sums(entry.rank as usize) {
            searches += sums.unused_searches.0;
            searched += sums.unused_searches.1;
        }
    }
    if searches == 0 || window == 0 {
        return Vec::new();
    }
    let steps_percent = searches as f64 / steps as f64 * 100.0;
    // One number per parameter: the smallest all-reduce that each step has.
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
    if steps_percent < LEAST_STEPS_PERCENT || cost_percent < LEAST_COST_PERCENT {
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
        "{searches} searches in {steps} steps of ranks took {}, {} of step time",
        shown(searched),
        percent(searched, window)
    ))
    .evidence(match bitmap {
        Some((_, median)) => format!(
            "and each step reduces one number per parameter more: about {} of transfer",
            shown(median as i64)
        ),
        None => "what the additional all-reduce of each step takes is not known".to_owned(),
    })
    .cause("find_unused_parameters=True")
    .advice(
        "DistributedDataParallel(find_unused_parameters=False) if every parameter gets a gradient in every step (PyTorch warns if \
         not), else static_graph=True if it is always the same ones that do not",
    )
    .holds("searches per step", steps_percent, ">=", LEAST_STEPS_PERCENT, "%")
    .holds("step time in the search and its all-reduce", cost_percent, ">=", LEAST_COST_PERCENT, "%")
    .ranks(entries.iter().map(|entry| entry.rank))
    .cost(
        cost,
        "measured time in the search, by the mean rank, and the median transfer of the smallest all-reduce of each step",
        &[HOST, TRANSFER],
    );
    vec![match facts.session.steps.median_ns.value {
        Some(median) => draft.of_step(cost * ranks / (steps as i64).max(1), median),
        None => draft,
    }]
}
