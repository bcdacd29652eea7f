//! The steps of a world.

use crate::rank::anchors::{AnchorList, Anchors};
use rankscope_formats::ids::RankIndex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Minimum share of the operations that the pattern must explain.
pub const MIN_CONFIDENCE: f64 = 0.9;

/// The steps of a world, as found on its reference rank.
#[derive(Clone, Debug, Default)]
pub struct StepPlan {
    /// Source of the steps: `marks`, `pattern`, `pattern-with-sizes` or `none`.
    pub source: &'static str,
    /// Description of the cycle.
    pub pattern: Option<String>,
    /// Number of operations in cycles.
    pub explained: u64,
    /// Number of operations between the first and the last cycle.
    pub total: u64,
    /// Operations that end cycles; empty if there are no steps.
    pub anchors: Arc<AnchorList>,
    /// Median time between anchors on the reference rank, in ns.
    pub median_ns: Option<i64>,
    /// Reason why there are no steps.
    pub reason: Option<String>,
    /// The reference rank.
    pub reference: Option<RankIndex>,
    /// Anchors by rank, for ranks that take no part in `anchors`. They end the same steps.
    pub others: BTreeMap<RankIndex, Arc<AnchorList>>,
}

impl StepPlan {
    /// Returns the operations that end the cycles of a rank.
    pub fn anchors_of(&self, rank: RankIndex) -> Anchors {
        Anchors::new(self.others.get(&rank).unwrap_or(&self.anchors).clone())
    }

    /// Returns the plan of a world without steps.
    pub fn none(reason: impl Into<String>) -> Self {
        Self {
            source: "none",
            reason: Some(reason.into()),
            ..Self::default()
        }
    }

    /// Returns the share of the operations that the pattern explains.
    pub fn confidence(&self) -> Option<f64> {
        (self.total > 0).then(|| self.explained as f64 / self.total as f64)
    }
}
