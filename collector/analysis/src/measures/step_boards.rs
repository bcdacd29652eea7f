//! Step boards of all worlds, addressed by rank of the session, and the waits of each rank over the whole run.

use crate::identity::Identities;
use crate::measures::step_board::StepBoard;
use crate::measures::waited::Waited;
use crate::model::operation::{NO_STEP, RankOperation};
use crate::rank::StepCut;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::StepKind;

/// Place of a rank.
#[derive(Clone, Copy)]
struct Place {
    world: usize,
    /// Row in the board of its world.
    row: usize,
}

/// Steps of all worlds.
pub struct StepBoards {
    /// The board of each world.
    pub boards: Vec<StepBoard>,
    place_of: Vec<Option<Place>>,
    /// Wait of each rank over the whole run.
    waited: Vec<Waited>,
}

impl StepBoards {
    /// Addresses boards of worlds by rank.
    pub fn new(identities: &Identities, boards: Vec<StepBoard>) -> Self {
        let mut place_of = vec![None; identities.ranks.len()];
        for (world, known) in identities.worlds.iter().enumerate() {
            for (row, &rank) in known.ranks.iter().enumerate() {
                place_of[rank.index()] = Some(Place { world, row });
            }
        }
        Self {
            boards,
            place_of,
            waited: vec![Waited::default(); identities.ranks.len()],
        }
    }

    /// Returns the board of a rank's world, and the rank's row in it.
    pub fn of_rank(&self, rank: RankIndex) -> Option<(&StepBoard, usize)> {
        let Place { world, row } = self.place_of.get(rank.index()).copied().flatten()?;
        Some((&self.boards[world], row))
    }

    fn of_rank_mut(&mut self, rank: RankIndex) -> Option<(&mut StepBoard, usize)> {
        let Place { world, row } = self.place_of.get(rank.index()).copied().flatten()?;
        Some((&mut self.boards[world], row))
    }

    /// Returns the board of an operation's step, if it is in a step.
    fn of_operation(&mut self, operation: &RankOperation) -> Option<(&mut StepBoard, usize)> {
        if operation.step == NO_STEP {
            return None;
        }
        self.of_rank_mut(operation.rank)
    }

    /// Registers an operation that was read. Its step is not complete before the operation has been matched.
    #[inline]
    pub fn expect(&mut self, operation: &RankOperation) {
        if let Some((board, row)) = self.of_operation(operation) {
            board.expect(row, operation.step);
        }
    }

    /// Registers that an operation was matched, with its newly counted waits.
    pub fn matched(&mut self, operation: &RankOperation, new: Waited) {
        if let Some(waited) = self.waited.get_mut(operation.rank.index()) {
            *waited += new;
        }
        if let Some((board, row)) = self.of_operation(operation) {
            board.matched(row, operation.step, new);
        }
    }

    /// Adds newly counted waiting of a pipeline stage in a receive.
    pub fn waited_in_chain(&mut self, receive: &RankOperation, exposed_ns: i64) {
        if let Some((board, row)) = self.of_operation(receive) {
            board.waited_in_chain(row, receive.step, exposed_ns);
        }
    }

    /// Leaves out the step of an operation that began before the merged part of the run.
    pub fn leave_out(&mut self, operation: &RankOperation) {
        if let Some((board, _)) = self.of_operation(operation) {
            board.leave_out(operation.step);
        }
    }

    /// Registers the end of a rank's step.
    pub fn cut(&mut self, rank: RankIndex, cut: StepCut) {
        if let Some((board, row)) = self.of_rank_mut(rank) {
            board.cut(row, cut);
        }
    }

    /// Registers the end of a rank's log.
    pub fn rank_ended(&mut self, rank: RankIndex) {
        if let Some((board, row)) = self.of_rank_mut(rank) {
            board.rank_ended(row);
        }
    }

    /// Returns true if the operation is in a training step.
    pub fn is_in_training(&self, operation: &RankOperation) -> bool {
        operation.step != NO_STEP
            && self
                .of_rank(operation.rank)
                .is_none_or(|(board, _)| board.kind(operation.step) == StepKind::Train)
    }

    /// Returns the wait of a rank: in its training steps, or over the whole run.
    pub fn waited(&self, rank: RankIndex, in_steps: bool) -> Waited {
        match self.of_rank(rank) {
            Some((board, row)) if in_steps => board.waited[row],
            _ => self.waited[rank.index()],
        }
    }
}
