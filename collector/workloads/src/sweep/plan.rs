//! What a sweep measures.

use crate::case::Pattern;
use crate::data::DataType;
use rankscope_formats::bench::Placement;
use std::time::Duration;

/// Plan of a sweep. All ranks have the same.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Patterns, in order.
    pub patterns: Vec<Pattern>,
    /// Sizes S, in bytes, in order.
    pub sizes: Vec<u64>,
    /// Placements, in order.
    pub placements: Vec<Placement>,
    /// Type of the elements.
    pub data_type: DataType,
    /// Blocks per row.
    pub blocks: u32,
    /// Maximum number of operations per block.
    pub most_iterations: u32,
    /// Operations before the first block.
    pub warmup_iterations: u32,
    /// Time after which a row has fewer operations per block.
    pub row_limit: Duration,
    /// Whether results are compared with the expected ones.
    pub is_checked: bool,
    /// Whether the operations are recorded.
    pub is_recorded: bool,
    /// Messages between all pairs.
    pub pairs: Option<PairPlan>,
}

/// Messages between all pairs.
#[derive(Clone, Copy, Debug)]
pub struct PairPlan {
    /// Size of the messages that measure latency, in bytes.
    pub small_bytes: u64,
    /// Size of the messages that measure bandwidth, in bytes.
    pub large_bytes: u64,
    /// Messages per pair and direction.
    pub messages: u32,
}

impl Plan {
    /// Returns the operations of a block, if one takes this time.
    pub fn iterations(&self, one: Duration) -> u32 {
        let possible = self.row_limit.as_secs_f64() / f64::from(self.blocks) / one.as_secs_f64().max(1e-9);
        (possible as u32).clamp(1, self.most_iterations)
    }
}

/// Returns the sizes from `min` to `max`, each `factor` times the one before.
pub fn sizes(min: u64, max: u64, factor: u32) -> Vec<u64> {
    let factor = u64::from(factor.max(2));
    std::iter::successors(Some(min.max(1)), |size| size.checked_mul(factor))
        .take_while(|&size| size <= max)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_by_the_factor_up_to_the_largest() {
        assert_eq!(sizes(8, 64, 2), [8, 16, 32, 64]);
        assert_eq!(sizes(3, 50, 4), [3, 12, 48]);
        assert!(sizes(9, 8, 2).is_empty());
        assert_eq!(sizes(1 << 62, u64::MAX, 2).len(), 2);
    }
}
