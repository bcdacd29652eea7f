//! Steps across ranks. Joins the cuts of all ranks of a world, computes own delays (METRICS.md, section 8), and keeps
//! the data of the summary. Memory does not grow with the length of the run.

pub mod groups;
pub mod lateness;
pub mod matrix;
pub mod open_steps;
pub mod own_delays;
pub mod part_steps;

use self::groups::Groups;
use self::lateness::Lateness;
use self::matrix::{Column, StepMatrix};
use self::open_steps::{Cell, ClosedStep, OpenSteps};
use self::own_delays::{OwnDelay, OwnDelays};
use self::part_steps::PartSteps;
use crate::measures::no_training::NoTraining;
use crate::measures::waited::Waited;
use crate::model::pause_kinds::position;
use crate::model::quantiles::Sketch;
use crate::rank::StepCut;
use crate::rank::anchors::{AnchorList, AnchorNumber};
use rankscope_formats::ids::{RankIndex, StepIndex};
use rankscope_formats::session::{PauseKind, StepKind, StepRow, StepSummary};
use std::sync::Arc;

/// Time of one rank in the steps that all ranks have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTime {
    /// Number of steps.
    pub steps: u64,
    /// Step time, in ns.
    pub window_ns: i64,
    /// Own time, in ns.
    pub own_ns: i64,
    /// Exposed waiting in receives along a pipeline, in ns.
    pub bubble_ns: i64,
}

impl StageTime {
    fn add(&mut self, cut: &StepCut, bubble_ns: i64) {
        self.steps += 1;
        self.window_ns += cut.end_ns - cut.start_ns;
        self.own_ns += cut.parts.host_ns;
        self.bubble_ns += bubble_ns.min(cut.parts.exposed_ns);
    }
}

/// Steps of one world.
pub struct StepBoard {
    world: u32,
    /// Kinds of the steps.
    anchors: Arc<AnchorList>,
    open: OpenSteps,
    /// Whole steps, if only a part of the run is merged.
    part: Option<PartSteps>,
    /// Groups of compared ranks.
    pub groups: Groups,
    delays: OwnDelays,
    /// Lateness in whole training steps.
    pub lateness: Lateness,
    /// Matrix of ranks and whole training steps.
    pub matrix: StepMatrix,
    /// Number of whole training steps, which all ranks have. Statistics include only these.
    pub count: u64,
    /// Number of whole steps of other kinds.
    pub other_kinds: u64,
    /// Step time over ranks and steps.
    pub duration: Sketch,
    /// Wait per rank over training steps.
    pub waited: Vec<Waited>,
    /// Steps per rank that are not training according to their named times.
    pub no_training: Vec<NoTraining>,
    /// Time of each rank from the point of view of a pipeline.
    pub stage_times: Vec<StageTime>,
    /// Share of a step in which a rank's devices computed, in percent, per rank, over steps with recorded device work.
    pub utilisation: Vec<Sketch>,
}

impl StepBoard {
    /// Creates a board for a world. `group_of` has the group of each rank; ranks are compared with others of their
    /// group. `median_ns` is the median step, and `error_ns` the clock interval.
    pub fn new(world: u32, group_of: &[u32], median_ns: i64, error_ns: i64) -> Self {
        let ranks = group_of.len();
        Self {
            world,
            anchors: Arc::default(),
            open: OpenSteps::new(ranks),
            part: None,
            groups: Groups::new(group_of),
            delays: OwnDelays::new(median_ns, error_ns),
            lateness: Lateness::new(ranks),
            matrix: StepMatrix::new(ranks),
            count: 0,
            other_kinds: 0,
            duration: Sketch::default(),
            waited: vec![Waited::default(); ranks],
            no_training: vec![NoTraining::default(); ranks],
            stage_times: vec![StageTime::default(); ranks],
            utilisation: vec![Sketch::default(); ranks],
        }
    }

    /// Sets the operations that end its steps, which determine the kind of each step.
    #[must_use]
    pub fn with_anchors(mut self, anchors: Arc<AnchorList>) -> Self {
        self.anchors = anchors;
        self
    }

    /// Sets whether this is a part of a run. Steps that a rank began before the part are left out.
    #[must_use]
    pub fn of_part(mut self, is_part: bool) -> Self {
        self.part = is_part.then(|| PartSteps::new(self.waited.len()));
        self
    }

    /// Returns the number of steps that were left out because they, or operations in them, began before the part.
    pub fn left_out(&self) -> u64 {
        self.part.as_ref().map_or(0, |part| part.left_out)
    }

    /// Leaves a step out because one of its operations began before the part.
    pub fn leave_out(&mut self, step: StepIndex) {
        if let Some(part) = &mut self.part {
            part.leave_out(step);
        }
    }

    /// Returns the kind of a step.
    pub fn kind(&self, step: StepIndex) -> StepKind {
        self.anchors.kind(AnchorNumber::ending(step))
    }

    /// Registers an operation of a rank in a step that has not been matched yet.
    #[inline]
    pub fn expect(&mut self, rank: usize, step: StepIndex) {
        self.open.expect(rank, step);
    }

    /// Registers that an operation was matched, with its newly counted waits.
    #[inline]
    pub fn matched(&mut self, rank: usize, step: StepIndex, new: Waited) {
        self.open.matched(rank, step, new);
    }

    /// Adds newly counted waiting of a pipeline stage in a receive.
    #[inline]
    pub fn waited_in_chain(&mut self, rank: usize, step: StepIndex, exposed_ns: i64) {
        self.open.waited_in_chain(rank, step, exposed_ns);
    }

    /// Registers the end of a rank's step.
    pub fn cut(&mut self, rank: usize, cut: StepCut) {
        self.open.cut(rank, cut);
        if let Some(part) = &mut self.part
            && part.is_first(rank, cut.step)
        {
            self.open.lacks_before(rank, cut.step);
        }
    }

    /// Registers the end of a rank's log. No further steps of the rank follow.
    pub fn rank_ended(&mut self, rank: usize) {
        self.open.rank_ended(rank);
    }

    /// Closes the complete steps at the front, or every step if `all` is true. Emits rows as (rank of the world, row).
    pub fn close(&mut self, all: bool, mut row: impl FnMut(usize, StepRow)) {
        while let Some(closed) = self.open.close_oldest(all) {
            let is_left_out = self.part.as_mut().is_some_and(|part| part.leaves_out(&closed));
            if !is_left_out {
                self.take(&closed, &mut row);
            }
            self.open.reuse(closed);
        }
    }

    fn take(&mut self, closed: &ClosedStep, row: &mut impl FnMut(usize, StepRow)) {
        let ClosedStep { step, ref cells } = *closed;
        let declared = self.kind(step);
        let kind = match declared {
            StepKind::Train => named_kind(cells),
            other => other,
        };
        if kind != declared {
            for (cell, sum) in cells.iter().zip(&mut self.no_training) {
                cell.cut.iter().for_each(|cut| sum.add(cut));
            }
        }
        // Statistics never mix kinds. Steps that are not training have rows, and nothing else.
        let is_complete = cells.iter().all(|cell| cell.cut.is_some());
        let whole = is_complete && kind == StepKind::Train;
        self.other_kinds += u64::from(is_complete && !whole);
        self.delays.compare(&self.groups, cells, whole);
        for (rank, cell) in cells.iter().enumerate() {
            let Some(cut) = &cell.cut else {
                continue;
            };
            let waited = waited_in(cell, cut);
            row(
                rank,
                step_row(self.world, kind, cut, waited, self.delays.of(rank)),
            );
            if kind == StepKind::Train {
                self.waited[rank] += waited;
            }
        }
        if whole {
            self.count_whole(step, cells);
        }
    }

    /// Adds a training step that all ranks have to the statistics.
    fn count_whole(&mut self, step: StepIndex, cells: &[Cell]) {
        let mut column = Column::new(step, cells.len());
        for (rank, cell) in cells.iter().enumerate() {
            let Some(cut) = &cell.cut else {
                continue;
            };
            self.duration.add((cut.end_ns - cut.start_ns) as f64);
            if let Some(device) = cut.device.filter(|device| device.window_ns > 0) {
                let computing = device.compute_only_ns + device.overlapped_ns;
                self.utilisation[rank].add(computing as f64 / device.window_ns as f64 * 100.0);
            }
            self.stage_times[rank].add(cut, cell.bubble_ns);
            let exposed_ns = waited_in(cell, cut).exposed_ns;
            column.set(rank, cut, exposed_ns, self.delays.of(rank));
        }
        self.count += 1;
        self.lateness.add(&self.groups, step, |rank| self.delays.of(rank));
        self.matrix.add(column);
    }

    /// Returns the ranks that a rank is compared with, including itself.
    pub fn peers(&self, rank: usize) -> &[usize] {
        self.groups.peers(rank)
    }

    /// Returns the number of steps in which a rank is notably the latest of its peers ([`Lateness::latest_of_notable`]).
    pub fn latest_of_notable(&self, row: usize) -> Option<(u64, u64)> {
        self.lateness.latest_of_notable(&self.groups, row)
    }

    /// Returns the total delay of rows in the steps in which they were the latest, in ns
    /// ([`StepMatrix::latest_delays_ns`]).
    pub fn latest_delays_ns(&self, rows: &[usize]) -> i64 {
        self.matrix.latest_delays_ns(rows)
    }

    /// Returns the list of steps for the summary. `ranks` maps ranks of the world to those of the session.
    pub fn list(&self, ranks: &[RankIndex]) -> Vec<StepSummary> {
        self.matrix.list(self.world, ranks)
    }
}

/// Returns the wait of a rank in a step. Waiting is inside exposed communication by definition, but timestamps of two
/// threads may differ slightly.
fn waited_in(cell: &Cell, cut: &StepCut) -> Waited {
    Waited {
        exposed_ns: cell.waited.exposed_ns.min(cut.parts.exposed_ns),
        hidden_ns: cell.waited.hidden_ns,
    }
}

fn step_row(world: u32, kind: StepKind, cut: &StepCut, waited: Waited, delay: OwnDelay) -> StepRow {
    StepRow {
        world,
        step: cut.step,
        kind,
        start_ns: cut.start_ns,
        end_ns: cut.end_ns,
        host_ns: cut.parts.host_ns,
        exposed_communication_ns: cut.parts.exposed_ns,
        other_blocked_ns: cut.parts.other_blocked_ns,
        communication_ns: cut.parts.communication_ns,
        compute_only_ns: cut.device.map(|parts| parts.compute_only_ns),
        overlapped_ns: cut.device.map(|parts| parts.overlapped_ns),
        exposed_memory_ns: cut.device.map(|parts| parts.exposed_memory_ns),
        idle_ns: cut.device.map(|parts| parts.idle_ns),
        exposed_wait_ns: waited.exposed_ns,
        hidden_wait_ns: waited.hidden_ns,
        own_delay_ns: delay.ns,
        late: delay.is_late,
    }
}

/// Returns the kind of a step from the named times of all ranks that have it.
fn named_kind(cells: &[Cell]) -> StepKind {
    let cuts = || cells.iter().filter_map(|cell| cell.cut);
    let window: i64 = cuts().map(|cut| cut.end_ns - cut.start_ns).sum();
    let named = |kind: PauseKind| -> i64 { cuts().map(|cut| cut.named_ns[position(kind)]).sum() };
    if 2 * named(PauseKind::Evaluation) > window {
        StepKind::Evaluate
    } else if 2 * named(PauseKind::Checkpoint) > window {
        StepKind::Checkpoint
    } else {
        StepKind::Train
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::step_board::matrix::MAX_COLUMNS;
    use crate::rank::RankSums;

    fn cut(step: StepIndex, host_ns: i64) -> StepCut {
        StepCut::on_host(step, 1000, host_ns)
    }

    #[test]
    fn a_persistently_slow_rank_is_late_in_every_step_and_memory_stays_bounded() {
        let mut board = StepBoard::new(0, &[0; 4], 1000, 0);
        let mut rows = 0;
        for step in 0..10_000 {
            for rank in 0..4 {
                board.expect(rank, StepIndex(step));
                board.cut(rank, cut(StepIndex(step), if rank == 2 { 800 } else { 500 }));
                board.matched(
                    rank,
                    StepIndex(step),
                    Waited {
                        exposed_ns: 10,
                        hidden_ns: 0,
                    },
                );
            }
            board.close(false, |_, row| {
                rows += 1;
                assert_eq!(row.late, row.host_ns == 800);
            });
        }
        assert_eq!(
            (rows, board.count, board.lateness.any_late),
            (40_000, 10_000, 10_000)
        );
        assert_eq!(board.lateness.ranks[2].late, 10_000);
        assert_eq!(board.lateness.ranks[2].episodes, 1);
        assert_eq!(board.lateness.ranks[0].late, 0);
        assert!(board.matrix.columns.len() <= MAX_COLUMNS);
        assert_eq!(
            board
                .matrix
                .columns
                .iter()
                .map(|column| u64::from(column.steps))
                .sum::<u64>(),
            10_000
        );
        let list = board.list(&[RankIndex(0), RankIndex(1), RankIndex(2), RankIndex(3)]);
        assert_eq!(list[0].latest_rank, Some(2));
        assert_eq!(list[0].latest_delay_ns, Some(300));
    }

    #[test]
    fn hiccups_around_a_pause_do_not_hide_it_and_are_no_pauses() {
        let mut board = StepBoard::new(0, &[0; 2], 1000, 0);
        let host = |rank, step| match (rank, step) {
            // A pause of twelve steps, with a hiccup before and after it.
            (1, 50..62) => 800,
            (1, 7 | 90) => 590,
            // Two hiccups of the other rank.
            (0, 20 | 100) => 600,
            _ => 500,
        };
        for step in 0..120 {
            for rank in 0..2 {
                board.cut(rank, cut(StepIndex(step), host(rank, step)));
            }
        }
        board.close(true, |_, _| ());
        assert_eq!(board.lateness.ranks[1].late, 14);
        assert_eq!(board.lateness.ranks[1].notable(), (14, 1));
        assert_eq!(board.latest_of_notable(1), Some((12, 12)));
        // The time by which the steps are longer because of them.
        assert_eq!(board.latest_delays_ns(&[1]), 12 * 300 + 2 * 90);
        assert_eq!(board.latest_delays_ns(&[0, 1]), 12 * 300 + 2 * 90 + 2 * 100);
    }

    #[test]
    fn steps_that_mostly_evaluate_are_no_steps_of_training() {
        let mut board = StepBoard::new(0, &[0; 2], 1000, 0);
        let mut rows = Vec::new();
        for step in 0..3 {
            for rank in 0..2 {
                let mut cut = cut(StepIndex(step), 900);
                cut.named_ns[position(PauseKind::Evaluation)] = if step == 1 { 501 } else { 500 };
                board.cut(rank, cut);
            }
        }
        board.close(true, |_, row| rows.push(row.kind));
        assert_eq!((board.count, board.other_kinds), (2, 1));
        assert_eq!(board.stage_times[0].steps, 2);
        let mut sums = RankSums::default();
        sums.steps.steps = 3;
        board.no_training[1].take_out_of(&mut sums);
        assert_eq!(sums.steps.steps, 2);
        assert_eq!(
            rows[..4],
            [
                StepKind::Train,
                StepKind::Train,
                StepKind::Evaluate,
                StepKind::Evaluate
            ]
        );
    }

    #[test]
    fn a_step_that_a_rank_lacks_is_not_counted() {
        let mut board = StepBoard::new(0, &[0; 2], 1000, 0);
        board.cut(0, cut(StepIndex(0), 500));
        board.cut(1, cut(StepIndex(0), 500));
        board.cut(0, cut(StepIndex(1), 500));
        board.rank_ended(1);
        let mut rows = 0;
        board.close(false, |_, _| rows += 1);
        assert_eq!((board.count, rows), (1, 3));
    }
}
