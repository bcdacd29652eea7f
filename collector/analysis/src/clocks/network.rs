//! Combines the bounds of all pairs of hosts: direct ones, and those through third hosts (shortest paths over
//! difference constraints). One estimate for all hosts satisfies every bound.
//!
//! The axis is the time of one host, the root. Among the hosts that lost least time in jumps it is the first with a
//! synchronised wall clock. Hosts without evidence that connects them to it have a separate root. Only wall clocks
//! connect the roots.

use super::bounds::Bounds;
use super::correction::{AxisStretch, Correction};
use super::largest_errors::LargestErrors;
use super::paths::{DirectBound, Paths};
use super::segments::{PairFit, Piece};
use super::windows::BothClocks;
use super::{MAX_DRIFT_PPM, UNBOUNDED_NS};
use crate::model::interval::Interval;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of bounds over all cells; a cell has (hosts)².
const MAX_BOUNDS: usize = 1 << 21;
/// Maximum number of cells.
const MAX_CELLS: usize = 1 << 13;
/// Assumed maximum error of the time at which a bound of two other hosts applies, in nanoseconds.
const WORST_DATE_NS: i64 = 10_000_000_000;

/// Number of hosts from which on several threads compute the largest errors.
const THREADS_FROM: usize = 128;

/// Bounds and estimates of all clocks at the start and end of a time span.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Start, in nanoseconds on the axis.
    pub start_ns: i64,
    /// End, in nanoseconds on the axis.
    pub end_ns: i64,
    /// True if a clock jumped in it.
    pub jumps: bool,
    /// Bounds and assumed offsets at start and end.
    ends: [Bounds; 2],
    /// True for a clock whose estimate is based on coinciding leaves.
    by_leaves: Vec<bool>,
}

/// The clocks of all hosts.
#[derive(Clone, Debug, Default)]
pub struct Network {
    hosts: usize,
    cells: Vec<Cell>,
    /// Interval of the run, including its last timestamp. Cells outside of it are only for stray timestamps.
    run: Interval,
    largest_errors: LargestErrors,
    /// Root of each host: the host whose clock is the axis, or for unconnected hosts a separate one.
    pub root_of: Vec<usize>,
    /// Hosts whose wall clocks contradict the communication of the job.
    pub wrong_wall_clocks: Vec<usize>,
    /// Number of cells in which the bounds of pairs contradict each other. Only direct bounds are used there.
    pub contradictions: u64,
}

/// Solved pairs of hosts; the lower number comes first.
pub type Pairs = BTreeMap<(usize, usize), PairFit>;

/// Interpolates linearly between two points.
fn between(from: (i64, i64), to: (i64, i64), at: i64) -> i64 {
    let run = i128::from(to.0) - i128::from(from.0);
    if run <= 0 {
        return from.1;
    }
    // Nearly always 64 bits suffice. A division of 128 bits takes several times as long.
    let in_64_bits = || {
        let rise = to.1.checked_sub(from.1)?;
        let share = rise.checked_mul(at.checked_sub(from.0)?)? / i64::try_from(run).ok()?;
        from.1.checked_add(share)
    };
    if let Some(value) = in_64_bits() {
        return value.clamp(i64::MIN / 4, i64::MAX / 4);
    }
    let rise = i128::from(to.1) - i128::from(from.1);
    let value = i128::from(from.1) + rise * (i128::from(at) - i128::from(from.0)) / run;
    value.clamp(i128::from(i64::MIN / 4), i128::from(i64::MAX / 4)) as i64
}

impl Piece {
    /// Returns the assumed offset at both ends. Without leaves it is 0, the offset of the wall clocks, clipped to the
    /// bounds.
    fn assumed(&self) -> [i64; 2] {
        let clipped = |end: usize| 0.clamp(self.low_ns[end], self.high_ns[end].max(self.low_ns[end]));
        self.estimate_ns.unwrap_or([clipped(0), clipped(1)])
    }

    fn assumed_at(&self, first_ns: i64) -> i64 {
        let [start, end] = self.assumed();
        between((self.start_ns, start), (self.end_ns, end), first_ns)
    }
}

impl PairFit {
    fn pieces(&self) -> impl DoubleEndedIterator<Item = &Piece> {
        self.segments.iter().flat_map(|segment| &segment.pieces)
    }

    /// Returns the piece at a time of the first clock, or the nearest piece.
    fn piece_at(&self, first_ns: i64) -> Option<&Piece> {
        let at = self.segments.partition_point(|segment| {
            segment
                .pieces
                .first()
                .is_some_and(|piece| piece.start_ns <= first_ns)
        });
        let near = |segment: &'_ super::segments::Segment| -> Option<usize> {
            let at = segment.pieces.partition_point(|piece| piece.end_ns <= first_ns);
            Some(at.min(segment.pieces.len().checked_sub(1)?))
        };
        let before = at.checked_sub(1).and_then(|at| self.segments.get(at));
        let next = self.segments.get(at);
        let before = before.and_then(|segment| segment.pieces.get(near(segment)?));
        let next = next.and_then(|segment| segment.pieces.first());
        match (before, next) {
            // Between two segments the nearer one applies.
            (Some(before), Some(next))
                if first_ns > before.end_ns
                    && next.start_ns.saturating_sub(first_ns) < first_ns.saturating_sub(before.end_ns) =>
            {
                Some(next)
            }
            (Some(piece), _) | (None, Some(piece)) => Some(piece),
            (None, None) => None,
        }
    }

    fn second_of(&self, first_ns: i64) -> i64 {
        self.piece_at(first_ns).map_or(first_ns, |piece| {
            first_ns.saturating_add(piece.assumed_at(first_ns))
        })
    }

    fn first_of(&self, second_ns: i64) -> i64 {
        let ends = |piece: &Piece| {
            let [start, end] = piece.assumed();
            [
                piece.start_ns.saturating_add(start),
                piece.end_ns.saturating_add(end),
            ]
        };
        let found = self
            .pieces()
            .find(|piece| ends(piece)[1] > second_ns)
            .or_else(|| self.pieces().next_back());
        found.map_or(second_ns, |piece| {
            let [start, end] = ends(piece);
            between((start, piece.start_ns), (end, piece.end_ns), second_ns)
        })
    }

    /// Returns the time that each of the two clocks lost in jumps relative to the other.
    fn lost(&self) -> BothClocks {
        let mut lost = BothClocks {
            first_ns: 0,
            second_ns: 0,
        };
        for jump in self.segments.iter().filter_map(|segment| segment.jump) {
            let passed = |clock: fn(BothClocks) -> i64| clock(jump.after).saturating_sub(clock(jump.before));
            let more = passed(|seen| seen.second_ns).saturating_sub(passed(|seen| seen.first_ns));
            if more > 0 {
                lost.first_ns = lost.first_ns.saturating_add(more);
            } else {
                lost.second_ns = lost.second_ns.saturating_sub(more);
            }
        }
        lost
    }
}

/// A spanning tree of pairs: the path from each host to its root.
struct Tree<'a> {
    pairs: &'a Pairs,
    root_of: Vec<usize>,
    parent: Vec<Option<usize>>,
    /// Hosts in order, parents first.
    order: Vec<usize>,
    /// Hosts with which each host has a solved pair.
    neighbours: Vec<Vec<usize>>,
}

impl<'a> Tree<'a> {
    fn grow(hosts: usize, pairs: &'a Pairs, synchronised: &[Option<i64>]) -> Self {
        let mut neighbours = vec![Vec::new(); hosts];
        let mut lost = vec![0i64; hosts];
        for (&(one, other), fit) in pairs {
            if fit.segments.is_empty() {
                continue;
            }
            neighbours[one].push(other);
            neighbours[other].push(one);
            let of = fit.lost();
            // A jump of one pair may be of either clock. With many hosts the clock that jumped is in all affected
            // pairs.
            lost[one] = lost[one].saturating_add(of.first_ns);
            lost[other] = lost[other].saturating_add(of.second_ns);
        }
        let mut tree = Self {
            pairs,
            root_of: vec![usize::MAX; hosts],
            parent: vec![None; hosts],
            order: Vec::with_capacity(hosts),
            neighbours,
        };
        let mut candidates: Vec<usize> = (0..hosts).collect();
        candidates.sort_by_key(|&host| (lost[host], synchronised[host].is_none(), host));
        for root in candidates {
            if tree.root_of[root] != usize::MAX {
                continue;
            }
            tree.root_of[root] = root;
            let mut next = VecDeque::from([root]);
            while let Some(host) = next.pop_front() {
                tree.order.push(host);
                for &other in &tree.neighbours[host] {
                    if tree.root_of[other] == usize::MAX {
                        tree.root_of[other] = root;
                        tree.parent[other] = Some(host);
                        next.push_back(other);
                    }
                }
            }
        }
        tree
    }

    fn pair(&self, one: usize, other: usize) -> Option<&PairFit> {
        self.pairs.get(&(one.min(other), one.max(other)))
    }

    /// Returns the approximate times of all clocks at a time of the axis.
    fn host_times(&self, axis_ns: i64) -> Vec<i64> {
        let mut times = vec![axis_ns; self.parent.len()];
        for &host in &self.order {
            if let Some(parent) = self.parent[host] {
                let of_parent = times[parent];
                times[host] = match self.pair(parent, host) {
                    Some(fit) if parent < host => fit.second_of(of_parent),
                    Some(fit) => fit.first_of(of_parent),
                    None => of_parent,
                };
            }
        }
        times
    }

    /// Returns the approximate time of the axis at a time of the host's clock.
    fn axis_time(&self, host: usize, host_ns: i64) -> i64 {
        let Some(parent) = self.parent[host] else {
            return host_ns;
        };
        let of_parent = match self.pair(parent, host) {
            Some(fit) if parent < host => fit.first_of(host_ns),
            Some(fit) => fit.second_of(host_ns),
            None => host_ns,
        };
        self.axis_time(parent, of_parent)
    }

    /// Returns the possible change of the bounds of each host, in nanoseconds, due to the uncertain time at which they
    /// apply. `times` are the times of all clocks.
    fn date_errors(&self, times: &[i64]) -> Vec<i64> {
        let mut widths = vec![0i64; self.parent.len()];
        for &host in &self.order {
            let Some(parent) = self.parent[host] else { continue };
            let (one, other) = (parent.min(host), parent.max(host));
            let width = self.pair(one, other).and_then(|fit| {
                let piece = fit.piece_at(times[one])?;
                Some(piece.high_ns[0].saturating_sub(piece.low_ns[0]))
            });
            let width = width.unwrap_or(WORST_DATE_NS).clamp(0, WORST_DATE_NS);
            widths[host] = widths[parent].saturating_add(width);
        }
        let of_width = |width: i64| width.min(WORST_DATE_NS) * MAX_DRIFT_PPM / 1_000_000;
        widths.into_iter().map(of_width).collect()
    }
}

impl Network {
    /// Returns the network of a single host.
    pub fn of_one() -> Self {
        Self {
            hosts: 1,
            root_of: vec![0],
            ..Self::default()
        }
    }

    /// Combines all pairs, on `threads` threads. `wall_error_ns` contains the maximum error of each host's wall clock, if
    /// it is synchronised. `runs` contains the run as seen by each host. The axis extends `margin_ns` beyond it.
    pub fn solve(
        pairs: &Pairs,
        wall_error_ns: &[Option<i64>],
        runs: &[Interval],
        margin_ns: i64,
        threads: usize,
    ) -> Self {
        let hosts = wall_error_ns.len();
        let tree = Tree::grow(hosts, pairs, wall_error_ns);
        let on_axis = |end: fn(&Interval) -> i64| {
            (0..)
                .zip(runs)
                .take(hosts)
                .map(|(host, run)| tree.axis_time(host, end(run)))
                .collect::<Vec<i64>>()
        };
        let run = Interval {
            start_ns: on_axis(|run| run.start_ns).into_iter().min().unwrap_or(0),
            end_ns: on_axis(|run| run.end_ns).into_iter().max().unwrap_or(0),
        };
        let axis = Interval {
            start_ns: run.start_ns.saturating_sub(margin_ns),
            end_ns: run.end_ns.saturating_add(margin_ns),
        };
        let mut network = Self {
            hosts,
            cells: Vec::new(),
            run,
            largest_errors: LargestErrors::default(),
            root_of: tree.root_of.clone(),
            wrong_wall_clocks: Vec::new(),
            contradictions: 0,
        };
        let mut wrong = vec![false; hosts];
        let mut most = vec![UNBOUNDED_NS; hosts * hosts];
        for stretch in stretches(&tree, hosts, axis) {
            let moments = [stretch.interval.start_ns, stretch.interval.end_ns].map(|axis_ns| {
                let times = tree.host_times(axis_ns);
                let date_errors = tree.date_errors(&times);
                Moment { times, date_errors }
            });
            let direct: Vec<((usize, usize), EndBounds)> = pairs
                .iter()
                .filter_map(|(&pair, fit)| Some((pair, bounds(&moments, pair.0, fit, stretch.has_jump)?)))
                .collect();
            let mut is_contradictory = false;
            let mut by_leaves = vec![true; hosts];
            let ends = [0, 1].map(|end| {
                is_contradictory |= !tighten(
                    &mut most,
                    &direct_bounds(&direct, end),
                    wall_error_ns,
                    &mut wrong,
                    threads,
                );
                // Just inside the cell: a clock may jump at the border.
                let inside_ns = if end == 0 {
                    stretch.interval.start_ns.saturating_add(1)
                } else {
                    stretch.interval.end_ns.saturating_sub(1)
                };
                let assumed = assume(&tree, &most, inside_ns, &mut by_leaves);
                Bounds::new(&most, assumed)
            });
            network.contradictions += u64::from(is_contradictory);
            network.cells.push(Cell {
                start_ns: stretch.interval.start_ns,
                end_ns: stretch.interval.end_ns,
                jumps: stretch.has_jump,
                ends,
                by_leaves,
            });
        }
        network.wrong_wall_clocks = (0..hosts).filter(|&host| wrong[host]).collect();
        drop(most);
        let threads = if hosts < THREADS_FROM { 1 } else { threads };
        network.largest_errors =
            LargestErrors::new(hosts, threads, |one, other| network.largest_ahead(one, other));
        network
    }

    fn cell_at(&self, axis_ns: i64) -> Option<&Cell> {
        let at = self.cells.partition_point(|cell| cell.end_ns <= axis_ns);
        self.cells.get(at).or_else(|| self.cells.last())
    }

    /// Returns the host whose time is the axis. With several components it is the root of the largest one.
    pub fn root(&self) -> usize {
        let hosts_of = |root: usize| self.root_of.iter().filter(|&&of| of == root).count();
        (0..self.hosts)
            .filter(|&host| self.root_of.get(host) == Some(&host))
            .max_by_key(|&root| (hosts_of(root), std::cmp::Reverse(root)))
            .unwrap_or(0)
    }

    /// Returns the cells in order of time.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns the range of the error of a distance on the axis from a timestamp of host `one` to one of host `other`.
    /// The true distance minus the shown distance is between both values, in nanoseconds. `None` means that it is
    /// unbounded on that side.
    pub fn error_at(&self, one: usize, other: usize, axis_ns: i64) -> (Option<i64>, Option<i64>) {
        if one == other {
            return (Some(0), Some(0));
        }
        let Some(cell) = self.cell_at(axis_ns) else {
            return (None, None);
        };
        let at = |ends: [i64; 2]| {
            let at = axis_ns.clamp(cell.start_ns, cell.end_ns);
            between((cell.start_ns, ends[0]), (cell.end_ns, ends[1]), at)
        };
        let (low, high) = cell.bounds(one, other);
        let estimate = cell.assumed(one, other);
        let distance = |bound: [Option<i64>; 2]| {
            let [Some(start), Some(end)] = bound else {
                return None;
            };
            Some(at([start, end]).saturating_sub(at(estimate)))
        };
        // If a clock is further ahead than assumed, its events happened earlier than shown.
        (
            distance(high).map(|ns| ns.saturating_neg().saturating_sub(1).min(0)),
            distance(low).map(|ns| ns.saturating_neg().saturating_add(1).max(0)),
        )
    }

    /// Returns true if a clock jumped between two times, given in any order.
    pub fn jumps_between(&self, one_ns: i64, other_ns: i64) -> bool {
        let (from, to) = (one_ns.min(other_ns), one_ns.max(other_ns));
        let first = self.cells.partition_point(|cell| cell.end_ns < from);
        self.cells[first..]
            .iter()
            .take_while(|cell| cell.start_ns <= to)
            .any(|cell| cell.jumps)
    }

    /// Returns the largest error of [`Self::error_at`] for two different hosts during the run, in ± nanoseconds. Jumps are
    /// excluded. Returns `None` if it is unbounded.
    pub fn largest_error(&self, one: usize, other: usize) -> Option<i64> {
        self.largest_errors.between(one, other)
    }

    /// Returns by how much clock `other` may at most be ahead of where it is assumed, seen from clock `one`, in
    /// nanoseconds. It is one side of the largest error.
    fn largest_ahead(&self, one: usize, other: usize) -> Option<i64> {
        let (first, last) = (self.run.start_ns, self.run.end_ns);
        let mut largest = None;
        let cells = self.cells.iter();
        for cell in cells.filter(|cell| !cell.jumps && cell.start_ns <= last && first < cell.end_ns) {
            let [Some(start), Some(end)] = [0, 1].map(|end| cell.ends[end].most_ns(one, other)) else {
                return None;
            };
            let assumed = cell.assumed(one, other);
            // Just inside the cell: its end belongs to the next one.
            for axis_ns in [cell.start_ns.max(first), cell.end_ns.saturating_sub(1).min(last)] {
                let at = |ends: [i64; 2]| between((cell.start_ns, ends[0]), (cell.end_ns, ends[1]), axis_ns);
                let ahead = at([start, end]).saturating_sub(at(assumed)).saturating_add(1);
                largest = largest.max(Some(ahead.max(0)));
            }
        }
        largest
    }

    /// Returns the conversion of a host's time to the axis.
    pub fn correction(&self, host: usize) -> Correction {
        if self.root_of.get(host) == Some(&host)
            && self
                .cells
                .iter()
                .all(|cell| cell.ends.iter().all(|end| end.assumed_ns(host) == 0))
        {
            return Correction::default();
        }
        let stretches = self.cells.iter().map(|cell| AxisStretch {
            axis: Interval::new(cell.start_ns, cell.end_ns),
            offset_ns: [0, 1].map(|end| cell.ends[end].assumed_ns(host)),
            has_jump: cell.jumps,
        });
        Correction::new(stretches)
    }
}

impl Cell {
    /// Returns the lower and upper bounds of clock `other` minus clock `one` at the start and end.
    pub fn bounds(&self, one: usize, other: usize) -> ([Option<i64>; 2], [Option<i64>; 2]) {
        let most = |from: usize, to: usize| [0, 1].map(|end| self.ends[end].most_ns(from, to));
        (
            most(other, one).map(|ns| ns.map(i64::saturating_neg)),
            most(one, other),
        )
    }

    /// Returns true if the clock was placed by coinciding leaves only, or is the axis.
    pub fn is_by_leaves(&self, host: usize) -> bool {
        self.by_leaves.get(host).copied().unwrap_or(false)
    }

    /// Returns the assumed offset of clock `other` from clock `one` at the start and end.
    pub fn assumed(&self, one: usize, other: usize) -> [i64; 2] {
        [0, 1].map(|end| {
            let end = &self.ends[end];
            end.assumed_ns(other).saturating_sub(end.assumed_ns(one))
        })
    }
}

/// A time span of the axis.
struct CellInterval {
    interval: Interval,
    /// True if a clock jumped in it.
    has_jump: bool,
}

/// Divides the axis into time spans, and marks those with a jump. The borders are the ends of the pieces of all pairs.
/// If these are too many, spans have equal length.
fn stretches(tree: &Tree<'_>, hosts: usize, axis: Interval) -> Vec<CellInterval> {
    let most = (MAX_BOUNDS / (hosts * hosts).max(1)).clamp(8, MAX_CELLS);
    let mut jumps: Vec<Interval> = Vec::new();
    let mut knots: Vec<i64> = vec![axis.start_ns, axis.end_ns.max(axis.start_ns.saturating_add(1))];
    for (&(one, other), fit) in tree.pairs {
        for segment in &fit.segments {
            if let Some(jump) = segment.jump {
                let before = [
                    tree.axis_time(one, jump.before.first_ns),
                    tree.axis_time(other, jump.before.second_ns),
                ];
                let after = [
                    tree.axis_time(one, jump.after.first_ns),
                    tree.axis_time(other, jump.after.second_ns),
                ];
                let jump = Interval::new(before[0].min(before[1]), after[0].max(after[1]));
                if !jump.is_empty() {
                    jumps.push(jump);
                }
            }
        }
        if knots.len() <= 2 * most {
            for piece in fit.pieces() {
                knots.push(tree.axis_time(one, piece.start_ns));
                knots.push(tree.axis_time(one, piece.end_ns));
            }
        }
    }
    knots.sort_unstable();
    knots.dedup();
    if knots.len() > most {
        let (first, last) = (knots[0], knots[knots.len() - 1]);
        let count = most as i64;
        knots = (0..=count)
            .map(|at| between((0, first), (count, last), at))
            .collect();
        knots.dedup();
    }
    jumps.sort_unstable();
    jumps.truncate(most);
    let mut joined: Vec<Interval> = Vec::new();
    for jump in jumps {
        if !joined.last_mut().is_some_and(|last| last.absorb(jump)) {
            joined.push(jump);
        }
    }
    // No border is inside a jump.
    knots.retain(|&knot| {
        !joined
            .iter()
            .any(|jump| jump.start_ns < knot && knot < jump.end_ns)
    });
    knots.extend(joined.iter().flat_map(|jump| [jump.start_ns, jump.end_ns]));
    knots.sort_unstable();
    knots.dedup();
    knots
        .windows(2)
        .map(|pair| CellInterval {
            interval: Interval::new(pair[0], pair[1]),
            has_jump: joined
                .iter()
                .any(|jump| jump.start_ns <= pair[0] && pair[1] <= jump.end_ns),
        })
        .collect()
}

/// What is known about all clocks at the start or the end of a cell.
struct Moment {
    /// Time of each clock, in nanoseconds.
    times: Vec<i64>,
    /// Possible change of each clock's bounds due to its uncertain time, in nanoseconds.
    date_errors: Vec<i64>,
}

/// Bounds of an offset at the start and end of a cell, in ns.
struct EndBounds {
    low_ns: [i64; 2],
    high_ns: [i64; 2],
}

/// Bounds of an offset at one time of the first clock, in ns.
#[derive(Clone, Copy)]
struct BoundsAt {
    at_ns: i64,
    low_ns: i64,
    high_ns: i64,
}

impl BoundsAt {
    /// Returns the bounds that a piece gives. Outside the piece they widen with the possible drift.
    fn of_piece(piece: &Piece, at_ns: i64) -> Self {
        let inside_ns = at_ns.clamp(piece.start_ns, piece.end_ns);
        let drift = at_ns.saturating_sub(inside_ns).saturating_abs() / 1_000_000 * MAX_DRIFT_PPM + 200;
        let drift = if inside_ns == at_ns { 0 } else { drift };
        let line = |ends: [i64; 2]| between((piece.start_ns, ends[0]), (piece.end_ns, ends[1]), inside_ns);
        let open = |ends: [i64; 2]| ends.iter().any(|ns| ns.abs() >= UNBOUNDED_NS);
        Self {
            at_ns,
            low_ns: if open(piece.low_ns) {
                -UNBOUNDED_NS
            } else {
                line(piece.low_ns).saturating_sub(drift)
            },
            high_ns: if open(piece.high_ns) {
                UNBOUNDED_NS
            } else {
                line(piece.high_ns).saturating_add(drift)
            },
        }
    }
}

/// Returns the bounds that straight lines over a cell must include. `ends_ns` are the ends of the cell on the first
/// clock.
fn bounds_inside(fit: &PairFit, has_jump: bool, ends_ns: [i64; 2]) -> Vec<BoundsAt> {
    let [from, to] = ends_ns;
    let mut points = Vec::new();
    let mut pieces = fit
        .segments
        .iter()
        .filter(|segment| {
            segment.pieces.first().is_some_and(|first| first.start_ns < to)
                && segment.pieces.last().is_some_and(|last| last.end_ns > from)
        })
        .flat_map(|segment| {
            let at = segment.pieces.partition_point(|piece| piece.end_ns <= from);
            segment.pieces[at..]
                .iter()
                .take_while(|piece| piece.start_ns < to)
        })
        .peekable();
    if pieces.peek().is_none() || has_jump {
        // In a jump the bounds of both sides may apply. Outside all pieces the nearest one applies.
        for at in ends_ns {
            points.extend(fit.piece_at(at).map(|piece| BoundsAt::of_piece(piece, at)));
        }
    }
    for piece in pieces {
        for at in [piece.start_ns.max(from), piece.end_ns.min(to)] {
            points.push(BoundsAt::of_piece(piece, at));
        }
    }
    points
}

/// Returns straight-line bounds of a pair over a cell, at its start and end. `one` is the first host of the pair.
fn bounds(moments: &[Moment; 2], one: usize, fit: &PairFit, has_jump: bool) -> Option<EndBounds> {
    let [from, to] = [0, 1].map(|end: usize| moments[end].times[one]);
    let to = to.max(from.saturating_add(1));
    let mut points = bounds_inside(fit, has_jump, [from, to]);
    let (&first, &last) = (points.first()?, points.last()?);
    if points.iter().any(|point| point.low_ns <= -UNBOUNDED_NS) {
        points.iter_mut().for_each(|point| point.low_ns = -UNBOUNDED_NS);
    }
    if points.iter().any(|point| point.high_ns >= UNBOUNDED_NS) {
        points.iter_mut().for_each(|point| point.high_ns = UNBOUNDED_NS);
    }
    let loosened = moments[0].date_errors[one].max(moments[1].date_errors[one]) + 1;
    let straight = |sign: i64, of: fn(&BoundsAt) -> i64| -> [i64; 2] {
        let value = |point: &BoundsAt| sign * of(point);
        let highest = points.iter().map(value).max().unwrap_or(UNBOUNDED_NS);
        if highest >= UNBOUNDED_NS {
            return [sign * UNBOUNDED_NS; 2];
        }
        if has_jump {
            return [sign * (highest + loosened); 2];
        }
        let (start, end) = (value(&first), value(&last));
        let line = |at: i64| between((from, start), (to, end), at);
        let above = points
            .iter()
            .map(|point| value(point) - line(point.at_ns))
            .max()
            .unwrap_or(0)
            .max(0);
        [start, end].map(|ns| sign * (ns + above + loosened))
    };
    Some(EndBounds {
        low_ns: straight(-1, |point| point.low_ns),
        high_ns: straight(1, |point| point.high_ns),
    })
}

/// Returns the bounds of pairs at one end of a cell, in both directions.
fn direct_bounds(pairs: &[((usize, usize), EndBounds)], end: usize) -> Vec<DirectBound> {
    let both = pairs.iter().flat_map(|&((one, other), ref bounds)| {
        [
            (one, other, bounds.high_ns[end]),
            (other, one, bounds.low_ns[end].saturating_neg()),
        ]
    });
    both.filter(|&(_, _, most_ns)| most_ns < UNBOUNDED_NS)
        .map(|(from, to, most_ns)| DirectBound { from, to, most_ns })
        .collect()
}

/// Fills `most` with the bounds of all pairs: by shortest paths over all hosts, and by the wall clocks that agree. Returns
/// false if bounds contradict each other. Then there are no paths.
fn tighten(
    most: &mut [i64],
    direct: &[DirectBound],
    wall_error_ns: &[Option<i64>],
    wrong: &mut [bool],
    threads: usize,
) -> bool {
    let hosts = wall_error_ns.len();
    let paths = Paths::new(hosts, direct);
    match &paths {
        Some(paths) => paths.close(most, threads),
        None => {
            most.fill(UNBOUNDED_NS);
            for bound in direct {
                most[bound.from * hosts + bound.to] = bound.most_ns;
            }
        }
    }
    let synchronised: Vec<WallClock> = (0..hosts)
        .filter_map(|host| Some((host, wall_error_ns[host]?)))
        .map(|(host, error_ns)| WallClock { host, error_ns })
        .collect();
    mark_wrong(most, hosts, &synchronised, wrong);
    let right: Vec<WallClock> = synchronised
        .into_iter()
        .filter(|clock| !wrong[clock.host])
        .collect();
    if paths.is_some() {
        lead_through_wall_clocks(most, hosts, &right);
    } else {
        tie_by_wall_clocks(most, hosts, &right);
    }
    paths.is_some()
}

/// A synchronised wall clock.
#[derive(Clone, Copy)]
struct WallClock {
    host: usize,
    /// Its maximum error, in nanoseconds.
    error_ns: i64,
}

/// Marks the wall clocks that contradict the bounds.
fn mark_wrong(most: &[i64], hosts: usize, synchronised: &[WallClock], wrong: &mut [bool]) {
    let mut contradictions: Vec<(usize, usize)> = Vec::new();
    for one in synchronised {
        let row = &most[one.host * hosts..][..hosts];
        for other in synchronised {
            let limit = one.error_ns.saturating_add(other.error_ns);
            if one.host != other.host && row[other.host] < -limit {
                contradictions.push((one.host.min(other.host), one.host.max(other.host)));
            }
        }
    }
    contradictions.sort_unstable();
    contradictions.dedup();
    // A wall clock that contradicts most others is wrong. One that is contradicted only by a wrong clock is not.
    let mut against = vec![0u32; hosts];
    for &(one, other) in &contradictions {
        against[one] += 1;
        against[other] += 1;
    }
    for (one, other) in contradictions {
        let worst = against[one].max(against[other]);
        wrong[one] |= against[one] == worst;
        wrong[other] |= against[other] == worst;
    }
}

/// Tightens the bounds of each pair of these wall clocks.
fn tie_by_wall_clocks(most: &mut [i64], hosts: usize, right: &[WallClock]) {
    for one in right {
        for other in right.iter().filter(|other| other.host != one.host) {
            let known = &mut most[one.host * hosts + other.host];
            *known = one.error_ns.saturating_add(other.error_ns).min(*known);
        }
    }
}

/// Tightens bounds that are shortest paths by the paths through these wall clocks, which none of the bounds contradicts.
/// Such a path goes from a host to a wall clock, over the true time to another wall clock, and on.
fn lead_through_wall_clocks(most: &mut [i64], hosts: usize, right: &[WallClock]) {
    let mut to_true_time = vec![UNBOUNDED_NS; hosts];
    let mut from_true_time = vec![UNBOUNDED_NS; hosts];
    for (host, to_true_time) in to_true_time.iter_mut().enumerate() {
        for clock in right {
            let through = most[host * hosts + clock.host].saturating_add(clock.error_ns);
            *to_true_time = through.min(*to_true_time);
        }
    }
    for clock in right {
        let row = &most[clock.host * hosts..][..hosts];
        for (from_true_time, &known) in from_true_time.iter_mut().zip(row) {
            *from_true_time = known.saturating_add(clock.error_ns).min(*from_true_time);
        }
    }
    for (host, &to_true_time) in to_true_time.iter().enumerate() {
        if to_true_time >= UNBOUNDED_NS {
            continue;
        }
        let row = &mut most[host * hosts..][..hosts];
        for (other, (known, &from_true_time)) in row.iter_mut().zip(&from_true_time).enumerate() {
            if other != host && from_true_time < UNBOUNDED_NS {
                *known = to_true_time.saturating_add(from_true_time).min(*known);
            }
        }
    }
}

/// Assigns an offset to each clock, one after the other. It is the offset at which its leaves coincide with those of
/// the hosts before it, clipped to the bounds. Closed bounds always permit a solution. `inside_ns` is on the axis.
fn assume(tree: &Tree<'_>, most: &[i64], inside_ns: i64, by_leaves: &mut [bool]) -> Vec<i64> {
    let hosts = by_leaves.len();
    let times = tree.host_times(inside_ns);
    let mut assumed = vec![0i64; hosts];
    let mut is_placed = vec![false; hosts];
    // Highest offset of each clock that the clocks placed so far permit.
    let mut highest: Vec<Option<i64>> = vec![None; hosts];
    let mut placed: Vec<usize> = Vec::with_capacity(hosts);
    for &host in &tree.order {
        let mut preferred: Vec<i64> = tree.neighbours[host]
            .iter()
            .filter(|&&other| is_placed[other])
            .filter_map(|&other| {
                let (one, two) = (host.min(other), host.max(other));
                let first_ns = times[one];
                let piece = tree.pair(one, two)?.piece_at(first_ns)?;
                let offset = piece.estimate_ns.map(|_| piece.assumed_at(first_ns))?;
                Some(assumed[other].saturating_add(if one == other {
                    offset
                } else {
                    offset.saturating_neg()
                }))
            })
            .collect();
        preferred.sort_unstable();
        let is_axis = tree.root_of[host] == host && placed.is_empty();
        by_leaves[host] &= is_axis || !preferred.is_empty();
        // Without leaves the wall clocks decide: the offset is 0. The same applies to hosts without any evidence.
        let preferred = preferred.get(preferred.len() / 2).copied().unwrap_or(0);
        let row = &most[host * hosts..][..hosts];
        let high = highest[host].unwrap_or(UNBOUNDED_NS);
        let low = placed
            .iter()
            .filter(|&&other| row[other] < UNBOUNDED_NS)
            .map(|&other| assumed[other].saturating_sub(row[other]))
            .max()
            .unwrap_or(-UNBOUNDED_NS);
        let offset = preferred.max(low).min(high);
        placed.push(host);
        is_placed[host] = true;
        assumed[host] = offset;
        for (highest, &most_ns) in highest.iter_mut().zip(row) {
            if most_ns < UNBOUNDED_NS {
                let high = offset.saturating_add(most_ns);
                *highest = Some(highest.map_or(high, |known| known.min(high)));
            }
        }
    }
    assumed
}
