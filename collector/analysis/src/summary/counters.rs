//! Counters, for `session.json`.

use crate::measures::merge_result::MergeResult;
use crate::rank::CounterSum;
use rankscope_formats::session::CounterSummary;

/// Maximum number of entries. A program may name a counter after each of its objects.
const MAX_ENTRIES: usize = 4_096;

/// Returns the counters of all ranks, by rank and name.
pub fn counters(parts: &MergeResult<'_>) -> Vec<CounterSummary> {
    let mut out: Vec<CounterSummary> = parts
        .sums
        .iter()
        .zip(0..)
        .flat_map(|(sums, rank)| sums.counters.iter().map(move |sum| of(rank, sum)))
        .collect();
    out.sort_by(|one, other| (one.rank, &one.name).cmp(&(other.rank, &other.name)));
    out.truncate(MAX_ENTRIES);
    out
}

fn of(rank: u32, sum: &CounterSum) -> CounterSummary {
    let known = |value: f64| (sum.finite > 0).then_some(value);
    CounterSummary {
        rank,
        name: sum.name.clone(),
        samples: sum.samples,
        min: known(sum.min),
        mean: known(sum.sum / sum.finite as f64),
        max: known(sum.max),
        last: sum.last.is_finite().then_some(sum.last),
    }
}
