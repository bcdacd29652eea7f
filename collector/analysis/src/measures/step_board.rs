//! Steps across ranks. Joins the cuts of all ranks of a world, computes own delays (METRICS.md, section 8), and keeps
//! the data of the summary. Memory does not grow with the length of the run.

use crate::measures::no_training::NoTraining;
use crate::model::operation::NO_STEP;
use crate::model::pause_kinds::position;
use crate::model::quantiles::Sketch;
use crate::rank::StepCut;
use crate::rank::anchors::AnchorList;
use rankscope_formats::session::{PauseKind, StepKind, StepRow, StepSummary};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Minimum own delay of a late rank, in percent of the median step, …
const LATE_SHARE_PERCENT: i64 = 2;
/// … and as a multiple of its peers' median absolute deviation.
const LATE_DEVIATIONS: i64 = 3;
/// Maximum number of open steps; on overflow the oldest is closed with the data that it has.
const MAX_OPEN: usize = 1 << 14;
/// Maximum number of cells of the rank × step matrix in the summary: 2,000 columns up to 65 ranks, 128 columns of 1,024
/// ranks. This is four megabytes as text. The table has every step.
const MAX_CELLS: usize = 1 << 17;
/// Maximum number of late steps of a rank that are kept one by one.
const MAX_LATE: usize = 1024;
/// Maximum number of columns.
const MAX_COLUMNS: usize = 2000;

/// One rank in one step.
#[derive(Clone, Copy, Default)]
struct Cell {
    cut: Option<StepCut>,
    exposed_ns: i64,
    hidden_ns: i64,
    bubble_ns: i64,
    outstanding: u32,
    absent: bool,
}

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

/// A column of the matrix: one step, or several steps of a long run.
#[derive(Clone)]
pub struct Column {
    /// First step.
    pub step: u32,
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

/// A step in which a rank was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateStep {
    /// The step.
    pub step: u32,
    /// Own delay, in ns.
    pub delay_ns: i64,
    /// True if it was the latest of the compared ranks.
    pub is_latest: bool,
}

/// Lateness of one rank.
#[derive(Clone, Default)]
pub struct RankLateness {
    /// Number of steps that all ranks have.
    pub steps: u64,
    /// Number of steps in which it was late.
    pub late: u64,
    /// Number of runs of late steps.
    pub episodes: u64,
    /// Number of steps in which it was late with the largest own delay.
    pub latest: u64,
    /// Its first late steps, up to the maximum number.
    pub late_steps: Vec<LateStep>,
    /// Own delay in late steps.
    pub late_delay: Sketch,
    was_late: bool,
}

impl RankLateness {
    /// Returns the middle delay in ns: the own delay to which the middle nanosecond of all its lateness belongs. Next
    /// to a pause of a second, barely late steps say nothing about the frequency of the pause. Returns `None` if there
    /// are too many late steps to keep.
    fn middle_delay_ns(&self) -> Option<i64> {
        if self.late_steps.len() < self.late as usize {
            return None;
        }
        let mut delays: Vec<i64> = self.late_steps.iter().map(|late| late.delay_ns).collect();
        delays.sort_unstable_by_key(|&delay| std::cmp::Reverse(delay));
        let all: i64 = delays.iter().sum();
        let mut sum = 0;
        delays.iter().copied().find(|&delay| {
            sum += delay;
            sum * 2 >= all
        })
    }

    /// Returns the number of notably late steps, and of their episodes. Notably late means late by a quarter of
    /// [`RankLateness::middle_delay_ns`]. If delays vary like waits for rare events, this is two thirds of them. An
    /// episode is a run of steps that are late by half of the middle delay. A hiccup next to a pause is then not a
    /// second pause.
    pub fn notable(&self) -> (u64, u64) {
        let Some(middle) = self.middle_delay_ns() else {
            return (self.late, self.episodes);
        };
        let late_by = |least: i64| self.late_steps.iter().filter(move |late| late.delay_ns >= least);
        let mut episodes = 0;
        let mut before = None;
        for late in late_by(middle / 2) {
            episodes += u64::from(before.is_none_or(|before: u32| before + 1 != late.step));
            before = Some(late.step);
        }
        (late_by(middle / 4).count() as u64, episodes)
    }

    /// Returns the number of kept steps in which it was the latest by at least `least_ns`.
    fn latest_from(&self, least_ns: i64) -> u64 {
        let late = self.late_steps.iter();
        late.filter(|late| late.is_latest && late.delay_ns >= least_ns)
            .count() as u64
    }
}

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

/// Whole steps of a part of a run.
struct PartSteps {
    /// First recorded step of each rank.
    first: Vec<Option<u32>>,
    /// First whole step. Earlier steps have operations that began before the part.
    whole_from: u32,
    left_out: u64,
}

/// Steps of one world.
pub struct StepBoard {
    world: u32,
    ranks: usize,
    /// Kinds of the steps.
    anchors: Arc<AnchorList>,
    /// Groups of compared ranks: the replicas of each stage, or all ranks.
    groups: Vec<Vec<usize>>,
    /// Number of compared ranks per rank, including the rank.
    pub compared: Vec<usize>,
    /// Number of steps per rank in which any compared rank was late, including the rank.
    pub late_among: Vec<u64>,
    median_ns: i64,
    error_ns: i64,
    first: u32,
    open: VecDeque<Vec<Cell>>,
    /// Number of ranks of the oldest open step, from the first on, whose data is complete.
    front_ready: usize,
    spare: Vec<Vec<Cell>>,
    ended: Vec<bool>,
    most_columns: usize,
    /// Number of steps per column.
    pub steps_per_column: u32,
    /// Columns of the matrix.
    pub columns: Vec<Column>,
    /// Lateness per rank.
    pub lateness: Vec<RankLateness>,
    /// Number of whole training steps, which all ranks have. Statistics include only these.
    pub count: u64,
    /// Number of whole steps of other kinds.
    pub other_kinds: u64,
    /// Number of steps in which any rank was late.
    pub any_late: u64,
    /// Step time over ranks and steps.
    pub duration: Sketch,
    /// Exposed and hidden wait per rank over whole steps, in ns.
    pub waited: Vec<(i64, i64)>,
    /// Steps per rank that are not training according to their named times.
    pub no_training: Vec<NoTraining>,
    /// Time of each rank from the point of view of a pipeline.
    pub stage_times: Vec<StageTime>,
    /// Share of a step in which a rank's devices computed, in percent, per rank, over steps with recorded device work.
    pub utilisation: Vec<Sketch>,
    /// Whole steps, if only a part of the run is merged.
    part: Option<PartSteps>,
    /// Buffers for the step being closed, per rank: host time, the same sorted, own delay, and the delay from which it
    /// is late.
    hosts: Vec<i64>,
    sorted_hosts: Vec<i64>,
    delays: Vec<Option<i64>>,
    thresholds: Vec<i64>,
    is_latest: Vec<bool>,
    was_late: Vec<bool>,
}

impl StepBoard {
    /// Creates a board for a world. `group_of` has the group of each rank; ranks are compared with others of their
    /// group. `median_ns` is the median step, and `error_ns` the clock interval.
    pub fn new(world: u32, group_of: Vec<u32>, median_ns: i64, error_ns: i64) -> Self {
        let ranks = group_of.len();
        let mut by_group: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (rank, &group) in group_of.iter().enumerate() {
            by_group.entry(group).or_default().push(rank);
        }
        let groups: Vec<Vec<usize>> = by_group.into_values().collect();
        let mut compared = vec![0; ranks];
        for group in &groups {
            group.iter().for_each(|&rank| compared[rank] = group.len());
        }
        Self {
            world,
            ranks,
            anchors: Arc::default(),
            groups,
            compared,
            late_among: vec![0; ranks],
            no_training: vec![NoTraining::default(); ranks],
            stage_times: vec![StageTime::default(); ranks],
            median_ns,
            error_ns,
            first: 0,
            open: VecDeque::new(),
            front_ready: 0,
            spare: Vec::new(),
            ended: vec![false; ranks],
            most_columns: (MAX_CELLS / ranks.max(1)).clamp(64, MAX_COLUMNS),
            steps_per_column: 1,
            columns: Vec::new(),
            lateness: vec![RankLateness::default(); ranks],
            count: 0,
            other_kinds: 0,
            any_late: 0,
            duration: Sketch::default(),
            waited: vec![(0, 0); ranks],
            utilisation: vec![Sketch::default(); ranks],
            part: None,
            hosts: Vec::new(),
            sorted_hosts: Vec::new(),
            delays: Vec::new(),
            thresholds: Vec::new(),
            is_latest: Vec::new(),
            was_late: vec![false; ranks],
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
        self.part = is_part.then(|| PartSteps {
            first: vec![None; self.ranks],
            whole_from: 0,
            left_out: 0,
        });
        self
    }

    /// Returns the number of steps that were left out because they, or operations in them, began before the part.
    pub fn left_out(&self) -> u64 {
        self.part.as_ref().map_or(0, |part| part.left_out)
    }

    /// Leaves a step out because one of its operations began before the part.
    pub fn leave_out(&mut self, step: u32) {
        if let Some(part) = &mut self.part {
            part.whole_from = part.whole_from.max(step.saturating_add(1));
        }
    }

    /// Returns the kind of a step.
    pub fn kind(&self, step: u32) -> StepKind {
        self.anchors.kind(step.saturating_add(1))
    }

    fn cell(&mut self, rank: usize, step: u32) -> Option<&mut Cell> {
        let index = step.checked_sub(self.first)? as usize;
        if index > 2 * MAX_OPEN {
            return None;
        }
        while self.open.len() <= index {
            let mut cells = self.spare.pop().unwrap_or_default();
            cells.clear();
            cells.resize(self.ranks, Cell::default());
            for (cell, &ended) in cells.iter_mut().zip(&self.ended) {
                cell.absent = ended;
            }
            self.open.push_back(cells);
        }
        self.open.get_mut(index)?.get_mut(rank)
    }

    /// Registers an operation of a rank in a step that has not been matched yet.
    #[inline]
    pub fn expect(&mut self, rank: usize, step: u32) {
        if let Some(cell) = self.cell(rank, step) {
            cell.outstanding += 1;
        }
    }

    /// Registers that an operation was matched, with its newly counted waits.
    #[inline]
    pub fn matched(&mut self, rank: usize, step: u32, exposed_ns: i64, hidden_ns: i64) {
        if let Some(cell) = self.cell(rank, step) {
            cell.outstanding = cell.outstanding.saturating_sub(1);
            cell.exposed_ns += exposed_ns;
            cell.hidden_ns += hidden_ns;
        }
    }

    /// Adds newly counted waiting of a pipeline stage in a receive.
    #[inline]
    pub fn waited_in_chain(&mut self, rank: usize, step: u32, exposed_ns: i64) {
        if step != NO_STEP
            && let Some(cell) = self.cell(rank, step)
        {
            cell.bubble_ns += exposed_ns;
        }
    }

    /// Registers the end of a rank's step.
    pub fn cut(&mut self, rank: usize, cut: StepCut) {
        if let Some(cell) = self.cell(rank, cut.step) {
            cell.cut = Some(cut);
        }
        if let Some(part) = &mut self.part
            && let Some(first) = part.first.get_mut(rank)
            && first.is_none()
        {
            *first = Some(cut.step);
            // The rank lacks all earlier steps.
            let before = cut.step.saturating_sub(self.first) as usize;
            for cells in self.open.iter_mut().take(before) {
                if let Some(cell) = cells.get_mut(rank) {
                    cell.absent = true;
                }
            }
        }
    }

    /// Registers the end of a rank's log. No further steps of the rank follow.
    pub fn rank_ended(&mut self, rank: usize) {
        self.ended[rank] = true;
        for cells in &mut self.open {
            if let Some(cell) = cells.get_mut(rank) {
                cell.absent = cell.cut.is_none();
            }
        }
    }

    /// Closes the complete steps at the front, or every step if `all` is true. Emits rows as (rank of the world, row).
    pub fn close(&mut self, all: bool, mut row: impl FnMut(usize, StepRow)) {
        while let Some(cells) = self.open.front_mut() {
            // Earlier ranks were ready at the last check, so each check of a thousand ranks reads only a few.
            while let Some(cell) = cells.get(self.front_ready) {
                if !(cell.absent || (cell.cut.is_some() && cell.outstanding == 0)) {
                    break;
                }
                self.front_ready += 1;
            }
            let ready = self.front_ready >= cells.len();
            // A rank that lost the end of a step lacks that step. This is the case if a later step is ready.
            let overtaken = || {
                self.open.len() > MAX_OPEN
                    || (self.open.len() > 8 && self.open[8].iter().all(|cell| cell.cut.is_some()))
            };
            if !ready && !all && !overtaken() {
                break;
            }
            let Some(cells) = self.open.pop_front() else {
                break;
            };
            self.close_one(self.first, &cells, &mut row);
            self.first += 1;
            self.front_ready = 0;
            self.spare.push(cells);
        }
    }

    fn close_one(&mut self, step: u32, cells: &[Cell], row: &mut impl FnMut(usize, StepRow)) {
        if let Some(part) = &mut self.part {
            let is_later = |first: &Option<u32>| first.is_some_and(|first| first > step);
            if step < part.whole_from || part.first.iter().any(is_later) {
                part.left_out += u64::from(cells.iter().any(|cell| cell.cut.is_some()));
                return;
            }
        }
        let kind = match self.kind(step) {
            StepKind::Train => named_kind(cells),
            other => other,
        };
        if kind != self.kind(step) {
            for (cell, sum) in cells.iter().zip(&mut self.no_training) {
                cell.cut.iter().for_each(|cut| sum.add(cut));
            }
        }
        // Statistics never mix kinds. Steps that are not training have rows, and nothing else.
        let is_complete = cells.iter().all(|cell| cell.cut.is_some());
        let whole = is_complete && kind == StepKind::Train;
        self.other_kinds += u64::from(is_complete && !whole);
        self.own_delays(cells, whole);
        self.lateness_thresholds(cells, whole);
        let mut column = whole.then(|| Column {
            step,
            steps: 1,
            start_ns: i64::MAX,
            end_ns: i64::MIN,
            longest_ns: 0,
            cells: vec![ColumnCell::default(); cells.len()],
        });
        self.find_latest();
        let mut any_late = false;
        for (rank, cell) in cells.iter().enumerate() {
            let Some(cut) = cell.cut else {
                continue;
            };
            let delay = self.delays[rank];
            let late = delay.is_some_and(|delay| delay >= self.thresholds[rank]);
            let duration = cut.end_ns - cut.start_ns;
            // Waiting is inside exposed communication by definition, but timestamps of two threads may differ slightly.
            let exposed = cell.exposed_ns.min(cut.parts.exposed_ns);
            row(
                rank,
                StepRow {
                    world: self.world,
                    step,
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
                    exposed_wait_ns: exposed,
                    hidden_wait_ns: cell.hidden_ns,
                    own_delay_ns: delay,
                    late,
                },
            );
            if kind == StepKind::Train {
                self.waited[rank].0 += exposed;
                self.waited[rank].1 += cell.hidden_ns;
            }
            let Some(column) = &mut column else {
                continue;
            };
            self.duration.add(duration as f64);
            if let Some(device) = cut.device.filter(|device| device.window_ns > 0) {
                let computing = device.compute_only_ns + device.overlapped_ns;
                self.utilisation[rank].add(computing as f64 / device.window_ns as f64 * 100.0);
            }
            column.start_ns = column.start_ns.min(cut.start_ns);
            column.end_ns = column.end_ns.max(cut.end_ns);
            column.longest_ns = column.longest_ns.max(duration);
            let stage = &mut self.stage_times[rank];
            stage.steps += 1;
            stage.window_ns += duration;
            stage.own_ns += cut.parts.host_ns;
            stage.bubble_ns += cell.bubble_ns.min(cut.parts.exposed_ns);
            let is_latest = self.is_latest[rank];
            column.cells[rank] = ColumnCell {
                steps: 1,
                exposed_ns: exposed,
                communication_ns: cut.parts.exposed_ns,
                delay_ns: delay.unwrap_or(0),
                delays: u32::from(delay.is_some()),
                duration_ns: duration,
                host_ns: cut.parts.host_ns,
                latest: u32::from(is_latest),
                latest_delay_ns: if is_latest { delay.unwrap_or(0) } else { 0 },
            };
            let lateness = &mut self.lateness[rank];
            lateness.steps += 1;
            lateness.latest += u64::from(is_latest && late);
            lateness.late += u64::from(late);
            lateness.episodes += u64::from(late && !lateness.was_late);
            lateness.was_late = late;
            if late {
                lateness.late_delay.add(delay.unwrap_or(0) as f64);
                if lateness.late_steps.len() < MAX_LATE {
                    lateness.late_steps.push(LateStep {
                        step,
                        delay_ns: delay.unwrap_or(0),
                        is_latest,
                    });
                }
            }
            any_late |= late;
            self.was_late[rank] = late;
        }
        if let Some(column) = column {
            self.count += 1;
            self.any_late += u64::from(any_late);
            for group in &self.groups {
                let any_late = group.iter().any(|&rank| self.was_late[rank]);
                for &rank in group.iter().filter(|_| any_late) {
                    self.late_among[rank] += 1;
                }
            }
            self.keep(column);
        }
    }

    /// Returns the ranks that a rank is compared with, including itself.
    pub fn peers(&self, rank: usize) -> &[usize] {
        let group = self.groups.iter().find(|group| group.contains(&rank));
        group.map_or(&[], Vec::as_slice)
    }

    /// Returns the number of steps in which a rank is the latest, and the number of steps in which any compared rank is
    /// late. Only delays of at least half of this rank's middle delay count. Hiccups of another rank up to a third of
    /// its own delay then hide nothing (simulated in `findings::ranks::lateness`). Returns `None` if there are too many
    /// late steps to keep.
    pub fn latest_of_notable(&self, row: usize) -> Option<(u64, u64)> {
        let least_ns = self.lateness.get(row)?.middle_delay_ns()? / 2;
        let peers: Vec<&RankLateness> = self.peers(row).iter().map(|&peer| &self.lateness[peer]).collect();
        if peers
            .iter()
            .any(|peer| peer.late_steps.len() < peer.late as usize)
        {
            return None;
        }
        let all = peers.iter().map(|peer| peer.latest_from(least_ns)).sum();
        Some((self.lateness[row].latest_from(least_ns), all))
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

    /// Marks the rank with the largest own delay above 0 in each group.
    fn find_latest(&mut self) {
        self.is_latest.clear();
        self.is_latest.resize(self.ranks, false);
        for group in &self.groups {
            let latest = group
                .iter()
                .copied()
                .filter(|&rank| self.delays[rank].is_some_and(|delay| delay > 0))
                .max_by_key(|&rank| (self.delays[rank], std::cmp::Reverse(rank)));
            if let Some(rank) = latest {
                self.is_latest[rank] = true;
            }
        }
    }

    /// Computes own delays: host time beyond the median of the peers. Host time is elapsed time without waits.
    fn own_delays(&mut self, cells: &[Cell], whole: bool) {
        self.delays.clear();
        self.delays.resize(cells.len(), None);
        self.hosts.clear();
        if !whole || cells.len() < 2 {
            return;
        }
        self.hosts.extend(
            cells
                .iter()
                .map(|cell| cell.cut.map_or(0, |cut| cut.parts.host_ns)),
        );
        for group in self.groups.iter().filter(|group| group.len() >= 2) {
            self.sorted_hosts.clear();
            self.sorted_hosts
                .extend(group.iter().map(|&rank| self.hosts[rank]));
            self.sorted_hosts.sort_unstable();
            for &rank in group {
                let own = self.hosts[rank];
                self.delays[rank] = Some(own - median_without(&self.sorted_hosts, own));
            }
        }
    }

    /// Computes the own delay from which each rank is late in this step.
    fn lateness_thresholds(&mut self, cells: &[Cell], whole: bool) {
        let base = (self.median_ns * LATE_SHARE_PERCENT / 100)
            .max(self.error_ns)
            .max(1);
        self.thresholds.clear();
        self.thresholds.resize(cells.len(), base);
        if !whole {
            return;
        }
        for group in self.groups.iter().filter(|group| group.len() >= 3) {
            self.sorted_hosts.clear();
            self.sorted_hosts
                .extend(group.iter().map(|&rank| self.hosts[rank]));
            self.sorted_hosts.sort_unstable();
            // Without one rank, the median moves only between its neighbours. There are few distinct medians for any
            // number of ranks.
            let mut deviations: Vec<(i64, Vec<i64>)> = Vec::new();
            for &rank in group {
                let own = self.hosts[rank];
                let median = median_without(&self.sorted_hosts, own);
                let known = deviations.iter().position(|&(of, _)| of == median);
                let known = known.unwrap_or_else(|| {
                    let mut sorted: Vec<i64> = self
                        .sorted_hosts
                        .iter()
                        .map(|&host| (host - median).abs())
                        .collect();
                    sorted.sort_unstable();
                    deviations.push((median, sorted));
                    deviations.len() - 1
                });
                let deviation = median_without(&deviations[known].1, (own - median).abs());
                self.thresholds[rank] = base.max(LATE_DEVIATIONS * deviation);
            }
        }
    }

    fn keep(&mut self, column: Column) {
        match self.columns.last_mut() {
            Some(last) if last.steps < self.steps_per_column => merge(last, &column),
            _ => self.columns.push(column),
        }
        if self.columns.len() > self.most_columns {
            self.halve();
        }
    }

    /// Joins pairs of columns.
    pub fn halve(&mut self) {
        let mut kept: Vec<Column> = Vec::with_capacity(self.columns.len() / 2 + 1);
        for (index, column) in self.columns.drain(..).enumerate() {
            match kept.last_mut() {
                Some(last) if index % 2 == 1 => merge(last, &column),
                _ => kept.push(column),
            }
        }
        self.columns = kept;
        self.steps_per_column *= 2;
    }

    /// Returns the list of steps for the summary. `ranks` maps ranks of the world to those of the session.
    pub fn list(&self, ranks: &[u32]) -> Vec<StepSummary> {
        self.columns
            .iter()
            .map(|column| {
                let steps = i64::from(column.steps.max(1));
                let latest = (0..column.cells.len())
                    .filter(|&rank| column.cells[rank].latest > 0)
                    .max_by_key(|&rank| (column.cells[rank].latest, column.cells[rank].latest_delay_ns));
                StepSummary {
                    world: self.world,
                    step: u64::from(column.step),
                    steps: column.steps,
                    start_ns: column.start_ns,
                    end_ns: column.end_ns,
                    duration_ns: column.longest_ns / steps,
                    exposed_wait_rank_ns: column.cells.iter().map(|cell| cell.exposed_ns).sum::<i64>()
                        / steps,
                    latest_rank: latest.and_then(|rank| ranks.get(rank).copied()),
                    latest_delay_ns: latest.map(|rank| {
                        let cell = &column.cells[rank];
                        cell.latest_delay_ns / i64::from(cell.latest.max(1))
                    }),
                }
            })
            .collect()
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

fn merge(into: &mut Column, other: &Column) {
    into.steps += other.steps;
    into.start_ns = into.start_ns.min(other.start_ns);
    into.end_ns = into.end_ns.max(other.end_ns);
    into.longest_ns += other.longest_ns;
    for (cell, other) in into.cells.iter_mut().zip(&other.cells) {
        cell.steps += other.steps;
        cell.exposed_ns += other.exposed_ns;
        cell.communication_ns += other.communication_ns;
        cell.delay_ns += other.delay_ns;
        cell.delays += other.delays;
        cell.duration_ns += other.duration_ns;
        cell.host_ns += other.host_ns;
        cell.latest += other.latest;
        cell.latest_delay_ns += other.latest_delay_ns;
    }
}

/// Returns the median of a sorted list without one of its values. Of an even number, it is the mean of the two middle
/// values.
fn median_without(sorted: &[i64], value: i64) -> i64 {
    let without = sorted.partition_point(|&other| other < value);
    let rest = sorted.len().saturating_sub(1);
    let at = |index: usize| {
        sorted
            .get(if index < without { index } else { index + 1 })
            .copied()
            .unwrap_or(0)
    };
    match rest {
        0 => 0,
        rest if rest % 2 == 1 => at(rest / 2),
        rest => {
            let (low, high) = (at(rest / 2 - 1), at(rest / 2));
            low + (high - low) / 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::RankSums;

    fn cut(step: u32, host_ns: i64) -> StepCut {
        StepCut::on_host(step, 1000, host_ns)
    }

    #[test]
    fn medians_leave_out_the_rank_itself() {
        assert_eq!(median_without(&[1, 2, 3, 10], 10), 2);
        assert_eq!(median_without(&[1, 2, 3, 10], 1), 3);
        assert_eq!(median_without(&[1, 5, 7], 5), 4);
        assert_eq!(median_without(&[5], 5), 0);
    }

    #[test]
    fn a_persistently_slow_rank_is_late_in_every_step_and_memory_stays_bounded() {
        let mut board = StepBoard::new(0, vec![0; 4], 1000, 0);
        let mut rows = 0;
        for step in 0..10_000 {
            for rank in 0..4 {
                board.expect(rank, step);
                board.cut(rank, cut(step, if rank == 2 { 800 } else { 500 }));
                board.matched(rank, step, 10, 0);
            }
            board.close(false, |_, row| {
                rows += 1;
                assert_eq!(row.late, row.host_ns == 800);
            });
        }
        assert_eq!((rows, board.count, board.any_late), (40_000, 10_000, 10_000));
        assert_eq!(board.lateness[2].late, 10_000);
        assert_eq!(board.lateness[2].episodes, 1);
        assert_eq!(board.lateness[0].late, 0);
        assert!(board.columns.len() <= MAX_COLUMNS);
        assert_eq!(
            board
                .columns
                .iter()
                .map(|column| u64::from(column.steps))
                .sum::<u64>(),
            10_000
        );
        let list = board.list(&[0, 1, 2, 3]);
        assert_eq!(list[0].latest_rank, Some(2));
        assert_eq!(list[0].latest_delay_ns, Some(300));
    }

    #[test]
    fn hiccups_beside_a_pause_hide_nothing_and_are_no_pauses() {
        let mut board = StepBoard::new(0, vec![0; 2], 1000, 0);
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
                board.cut(rank, cut(step, host(rank, step)));
            }
        }
        board.close(true, |_, _| ());
        assert_eq!(board.lateness[1].late, 14);
        assert_eq!(board.lateness[1].notable(), (14, 1));
        assert_eq!(board.latest_of_notable(1), Some((12, 12)));
        // The time by which the steps are longer because of them.
        assert_eq!(board.latest_delays_ns(&[1]), 12 * 300 + 2 * 90);
        assert_eq!(board.latest_delays_ns(&[0, 1]), 12 * 300 + 2 * 90 + 2 * 100);
    }

    #[test]
    fn steps_that_mostly_evaluate_are_no_steps_of_training() {
        let mut board = StepBoard::new(0, vec![0; 2], 1000, 0);
        let mut rows = Vec::new();
        for step in 0..3 {
            for rank in 0..2 {
                let mut cut = cut(step, 900);
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
        let mut board = StepBoard::new(0, vec![0; 2], 1000, 0);
        board.cut(0, cut(0, 500));
        board.cut(1, cut(0, 500));
        board.cut(0, cut(1, 500));
        board.rank_ended(1);
        let mut rows = 0;
        board.close(false, |_, _| rows += 1);
        assert_eq!((board.count, rows), (1, 3));
    }
}
