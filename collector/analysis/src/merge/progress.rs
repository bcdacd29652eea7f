//! Progress of a merge.

/// Progress of a merge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Current phase: `opening logs`, `aligning clocks`, `finding steps`, `matching`, `writing`. Of many ranks also
    /// `reading logs` before and `writing tables` after `matching`.
    pub phase: &'static str,
    /// Number of operations processed in this phase.
    pub operations: u64,
    /// Processed share of the run's time or of the ranks, from 0 to 1; `None` if unknown.
    pub share: Option<f64>,
}

impl Progress {
    /// Returns the progress of a phase whose share of the run's time is unknown.
    pub(super) fn of_phase(phase: &'static str, operations: u64) -> Self {
        Self {
            phase,
            operations,
            share: None,
        }
    }
}
