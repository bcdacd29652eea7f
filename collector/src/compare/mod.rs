//! Comparing runs: whether a change made training or communication worse, by how much, where, and how sure that is.
//!
//! In the order of the data: [`metrics`] is the table of what is compared, [`summarise`] makes one run's summary from its session.

pub mod metrics;
pub mod summarise;
