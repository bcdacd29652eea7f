//! collector
pub mod report;
