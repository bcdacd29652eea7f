//! One run of a comparison.

use super::summarise;
use rankscope_formats::comparison::{RunSummary, WorstStep};

/// A run that is compared.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its summary.
    pub summary: RunSummary,
    /// Its longest steps; of a stored summary none.
    pub worst_steps: Vec<WorstStep>,
    /// The entry of the baseline that it is of, counted from 0; `None` for a run whose session was read.
    pub entry: Option<u32>,
}

impl Run {
    /// A run whose session was read.
    pub fn of_session(summarised: summarise::Summarised) -> Self {
        Self {
            summary: summarised.summary,
            worst_steps: summarised.worst_steps,
            entry: None,
        }
    }

    /// A run of the n-th entry of a baseline.
    pub fn of_baseline(summary: RunSummary, entry: u32) -> Self {
        Self {
            summary,
            worst_steps: Vec::new(),
            entry: Some(entry),
        }
    }
}
