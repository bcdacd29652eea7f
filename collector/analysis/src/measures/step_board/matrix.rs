//! Matrix of ranks and steps in the summary. Its number of cells is bounded for any length of run.

use super::own_delays::OwnDelay;
use crate::rank::StepCut;
use rankscope_formats::ids::{RankIndex, StepIndex};
use rankscope_formats::session::StepSummary;

/// Maximum number of cells of the rank × step matrix in the summary: 2,000 columns up to 65 ranks, 128 columns of 1,024
/// ranks. This is four megabytes as text. The table has every step.
const MAX_CELLS: usize = 1 << 17;
/// Maximum number of columns.
pub(super) const MAX_COLUMNS: usize = 2000;

/// One rank in one column of the matrix: sums over the steps of the column.
#[derive(Clone, Copy, Default)]
pub struct ColumnCell {
    /// Number of steps with a value.
    pub steps: u32,
    /// Sum of exposed wait, in ns.
    pub exposed_ns: i64,
    /// Sum of exposed communication, in ns.
    pub communication_ns: i64,
    /// Sum of own delay, in ns.
    pub delay_ns: i64,
    /// Number of steps with an own delay.
    pub delays: u32,
    /// Sum of step time, in ns.
    pub duration_ns: i64,
    /// Sum of own time, which is step time without blocked time, in ns.
    pub host_ns: i64,
    /// Number of steps in which the rank was the latest.
    pub latest: u32,
    /// Sum of its own delay in those steps, in ns.
    pub latest_delay_ns: i64,
}

impl ColumnCell {
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.exposed_ns += other.exposed_ns;
        self.communication_ns += other.communication_ns;
        self.delay_ns += other.delay_ns;
        self.delays += other.delays;
        self.duration_ns += other.duration_ns;
        self.host_ns += other.host_ns;
        self.latest += other.latest;
        self.latest_delay_ns += other.latest_delay_ns;
    }
}

/// A column of the matrix: one step, or several steps of a long run.
#[derive(Clone)]
pub struct Column {
    /// First step.
    pub step: StepIndex,
    /// Number of steps.
    pub steps: u32,
    /// Earliest start of the first step.
    pub start_ns: i64,
    /// Latest end of the last step.
    pub end_ns: i64,
    /// Sum over steps of the longest step time of all ranks.
    pub longest_ns: i64,
    /// Cells by rank of the world.
    pub cells: Vec<ColumnCell>,
}

impl Column {
    /// Creates the column of one step.
    pub fn new(step: StepIndex, ranks: usize) -> Self {
        Self {
            step,
            steps: 1,
            start_ns: i64::MAX,
            end_ns: i64::MIN,
            longest_ns: 0,
            cells: vec![ColumnCell::default(); ranks],
        }
    }

    /// Sets the step of a rank, with its exposed wait and its own delay.
    pub fn set(&mut self, rank: usize, cut: &StepCut, exposed_ns: i64, delay: OwnDelay) {
        let duration_ns = cut.end_ns - cut.start_ns;
        self.start_ns = self.start_ns.min(cut.start_ns);
        self.end_ns = self.end_ns.max(cut.end_ns);
        self.longest_ns = self.longest_ns.max(duration_ns);
        let delay_ns = delay.ns.unwrap_or(0);
        self.cells[rank] = ColumnCell {
            steps: 1,
            exposed_ns,
            communication_ns: cut.parts.exposed_ns,
            delay_ns,
            delays: u32::from(delay.ns.is_some()),
            duration_ns,
            host_ns: cut.parts.host_ns,
            latest: u32::from(delay.is_latest),
            latest_delay_ns: if delay.is_latest { delay_ns } else { 0 },
        };
    }

    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.start_ns = self.start_ns.min(other.start_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.longest_ns += other.longest_ns;
        for (cell, other) in self.cells.iter_mut().zip(&other.cells) {
            cell.add(other);
        }
    }

    /// Returns the column for the list of steps. `ranks` maps ranks of the world to those of the session.
    fn summary(&self, world: u32, ranks: &[RankIndex]) -> StepSummary {
        let steps = i64::from(self.steps.max(1));
        let latest = (0..self.cells.len())
            .filter(|&rank| self.cells[rank].latest > 0)
            .max_by_key(|&rank| (self.cells[rank].latest, self.cells[rank].latest_delay_ns));
        StepSummary {
            world,
            step: u64::from(self.step.0),
            steps: self.steps,
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            duration_ns: self.longest_ns / steps,
            exposed_wait_rank_ns: self.cells.iter().map(|cell| cell.exposed_ns).sum::<i64>() / steps,
            latest_rank: latest.and_then(|rank| ranks.get(rank)).map(|rank| rank.0),
            latest_delay_ns: latest.map(|rank| {
                let cell = &self.cells[rank];
                cell.latest_delay_ns / i64::from(cell.latest.max(1))
            }),
        }
    }
}

/// Columns of one world.
pub struct StepMatrix {
    most_columns: usize,
    /// Number of steps per column.
    pub steps_per_column: u32,
    /// Columns in order of time.
    pub columns: Vec<Column>,
}

impl StepMatrix {
    /// Creates an empty matrix for this number of ranks.
    pub fn new(ranks: usize) -> Self {
        Self {
            most_columns: (MAX_CELLS / ranks.max(1)).clamp(64, MAX_COLUMNS),
            steps_per_column: 1,
            columns: Vec::new(),
        }
    }

    /// Adds the column of one step.
    pub fn add(&mut self, column: Column) {
        match self.columns.last_mut() {
            Some(last) if last.steps < self.steps_per_column => last.add(&column),
            _ => self.columns.push(column),
        }
        if self.columns.len() > self.most_columns {
            self.halve();
        }
    }

    /// Joins pairs of columns.
    fn halve(&mut self) {
        let mut kept: Vec<Column> = Vec::with_capacity(self.columns.len() / 2 + 1);
        for (index, column) in self.columns.drain(..).enumerate() {
            match kept.last_mut() {
                Some(last) if index % 2 == 1 => last.add(&column),
                _ => kept.push(column),
            }
        }
        self.columns = kept;
        self.steps_per_column *= 2;
    }

    /// Returns the total delay of these rows in the steps in which they were the latest of the compared ranks, in ns.
    /// No step is longer because of them by more than that. If ranks meet several times in a step, one loses at one
    /// meeting and the other at the next, and both wait.
    pub fn latest_delays_ns(&self, rows: &[usize]) -> i64 {
        let cells = self
            .columns
            .iter()
            .flat_map(|column| rows.iter().filter_map(|&row| column.cells.get(row)));
        cells.map(|cell| cell.latest_delay_ns).sum()
    }

    /// Returns the list of steps for the summary. `ranks` maps ranks of the world to those of the session.
    pub fn list(&self, world: u32, ranks: &[RankIndex]) -> Vec<StepSummary> {
        let columns = self.columns.iter();
        columns.map(|column| column.summary(world, ranks)).collect()
    }
}
