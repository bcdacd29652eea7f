//! Comparing runs: what is kept of a run ([`RunSummary`], some kilobytes), and what a comparison says ([`Comparison`]).
//!
//! A [`RunSummary`] is made from a session by fixed rules that look at this run alone. A baseline stores summaries, so a later
//! comparison needs no trace.

mod document;
mod run_summary;
mod stored;

pub use document::{
    Attribution, Change, Comparison, Detectable, Difference, GateResult, Interval, Method, MetricResult,
    NotCompared, OutlierEffect, PartChange, RankChange, RunUsed, SideSummary, StepQuantiles, WorstStep,
    comparison_schema, full_name,
};
pub use run_summary::{
    CommunicatorsOfRun, FindingOfRun, Mean, Measured, OperationOfRun, RankOfRun, RunName, RunSummary,
    StepsUsed, Value, WorldOfRun,
};
pub use stored::{READABLE_FROM, STORED_VERSION, StoredBatch, StoredError};

/// Version of [`Comparison`] as JSON.
pub const COMPARISON_VERSION: u32 = 1;
