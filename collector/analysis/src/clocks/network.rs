//! Combines the bounds of all pairs of hosts: direct ones, and those through third hosts (shortest paths over
//! difference constraints). One estimate for all hosts satisfies every bound.
//!
//! The axis is the time of one host, the root. Among the hosts that lost least time in jumps it is the first with a
//! synchronised wall clock. Hosts without evidence that connects them to it have a separate root. Only wall clocks
//! connect the roots.

use super::correction::{AxisStretch, Correction};
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

/// Bounds and estimates of all clocks at the start and end of a time span.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Start, in nanoseconds on the axis.
    pub start_ns: i64,
    /// End, in nanoseconds on the axis.
    pub end_ns: i64,
    /// True if a clock jumped in it.
    pub jumps: bool,
    /// Row i, column j: upper bound of clock j minus clock i; [`UNBOUNDED_NS`] if there is none.
    most: [Vec<i64>; 2],
    /// Assumed offset of each clock from the axis.
    estimate: [Vec<i64>; 2],
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
                for &other in &neighbours[host] {
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

    /// Returns the approximate time of the host's clock at a time of the axis.
    fn host_time(&self, host: usize, axis_ns: i64) -> i64 {
        let Some(parent) = self.parent[host] else {
            return axis_ns;
        };
        let of_parent = self.host_time(parent, axis_ns);
        match self.pair(parent, host) {
            Some(fit) if parent < host => fit.second_of(of_parent),
            Some(fit) => fit.first_of(of_parent),
            None => of_parent,
        }
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

    /// Returns the possible change of a bound, in nanoseconds, due to the uncertain time at which it applies.
    fn date_error(&self, host: usize, axis_ns: i64) -> i64 {
        let mut error = 0i64;
        let mut host = host;
        while let Some(parent) = self.parent[host] {
            let (one, other) = (parent.min(host), parent.max(host));
            let width = self.pair(one, other).and_then(|fit| {
                let piece = fit.piece_at(self.host_time(one, axis_ns))?;
                Some(piece.high_ns[0].saturating_sub(piece.low_ns[0]))
            });
            error = error.saturating_add(width.unwrap_or(WORST_DATE_NS).clamp(0, WORST_DATE_NS));
            host = parent;
        }
        error.min(WORST_DATE_NS) * MAX_DRIFT_PPM / 1_000_000
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

    /// Combines all pairs. `wall_error_ns` contains the maximum error of each host's wall clock, if it is synchronised.
    /// `runs` contains the run as seen by each host. The axis extends `margin_ns` beyond it.
    pub fn solve(pairs: &Pairs, wall_error_ns: &[Option<i64>], runs: &[Interval], margin_ns: i64) -> Self {
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
            root_of: tree.root_of.clone(),
            wrong_wall_clocks: Vec::new(),
            contradictions: 0,
        };
        let mut wrong = vec![false; hosts];
        for stretch in stretches(&tree, hosts, axis) {
            let mut cell = Cell {
                start_ns: stretch.interval.start_ns,
                end_ns: stretch.interval.end_ns,
                jumps: stretch.has_jump,
                most: [
                    vec![UNBOUNDED_NS; hosts * hosts],
                    vec![UNBOUNDED_NS; hosts * hosts],
                ],
                estimate: [vec![0; hosts], vec![0; hosts]],
                by_leaves: vec![true; hosts],
            };
            for (&(one, other), fit) in pairs {
                let Some(bounds) = bounds(&tree, one, fit, &cell) else {
                    continue;
                };
                for end in 0..2 {
                    cell.most[end][one * hosts + other] = bounds.high_ns[end];
                    cell.most[end][other * hosts + one] = bounds.low_ns[end].saturating_neg();
                }
            }
            let mut is_contradictory = false;
            for most in &mut cell.most {
                is_contradictory |= !close(most, hosts);
                if tie_by_wall_clocks(most, wall_error_ns, &mut wrong) {
                    is_contradictory |= !close(most, hosts);
                }
            }
            network.contradictions += u64::from(is_contradictory);
            assume(&tree, &mut cell, hosts);
            network.cells.push(cell);
        }
        network.wrong_wall_clocks = (0..hosts).filter(|&host| wrong[host]).collect();
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
        let (low, high) = cell.bounds(self.hosts, one, other);
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

    /// Returns the largest error of [`Self::error_at`] for two hosts during the run, in ± nanoseconds. Jumps are
    /// excluded. Returns `None` if it is unbounded.
    pub fn largest_error(&self, one: usize, other: usize) -> Option<i64> {
        let (first, last) = (self.run.start_ns, self.run.end_ns);
        let moments = self
            .cells
            .iter()
            .filter(|cell| !cell.jumps && cell.start_ns <= last && first < cell.end_ns)
            .flat_map(|cell| {
                // Just inside the cell: its end belongs to the next one.
                [cell.start_ns.max(first), cell.end_ns.saturating_sub(1).min(last)]
            });
        let mut largest = None;
        for axis_ns in moments {
            let (less, more) = self.error_at(one, other, axis_ns);
            let error = less?.saturating_neg().max(more?);
            largest = largest.max(Some(error));
        }
        largest
    }

    /// Returns the conversion of a host's time to the axis.
    pub fn correction(&self, host: usize) -> Correction {
        if self.root_of.get(host) == Some(&host)
            && self
                .cells
                .iter()
                .all(|cell| cell.estimate.iter().all(|of| of[host] == 0))
        {
            return Correction::default();
        }
        let stretches = self.cells.iter().map(|cell| AxisStretch {
            axis: Interval::new(cell.start_ns, cell.end_ns),
            offset_ns: [cell.estimate[0][host], cell.estimate[1][host]],
            has_jump: cell.jumps,
        });
        Correction::new(stretches)
    }
}

impl Cell {
    /// Returns the lower and upper bounds of clock `other` minus clock `one` at the start and end.
    pub fn bounds(&self, hosts: usize, one: usize, other: usize) -> ([Option<i64>; 2], [Option<i64>; 2]) {
        let known = |ns: i64| (ns < UNBOUNDED_NS).then_some(ns);
        let most = |from: usize, to: usize| [0, 1].map(|end| known(self.most[end][from * hosts + to]));
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
        [0, 1].map(|end| self.estimate[end][other].saturating_sub(self.estimate[end][one]))
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
fn bounds_inside(fit: &PairFit, cell: &Cell, ends_ns: [i64; 2]) -> Vec<BoundsAt> {
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
    if pieces.peek().is_none() || cell.jumps {
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

/// Returns straight-line bounds of a pair over a cell, at its start and end.
fn bounds(tree: &Tree<'_>, one: usize, fit: &PairFit, cell: &Cell) -> Option<EndBounds> {
    let [from, to] = [cell.start_ns, cell.end_ns].map(|axis_ns| tree.host_time(one, axis_ns));
    let to = to.max(from.saturating_add(1));
    let mut points = bounds_inside(fit, cell, [from, to]);
    let (&first, &last) = (points.first()?, points.last()?);
    if points.iter().any(|point| point.low_ns <= -UNBOUNDED_NS) {
        points.iter_mut().for_each(|point| point.low_ns = -UNBOUNDED_NS);
    }
    if points.iter().any(|point| point.high_ns >= UNBOUNDED_NS) {
        points.iter_mut().for_each(|point| point.high_ns = UNBOUNDED_NS);
    }
    let loosened = tree
        .date_error(one, cell.start_ns)
        .max(tree.date_error(one, cell.end_ns))
        + 1;
    let straight = |sign: i64, of: fn(&BoundsAt) -> i64| -> [i64; 2] {
        let value = |point: &BoundsAt| sign * of(point);
        let highest = points.iter().map(value).max().unwrap_or(UNBOUNDED_NS);
        if highest >= UNBOUNDED_NS {
            return [sign * UNBOUNDED_NS; 2];
        }
        if cell.jumps {
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

/// Tightens the bounds by shortest paths over all hosts. Returns false and changes nothing if bounds contradict each
/// other.
fn close(most: &mut [i64], hosts: usize) -> bool {
    let mut closed = most.to_vec();
    for host in 0..hosts {
        closed[host * hosts + host] = 0;
    }
    for via in 0..hosts {
        for from in 0..hosts {
            let first = closed[from * hosts + via];
            if first >= UNBOUNDED_NS {
                continue;
            }
            for to in 0..hosts {
                let second = closed[via * hosts + to];
                if second < UNBOUNDED_NS {
                    let sum = first.saturating_add(second);
                    let known = &mut closed[from * hosts + to];
                    *known = sum.min(*known);
                }
            }
        }
    }
    let is_consistent = (0..hosts).all(|host| closed[host * hosts + host] >= 0);
    if is_consistent {
        most.copy_from_slice(&closed);
    }
    is_consistent
}

/// Tightens the bounds by the wall clocks that agree with them. Returns true if any bound was tightened.
fn tie_by_wall_clocks(most: &mut [i64], wall_error_ns: &[Option<i64>], wrong: &mut [bool]) -> bool {
    let hosts = wall_error_ns.len();
    let mut tightened = false;
    // A wall clock that contradicts most others is wrong. One that is contradicted only by a wrong clock is not.
    let mut against = vec![0u32; hosts];
    let contradicts = |most: &[i64], one: usize, other: usize, limit: i64| {
        most[one * hosts + other] < -limit || most[other * hosts + one] < -limit
    };
    let limit = |one: usize, other: usize| Some(wall_error_ns[one]?.saturating_add(wall_error_ns[other]?));
    for one in 0..hosts {
        for other in one + 1..hosts {
            if let Some(limit) = limit(one, other)
                && contradicts(most, one, other, limit)
            {
                against[one] += 1;
                against[other] += 1;
            }
        }
    }
    for one in 0..hosts {
        for other in one + 1..hosts {
            let Some(limit) = limit(one, other) else { continue };
            if contradicts(most, one, other, limit) {
                let worst = against[one].max(against[other]);
                wrong[one] |= against[one] == worst;
                wrong[other] |= against[other] == worst;
            }
        }
    }
    for one in 0..hosts {
        for other in one + 1..hosts {
            let Some(limit) = limit(one, other) else { continue };
            if wrong[one] || wrong[other] {
                continue;
            }
            for at in [one * hosts + other, other * hosts + one] {
                if limit < most[at] {
                    most[at] = limit;
                    tightened = true;
                }
            }
        }
    }
    tightened
}

/// Assigns an offset to each clock, one after the other. It is the offset at which its leaves coincide with those of
/// the hosts before it, clipped to the bounds. Closed bounds always permit a solution.
fn assume(tree: &Tree<'_>, cell: &mut Cell, hosts: usize) {
    for end in 0..2 {
        let axis_ns = if end == 0 { cell.start_ns } else { cell.end_ns };
        let mut placed: Vec<(usize, i64)> = Vec::with_capacity(hosts);
        for &host in &tree.order {
            let mut preferred: Vec<i64> = placed
                .iter()
                .filter(|(other, _)| tree.root_of[*other] == tree.root_of[host])
                .filter_map(|&(other, of_other)| {
                    let (one, two) = (host.min(other), host.max(other));
                    let fit = tree.pair(one, two)?;
                    // Just inside the cell: a clock may jump at the border.
                    let inside = if end == 0 {
                        axis_ns.saturating_add(1)
                    } else {
                        axis_ns.saturating_sub(1)
                    };
                    let first_ns = tree.host_time(one, inside);
                    let piece = fit.piece_at(first_ns)?;
                    let offset = piece.estimate_ns.map(|_| piece.assumed_at(first_ns))?;
                    Some(of_other.saturating_add(if one == other {
                        offset
                    } else {
                        offset.saturating_neg()
                    }))
                })
                .collect();
            preferred.sort_unstable();
            let is_axis = tree.root_of[host] == host && placed.is_empty();
            cell.by_leaves[host] &= is_axis || !preferred.is_empty();
            // Without leaves the wall clocks decide: the offset is 0. The same applies to hosts without any evidence.
            let preferred = preferred.get(preferred.len() / 2).copied().unwrap_or(0);
            let most = |from: usize, to: usize| cell.most[end][from * hosts + to];
            let high = placed
                .iter()
                .filter(|&&(other, _)| most(other, host) < UNBOUNDED_NS)
                .map(|&(other, of_other)| of_other.saturating_add(most(other, host)))
                .min()
                .unwrap_or(UNBOUNDED_NS);
            let low = placed
                .iter()
                .filter(|&&(other, _)| most(host, other) < UNBOUNDED_NS)
                .map(|&(other, of_other)| of_other.saturating_sub(most(host, other)))
                .max()
                .unwrap_or(-UNBOUNDED_NS);
            let offset = preferred.max(low).min(high);
            placed.push((host, offset));
            cell.estimate[end][host] = offset;
        }
    }
}
