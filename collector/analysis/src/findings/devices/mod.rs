//! Findings about devices.

pub mod clocks;
pub mod synchronising;
pub mod utilisation;
