//! Findings about time inside and between steps.

pub mod named_pauses;
pub mod periodic_pause;
pub mod recurring_stall;
pub mod restart;
pub mod slow_start;
pub mod unused_parameters;
