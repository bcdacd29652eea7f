//! Findings about ranks and hosts that are late, and about uneven stages.

pub mod imbalance;
pub mod lateness;
pub mod pipeline_imbalance;
pub mod slow_host;
