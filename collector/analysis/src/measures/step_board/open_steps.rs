//! Steps that some rank has not completed yet.

use crate::measures::waited::Waited;
use crate::rank::StepCut;
use rankscope_formats::ids::StepIndex;
use std::collections::VecDeque;

/// Maximum number of open steps; on overflow the oldest is closed with the data that it has.
const MAX_OPEN: usize = 1 << 14;

/// One rank in one step.
#[derive(Clone, Copy, Default)]
pub struct Cell {
    /// The step of the rank, once it has ended.
    pub cut: Option<StepCut>,
    /// Newly counted waits in the step.
    pub waited: Waited,
    /// Exposed waiting in receives along a pipeline, in ns.
    pub bubble_ns: i64,
    /// Number of operations that were read and not yet matched.
    outstanding: u32,
    /// True if the rank lacks the step.
    absent: bool,
}

/// A step that is complete, or is closed without some ranks.
pub struct ClosedStep {
    /// The step.
    pub step: StepIndex,
    /// Cells by row.
    pub cells: Vec<Cell>,
}

/// A step that is open.
struct OpenStep {
    /// Cells by row.
    cells: Vec<Cell>,
    /// Number of ranks whose step has ended. It is kept, because it is needed after every batch.
    ended: usize,
}

/// Open steps of one world.
pub struct OpenSteps {
    /// Number of the oldest open step.
    first: StepIndex,
    open: VecDeque<OpenStep>,
    /// Number of ranks of the oldest open step, from the first on, whose data is complete.
    front_ready: usize,
    /// Buffers of closed steps.
    spare: Vec<Vec<Cell>>,
    /// Ranks whose log was read to its end.
    ended: Vec<bool>,
}

impl OpenSteps {
    /// Creates an empty list for a world with this number of ranks.
    pub fn new(ranks: usize) -> Self {
        Self {
            first: StepIndex(0),
            open: VecDeque::new(),
            front_ready: 0,
            spare: Vec::new(),
            ended: vec![false; ranks],
        }
    }

    fn cell(&mut self, rank: usize, step: StepIndex) -> Option<&mut Cell> {
        let index = step.0.checked_sub(self.first.0)? as usize;
        if index > 2 * MAX_OPEN {
            return None;
        }
        while self.open.len() <= index {
            let mut cells = self.spare.pop().unwrap_or_default();
            cells.clear();
            cells.extend(self.ended.iter().map(|&absent| Cell {
                absent,
                ..Cell::default()
            }));
            self.open.push_back(OpenStep { cells, ended: 0 });
        }
        self.open.get_mut(index)?.cells.get_mut(rank)
    }

    /// Registers an operation of a rank in a step that has not been matched yet.
    #[inline]
    pub fn expect(&mut self, rank: usize, step: StepIndex) {
        if let Some(cell) = self.cell(rank, step) {
            cell.outstanding += 1;
        }
    }

    /// Registers that an operation was matched, with its newly counted waits.
    #[inline]
    pub fn matched(&mut self, rank: usize, step: StepIndex, new: Waited) {
        if let Some(cell) = self.cell(rank, step) {
            cell.outstanding = cell.outstanding.saturating_sub(1);
            cell.waited += new;
        }
    }

    /// Adds newly counted waiting of a pipeline stage in a receive.
    #[inline]
    pub fn waited_in_chain(&mut self, rank: usize, step: StepIndex, exposed_ns: i64) {
        if let Some(cell) = self.cell(rank, step) {
            cell.bubble_ns += exposed_ns;
        }
    }

    /// Registers the end of a rank's step.
    pub fn cut(&mut self, rank: usize, cut: StepCut) {
        let Some(cell) = self.cell(rank, cut.step) else {
            return;
        };
        let is_first = cell.cut.replace(cut).is_none();
        let index = (cut.step.0 - self.first.0) as usize;
        if let Some(open) = self.open.get_mut(index) {
            open.ended += usize::from(is_first);
        }
    }

    /// Registers that a rank lacks all steps before this one.
    pub fn lacks_before(&mut self, rank: usize, step: StepIndex) {
        let before = step.0.saturating_sub(self.first.0) as usize;
        for open in self.open.iter_mut().take(before) {
            if let Some(cell) = open.cells.get_mut(rank) {
                cell.absent = true;
            }
        }
    }

    /// Registers the end of a rank's log. No further steps of the rank follow.
    pub fn rank_ended(&mut self, rank: usize) {
        self.ended[rank] = true;
        for open in &mut self.open {
            if let Some(cell) = open.cells.get_mut(rank) {
                cell.absent = cell.cut.is_none();
            }
        }
    }

    /// Closes the oldest step if it is complete, or in any case if `all` is true.
    pub fn close_oldest(&mut self, all: bool) -> Option<ClosedStep> {
        let cells = &self.open.front()?.cells;
        // Earlier ranks were ready at the last check, so each check of a thousand ranks reads only a few.
        while let Some(cell) = cells.get(self.front_ready) {
            if !(cell.absent || (cell.cut.is_some() && cell.outstanding == 0)) {
                break;
            }
            self.front_ready += 1;
        }
        let is_ready = self.front_ready >= cells.len();
        if !is_ready && !all && !self.is_overtaken() {
            return None;
        }
        let cells = self.open.pop_front()?.cells;
        let step = self.first;
        self.first.0 += 1;
        self.front_ready = 0;
        Some(ClosedStep { step, cells })
    }

    /// Returns true if a much later step is ready. A rank that lost the end of the oldest step lacks that step.
    fn is_overtaken(&self) -> bool {
        self.open.len() > MAX_OPEN || (self.open.get(8)).is_some_and(|later| later.ended == later.cells.len())
    }

    /// Keeps the buffer of a closed step for a later one.
    pub fn reuse(&mut self, closed: ClosedStep) {
        self.spare.push(closed.cells);
    }
}
