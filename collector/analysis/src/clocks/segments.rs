//! Computes the interval of a pair over time: all offsets that satisfy every bound, for clocks that run as the model
//! says.
//!
//! If no offset satisfies all bounds, a clock jumped and a new segment starts. If a single bound causes the conflict,
//! that bound is wrong.

use super::region::Region;
use super::windows::{Jump, Window};
use super::{MAX_DRIFT, UNBOUNDED_NS, WANDER_NS_PER_S2, estimate, seconds, stray_ns, stray_outside_ns};
use crate::model::interval::Interval;

/// Bounds and estimate of an offset over a time span: straight lines between its ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Start on the first clock, in nanoseconds.
    pub start_ns: i64,
    /// End on the first clock, in nanoseconds.
    pub end_ns: i64,
    /// Lower bound of the offset at start and end; ≤ −[`UNBOUNDED_NS`] if there is none.
    pub low_ns: [i64; 2],
    /// Upper bound of the offset at start and end; ≥ [`UNBOUNDED_NS`] if there is none.
    pub high_ns: [i64; 2],
    /// Offset at which leaves coincide, clipped to the interval; `None` without leaves.
    pub estimate_ns: Option<[i64; 2]>,
}

/// A time span in which neither clock jumped.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The jump before it, if any.
    pub jump: Option<Jump>,
    /// Pieces in order, without gaps.
    pub pieces: Vec<Piece>,
    /// Number of sightings that it is based on.
    pub sightings: u64,
}

/// A time span of the model: a window, or silence.
struct Part {
    start_ns: i64,
    end_ns: i64,
    window: Option<usize>,
}

impl Part {
    fn seconds(&self) -> f64 {
        seconds(self.end_ns.saturating_sub(self.start_ns))
    }
}

/// The solution for a pair of hosts.
#[derive(Clone, Debug, Default)]
pub struct PairFit {
    /// Segments in order of time. Empty without evidence.
    pub segments: Vec<Segment>,
    /// Number of bounds that were excluded because the others agree without them.
    pub dropped: u64,
}

impl PairFit {
    /// Solves the windows of a pair. `run` is the run on the first clock; the segments extend over all of it.
    pub fn solve(mut windows: Vec<Window>, run: Interval) -> Self {
        let mut fit = Self::default();
        let mut first = 0;
        // The first and last windows are trimmed to their sightings. Before and after them is silence.
        if let Some(window) = windows.first_mut() {
            window.start_ns = window.start_ns.max(window.seen[0].first_ns);
        }
        if let Some(window) = windows.last_mut() {
            window.end_ns = window.end_ns.min(window.seen[1].first_ns.saturating_add(1));
        }
        while first < windows.len() {
            let last_of_run = (first + 1..windows.len())
                .find(|&at| windows[at].jump.is_some())
                .unwrap_or(windows.len());
            let (forward, parts, reached) = fit.forward(&mut windows, first, last_of_run, run);
            if let (Some(before), Some(next)) = (
                windows.get(reached - 1).map(|window| window.seen[1]),
                windows.get_mut(reached),
            ) && next.jump.is_none()
            {
                next.jump = Some(Jump {
                    before,
                    after: next.seen[0],
                });
            }
            let mut pieces = backward(&forward, &parts, &windows);
            estimate::place(&mut pieces, &windows[first..reached]);
            fit.segments.push(Segment {
                jump: windows[first].jump,
                pieces,
                sightings: windows[first..reached]
                    .iter()
                    .map(|window| window.sightings)
                    .sum(),
            });
            first = reached;
        }
        fit
    }

    /// Processes the windows from `first` on, as far as they agree.
    ///
    /// Returns the regions that are possible at the start of each part, given the evidence before and in it. Also
    /// returns the parts, and the first window that does not belong to them.
    fn forward(
        &mut self,
        windows: &mut [Window],
        first: usize,
        end: usize,
        run: Interval,
    ) -> (Vec<Region>, Vec<Part>, usize) {
        let mut regions: Vec<Region> = Vec::new();
        let mut parts: Vec<Part> = Vec::new();
        if first == 0 && run.start_ns < windows[first].start_ns {
            push(&mut regions, &mut parts, run.start_ns, windows[first].start_ns);
        }
        let mut at = first;
        while at < end {
            let begun = (regions.len(), parts.len());
            if let Some(before) = parts.last().map(|part| part.end_ns)
                && before < windows[at].start_ns
            {
                push(&mut regions, &mut parts, before, windows[at].start_ns);
            }
            let part = Part {
                start_ns: windows[at].start_ns,
                end_ns: windows[at].end_ns,
                window: Some(at),
            };
            let region = next_region(&regions, &parts, part.seconds());
            self.make_sane(&mut windows[at]);
            let narrowed =
                narrowed(&region, &windows[at], None).or_else(|| self.without_one(&region, windows, at, end));
            match narrowed {
                Some(region) => {
                    regions.push(region);
                    parts.push(part);
                    at += 1;
                }
                None => {
                    regions.truncate(begun.0);
                    parts.truncate(begun.1);
                    break;
                }
            }
        }
        // The first window always fits: it is consistent in itself, and everything is possible before it.
        let reached = at.max(first + 1);
        let until = if reached == windows.len() {
            run.end_ns
        } else if let Some(jump) = windows[reached].jump {
            jump.before.first_ns
        } else {
            windows[reached - 1].seen[1].first_ns
        };
        if let Some(before) = parts.last().map(|part| part.end_ns)
            && before < until
        {
            push(&mut regions, &mut parts, before, until);
        }
        (regions, parts, reached)
    }

    /// Removes bounds from a window that contradicts itself, starting with those that contradict most.
    fn make_sane(&mut self, window: &mut Window) {
        while narrowed(&Region::anything(MAX_DRIFT), window, None).is_none() {
            let conflicts = |upper: bool, corner: usize| {
                let (own, others) = if upper {
                    (window.upper.corners(), window.lower.corners())
                } else {
                    (window.lower.corners(), window.upper.corners())
                };
                let own = own[corner];
                others
                    .iter()
                    .filter(|other| {
                        let drift =
                            seconds(other.at_ns.saturating_sub(own.at_ns).saturating_abs()) * MAX_DRIFT;
                        other.value_ns as f64 + (own.value_ns as f64) + drift < 0.0
                    })
                    .count()
            };
            let worst = corners(window).max_by_key(|&(upper, corner)| conflicts(upper, corner));
            match worst {
                Some((upper, corner)) => self.drop(window, upper, corner),
                None => break,
            }
        }
    }

    fn drop(&mut self, window: &mut Window, upper: bool, corner: usize) {
        if upper {
            window.upper.remove(corner);
        } else {
            window.lower.remove(corner);
        }
        self.dropped += 1;
    }

    /// Removes a bound that alone causes the conflict, unless the next window conflicts nevertheless.
    fn without_one(
        &mut self,
        region: &Region,
        windows: &mut [Window],
        at: usize,
        end: usize,
    ) -> Option<Region> {
        let (found, rest) = corners(&windows[at])
            .filter_map(|corner| Some((corner, narrowed(region, &windows[at], Some(corner))?)))
            .max_by(|(_, one), (_, other)| {
                let width = |region: &Region| region.range(0.0).1 - region.range(0.0).0;
                width(one).total_cmp(&width(other))
            })?;
        if at + 1 < end {
            let (this, next) = (&windows[at], &windows[at + 1]);
            let length = seconds(next.start_ns.saturating_sub(this.start_ns));
            let mut later = rest.after(length, WANDER_NS_PER_S2 * 2.0 * length);
            later.limit_drift(MAX_DRIFT);
            narrowed(&later, next, None)?;
        }
        self.drop(&mut windows[at], found.0, found.1);
        Some(rest)
    }
}

/// Returns the identifiers of all corners of a window: side and index.
fn corners(window: &Window) -> impl Iterator<Item = (bool, usize)> + use<> {
    let (upper, lower) = (window.upper.corners().len(), window.lower.corners().len());
    (0..upper)
        .map(|corner| (true, corner))
        .chain((0..lower).map(|corner| (false, corner)))
}

/// Returns the region at the start of the next part, derived from the parts before.
fn next_region(regions: &[Region], parts: &[Part], length: f64) -> Region {
    match (regions.last(), parts.last()) {
        (Some(region), Some(part)) => {
            let mut next = region.after(part.seconds(), wander(part.seconds(), length));
            next.limit_drift(MAX_DRIFT);
            next
        }
        _ => Region::anything(MAX_DRIFT),
    }
}

/// Returns the maximum difference of the mean drifts of neighbouring time spans.
fn wander(one: f64, next: f64) -> f64 {
    WANDER_NS_PER_S2 * f64::midpoint(one, next)
}

/// Appends a time span of silence.
fn push(regions: &mut Vec<Region>, parts: &mut Vec<Part>, start_ns: i64, end_ns: i64) {
    let part = Part {
        start_ns,
        end_ns,
        window: None,
    };
    regions.push(next_region(regions, parts, part.seconds()));
    parts.push(part);
}

/// Cuts a region at the start of a window by all bounds of the window, except `without`. Returns `None` if nothing
/// remains.
fn narrowed(region: &Region, window: &Window, without: Option<(bool, usize)>) -> Option<Region> {
    let mut region = region.clone();
    let length = seconds(window.end_ns.saturating_sub(window.start_ns));
    for (sign, hull) in [(1.0, &window.upper), (-1.0, &window.lower)] {
        for (at, corner) in hull.corners().iter().enumerate() {
            if without == Some((sign > 0.0, at)) {
                continue;
            }
            let later = seconds(corner.at_ns.saturating_sub(window.start_ns));
            let outside = (later - length).max(-later).max(0.0);
            let slack = stray_ns(length) + stray_outside_ns(length, outside);
            if !region.cut(sign, sign * later, corner.value_ns as f64 + slack) {
                return None;
            }
        }
    }
    Some(region)
}

/// Combines the evidence after each part with the evidence before it.
fn backward(forward: &[Region], parts: &[Part], windows: &[Window]) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(parts.len());
    let mut behind: Option<(Region, f64)> = None;
    for (before, part) in forward.iter().zip(parts).rev() {
        let length = part.seconds();
        let mut own = match &behind {
            Some((region, next)) => {
                let mut own = region.before(length, wander(length, *next));
                own.limit_drift(MAX_DRIFT);
                own
            }
            None => Region::anything(MAX_DRIFT),
        };
        if let Some(window) = part.window {
            // The forward pass found these bounds consistent. A rounding error must not turn them into a conflict.
            own = narrowed(&own, &windows[window], None).unwrap_or_else(|| before.clone());
        }
        let mut both = before.clone();
        if !both.intersect(&own) {
            both = before.clone();
        }
        pieces.push(piece(part, &both, length));
        behind = Some((own, length));
    }
    pieces.reverse();
    pieces
}

fn piece(part: &Part, region: &Region, length: f64) -> Piece {
    let stray = stray_ns(length);
    let (start, end) = (region.range(0.0), region.range(length));
    // Round outwards: rounding must not exclude possible offsets.
    let low = |offset: f64| ((offset - stray).floor() as i64 - 1).max(-UNBOUNDED_NS);
    let high = |offset: f64| ((offset + stray).ceil() as i64 + 1).min(UNBOUNDED_NS);
    Piece {
        start_ns: part.start_ns,
        end_ns: part.end_ns,
        low_ns: [low(start.0), low(end.0)],
        high_ns: [high(start.1), high(end.1)],
        estimate_ns: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::evidence::Sighting;
    use super::super::hull::Bound;
    use super::super::windows::PairEvidence;
    use super::*;

    #[test]
    fn a_bound_far_outside_of_its_window_does_not_exclude_the_true_offset() {
        // The drift changes all the time, as fast as the model allows.
        let offset_ns = |at_ns: i64| {
            let at = seconds(at_ns);
            (1000.0 * at + WANDER_NS_PER_S2 / 2.0 * at * at).round() as i64
        };
        let mut pair = PairEvidence::new(8);
        for n in 0..400i64 {
            let at_ns = n * 10_000_000;
            // The last call waits for 20 s. Its upper bound is from its start, its lower bound from its end.
            let until_ns = if n == 399 { at_ns + 20_000_000_000 } else { at_ns };
            let bound = |at_ns| {
                Some(Bound {
                    at_ns,
                    value_ns: offset_ns(at_ns),
                })
            };
            pair.take(Sighting {
                at_ns,
                other_ns: at_ns + offset_ns(at_ns),
                upper: bound(at_ns),
                lower: bound(until_ns),
                leaves_ns: None,
            });
        }
        let fit = PairFit::solve(pair.finish(), Interval::new(0, 4_000_000_000));
        assert_eq!((fit.segments.len(), fit.dropped), (1, 0));
        for piece in &fit.segments[0].pieces {
            for (end, at_ns) in [piece.start_ns, piece.end_ns].into_iter().enumerate() {
                let truth = offset_ns(at_ns);
                let (low, high) = (piece.low_ns[end], piece.high_ns[end]);
                assert!((low..=high).contains(&truth), "{low} {truth} {high} at {at_ns}");
            }
        }
    }
}
