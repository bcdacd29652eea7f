//! Findings about ranks and hosts that are late, and about uneven stages.

mod lateness;

pub mod imbalance;
pub mod late_rank;
pub mod pipeline_imbalance;
pub mod rotating_lateness;
pub mod slow_host;
