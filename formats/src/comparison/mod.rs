//! Comparison of runs: the data that is kept of a run ([`RunSummary`], a few kilobytes), and the result of a comparison
//! ([`Comparison`]).
//!
//! A [`RunSummary`] is computed from a session by fixed rules that depend on this run only. A baseline stores
//! summaries, so that a later comparison needs no trace.

mod document;
mod run_summary;
mod stored;

pub use document::{
    Attribution, Better, Change, Comparison, Detectable, Difference, DifferenceEffect, GateResult,
    GateVerdict, Interval, Method, MetricResult, MetricVerdict, NotCompared, OutlierEffect, PartChange,
    RankChange, RunUsed, SideSummary, StepQuantiles, Verdict, WorstStep, comparison_schema, full_name,
};
pub use run_summary::{
    CommunicatorsOfRun, FindingOfRun, Mean, Measured, OperationOfRun, RankOfRun, RunName, RunSummary,
    StepsUsed, Value, WorldOfRun,
};
pub use stored::{READABLE_FROM, STORED_VERSION, StoredBatch, StoredError};

/// Version of the JSON layout of [`Comparison`].
pub const COMPARISON_VERSION: u32 = 1;
