//! Whole steps of a part of a run.

use super::open_steps::ClosedStep;
use rankscope_formats::ids::StepIndex;

/// Steps that are left out because they, or operations in them, began before the part.
pub struct PartSteps {
    /// First recorded step of each rank.
    first: Vec<Option<StepIndex>>,
    /// First whole step. Earlier steps have operations that began before the part.
    whole_from: StepIndex,
    /// Number of steps that were left out.
    pub left_out: u64,
}

impl PartSteps {
    /// Creates the state of a world with this number of ranks.
    pub fn new(ranks: usize) -> Self {
        Self {
            first: vec![None; ranks],
            whole_from: StepIndex(0),
            left_out: 0,
        }
    }

    /// Leaves a step out because one of its operations began before the part.
    pub fn leave_out(&mut self, step: StepIndex) {
        self.whole_from = self.whole_from.max(StepIndex(step.0.saturating_add(1)));
    }

    /// Registers a step of a rank. Returns true if it is the first one.
    pub fn is_first(&mut self, rank: usize, step: StepIndex) -> bool {
        match self.first.get_mut(rank) {
            Some(first @ None) => {
                *first = Some(step);
                true
            }
            _ => false,
        }
    }

    /// Returns true if a step is left out, and counts it.
    pub fn leaves_out(&mut self, closed: &ClosedStep) -> bool {
        let is_later = |first: &Option<StepIndex>| first.is_some_and(|first| first > closed.step);
        let leaves_out = closed.step < self.whole_from || self.first.iter().any(is_later);
        if leaves_out {
            self.left_out += u64::from(closed.cells.iter().any(|cell| cell.cut.is_some()));
        }
        leaves_out
    }
}
