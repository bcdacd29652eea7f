//! Sampled GPUs, for `session.json`.

use crate::measures::merge_result::MergeResult;
use crate::rank::GpuSum;
use rankscope_formats::session::{Figure, GpuSummary, Ratio};

/// Returns the GPUs of all ranks by rank, then those of no rank.
pub fn gpus(parts: &MergeResult<'_>) -> Vec<GpuSummary> {
    let of_ranks = parts.sums.iter().zip(0..);
    let of_ranks = of_ranks.flat_map(|(sums, rank)| sums.gpus.iter().map(move |sum| of(Some(rank), sum)));
    of_ranks
        .chain(parts.other_gpus.iter().map(|sum| of(None, sum)))
        .collect()
}

fn of(rank: Option<u32>, sum: &GpuSum) -> GpuSummary {
    let share = |samples: u64| {
        Ratio::figure(
            samples as i64,
            sum.busy_with_reasons as i64,
            "no busy sample says why clocks were reduced",
        )
    };
    GpuSummary {
        rank,
        device: sum.device,
        address: sum.gpu.address.clone(),
        model: sum.gpu.model.clone(),
        max_sm_clock_mhz: sum.gpu.max_sm_clock_mhz,
        samples: sum.samples,
        busy_samples: sum.busy,
        busy_sm_clock_mhz: if sum.busy_with_clock > 0 {
            Figure::known(sum.busy_clock_sum_mhz as f64 / sum.busy_with_clock as f64)
        } else {
            Figure::unknown("no busy sample has a clock")
        },
        throttled_by_temperature: share(sum.thermal),
        throttled_by_power: share(sum.power),
        throttled_by_hardware: share(sum.hardware),
    }
}
