//! Uneven stages of a pipeline (METRICS.md, section 8).

use rankscope_formats::session::Stage;

/// Returns the own time of each stage per step, averaged over its ranks, in ns.
pub fn own_per_step(stages: &[Stage]) -> Option<Vec<i64>> {
    let each = stages.iter().map(|stage| {
        let rank_steps = i64::try_from(stage.steps).ok()? * stage.ranks.len() as i64;
        (rank_steps > 0).then(|| stage.own_rank_ns / rank_steps)
    });
    each.collect()
}

/// Returns the gain of equal stages. A step of stages that take t_i for each of m micro-batches takes Σ t_i + (m − 1)
/// max t_i.
pub fn imbalance(own_ns: &[i64], micro_batches: i64) -> i64 {
    let count = own_ns.len().max(1) as i64;
    let mean = own_ns.iter().sum::<i64>() / count;
    let largest = own_ns.iter().copied().max().unwrap_or(mean);
    (largest - mean) * (micro_batches - 1).max(0) / micro_batches.max(1)
}
