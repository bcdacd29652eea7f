//! Findings about devices.

pub mod synchronising;
pub mod utilisation;
