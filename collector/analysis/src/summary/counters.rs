//! Counters, for `session.json`.

use crate::measures::merge_result::MergeResult;
use crate::rank::{CounterSum, Minima};
use rankscope_formats::session::CounterSummary;
use std::collections::BTreeSet;

/// Maximum number of entries. A program may name a counter after each of its objects.
const MAX_ENTRIES: usize = 1 << 16;
/// Minimum number of counters that are kept, however many ranks there are.
const MIN_NAMES: usize = 16;

/// Returns the names of the counters that are kept, and the number of others.
fn kept<'a>(parts: &'a MergeResult<'_>) -> (BTreeSet<&'a str>, usize) {
    let all: BTreeSet<&str> = parts
        .sums
        .iter()
        .flat_map(|sums| sums.counters.iter().map(|sum| sum.name.as_str()))
        .collect();
    let most = (MAX_ENTRIES / parts.sums.len().max(1)).max(MIN_NAMES);
    let others = all.len().saturating_sub(most);
    (all.into_iter().take(most).collect(), others)
}

/// Returns the number of counters that are only in the table.
pub fn left_out(parts: &MergeResult<'_>) -> usize {
    kept(parts).1
}

/// Returns the counters of all ranks, by rank and name.
pub fn counters(parts: &MergeResult<'_>) -> Vec<CounterSummary> {
    let (names, _) = kept(parts);
    let mut out: Vec<CounterSummary> = parts
        .sums
        .iter()
        .zip(0..)
        .flat_map(|(sums, rank)| sums.counters.iter().map(move |sum| of(rank, sum)))
        .filter(|counter| names.contains(counter.name.as_str()))
        .collect();
    out.sort_by(|one, other| (one.rank, &one.name).cmp(&(other.rank, &other.name)));
    out
}

fn of(rank: u32, sum: &CounterSum) -> CounterSummary {
    let known = |value: f64| (sum.finite > 0).then_some(value);
    CounterSummary {
        rank,
        name: sum.name.clone(),
        source: sum.source,
        samples: sum.samples,
        min: known(sum.min),
        mean: known(sum.sum / sum.finite as f64),
        max: known(sum.max),
        last: sum.last.is_finite().then_some(sum.last),
        growth: sum.minima.as_ref().and_then(Minima::growth),
    }
}
