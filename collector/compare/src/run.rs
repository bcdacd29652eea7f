//! Run of a comparison.

use super::summarise;
use rankscope_formats::comparison::{RunSummary, WorstStep};

/// Compared run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Summary of the run.
    pub summary: RunSummary,
    /// Longest steps; empty for a stored summary.
    pub worst_steps: Vec<WorstStep>,
    /// Entry of the baseline, counted from 0; `None` for a run whose session was read.
    pub entry: Option<u32>,
}

impl Run {
    /// Creates a run whose session was read.
    pub fn of_session(summarised: summarise::Summarised) -> Self {
        Self {
            summary: summarised.summary,
            worst_steps: summarised.worst_steps,
            entry: None,
        }
    }

    /// Creates a run of the n-th entry of a baseline.
    pub fn of_baseline(summary: RunSummary, entry: u32) -> Self {
        Self {
            summary,
            worst_steps: Vec::new(),
            entry: Some(entry),
        }
    }
}
