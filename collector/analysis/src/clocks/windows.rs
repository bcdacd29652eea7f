//! Stores the sightings of a pair of hosts. A window of a few seconds has the bounds that matter, a few coinciding
//! leaves, and counts.
//!
//! Longer runs have longer windows, so that the number of windows is bounded.

use super::evidence::Sighting;
use super::hull::{Bound, Hull};
use super::votes::{Verdict, Votes};
use std::collections::VecDeque;

/// Minimum length of a window, in nanoseconds.
pub const SHORTEST_NS: i64 = 1 << 32;
/// Maximum number of leaves per window.
const MAX_LEAVES: usize = 64;
/// Number of sightings that are excluded on each side of a jump. A call during which the clock jumped has timestamps of
/// both sides and bounds neither.
const BESIDE_JUMP: usize = 4;
/// Maximum number of bounds that wait for insertion into a hull.
const MAX_PENDING: usize = 64;

/// Timestamps of both clocks of a pair in one sighting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BothClocks {
    /// Time of the first clock, in nanoseconds.
    pub first_ns: i64,
    /// Time of the second clock, in nanoseconds.
    pub second_ns: i64,
}

impl BothClocks {
    fn of(sighting: &Sighting) -> Self {
        Self {
            first_ns: sighting.at_ns,
            second_ns: sighting.other_ns,
        }
    }
}

/// Leave times of one operation on both clocks. They are ordered by the first clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaveDistance {
    /// Time on the first clock, in nanoseconds.
    pub at_ns: i64,
    /// Distance of the leaves, second clock minus first clock, in nanoseconds.
    pub distance_ns: i64,
}

/// A jump of a clock, or a silence of the pair too long for an even drift. It is between these timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Last timestamps before the jump.
    pub before: BothClocks,
    /// First timestamps after the jump.
    pub after: BothClocks,
}

/// Bounds of a pair over a few seconds.
#[derive(Clone, Debug)]
pub struct Window {
    /// Start on the first clock, in nanoseconds.
    pub start_ns: i64,
    /// End on the first clock, in nanoseconds.
    pub end_ns: i64,
    /// The jump before it, if any.
    pub jump: Option<Jump>,
    /// Upper bounds.
    pub upper: Hull,
    /// Lower bounds, with the opposite sign.
    pub lower: Hull,
    /// Coinciding leaves.
    pub leaves: Vec<LeaveDistance>,
    leaves_stride: u64,
    leaves_seen: u64,
    /// Number of sightings in it.
    pub sightings: u64,
    /// First and last timestamps of both clocks.
    pub seen: [BothClocks; 2],
    pending: [Vec<Bound>; 2],
}

impl Window {
    fn new(start_ns: i64, end_ns: i64, jump: Option<Jump>, seen: BothClocks) -> Self {
        Self {
            start_ns,
            end_ns,
            jump,
            upper: Hull::default(),
            lower: Hull::default(),
            leaves: Vec::new(),
            leaves_stride: 1,
            leaves_seen: 0,
            sightings: 0,
            seen: [seen; 2],
            pending: [Vec::new(), Vec::new()],
        }
    }

    fn take(&mut self, sighting: &Sighting) {
        self.sightings += 1;
        let seen = BothClocks::of(sighting);
        self.seen = [self.seen[0].min(seen), self.seen[1].max(seen)];
        let negated = |bound: Bound| Bound {
            value_ns: bound.value_ns.saturating_neg(),
            ..bound
        };
        self.pending[0].extend(sighting.upper);
        self.pending[1].extend(sighting.lower.map(negated));
        if let Some(distance_ns) = sighting.leaves_ns {
            self.leave(LeaveDistance {
                at_ns: sighting.at_ns,
                distance_ns,
            });
        }
        if self.pending[0].len().max(self.pending[1].len()) >= MAX_PENDING {
            self.settle();
        }
    }

    fn leave(&mut self, leave: LeaveDistance) {
        if self.leaves_seen.is_multiple_of(self.leaves_stride) {
            self.leaves.push(leave);
            if self.leaves.len() > MAX_LEAVES {
                // Keep every second leaf, of those stored and of those that follow.
                let mut at = 0;
                self.leaves.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.leaves_stride *= 2;
            }
        }
        self.leaves_seen += 1;
    }

    fn settle(&mut self) {
        self.upper.extend(self.pending[0].drain(..));
        self.lower.extend(self.pending[1].drain(..));
    }

    /// Adds the contents of the next window.
    fn absorb(&mut self, mut next: Self) {
        self.settle();
        next.settle();
        self.end_ns = next.end_ns;
        self.upper.extend(next.upper.corners().iter().copied());
        self.lower.extend(next.lower.corners().iter().copied());
        self.sightings += next.sightings;
        self.seen[1] = next.seen[1];
        for leave in next.leaves {
            self.leave(leave);
        }
    }
}

/// A jump after which no sighting is kept yet.
#[derive(Clone, Copy)]
struct OpenJump {
    /// Last timestamps before it.
    before: BothClocks,
    /// Number of sightings since.
    sightings: usize,
}

/// The evidence of a pair of hosts.
pub struct PairEvidence {
    votes: Votes,
    windows: Vec<Window>,
    /// The last sightings that fit. It is not yet known whether a jump follows.
    newest: VecDeque<Sighting>,
    /// The last jump, until a sighting after it is kept.
    jumped: Option<OpenJump>,
    length_ns: i64,
    most_windows: usize,
    /// Number of sightings that were excluded because they contradict their neighbours.
    pub mismatches: u64,
    /// Number of sightings that arrived too late for their window.
    pub late: u64,
}

impl PairEvidence {
    /// Creates the evidence of a pair with at most `most_windows` windows.
    pub fn new(most_windows: usize) -> Self {
        Self {
            votes: Votes::default(),
            windows: Vec::new(),
            newest: VecDeque::with_capacity(BESIDE_JUMP + 1),
            jumped: None,
            length_ns: SHORTEST_NS,
            most_windows: most_windows.max(2),
            mismatches: 0,
            late: 0,
        }
    }

    /// Adds a sighting.
    pub fn take(&mut self, sighting: Sighting) {
        let mut votes = std::mem::take(&mut self.votes);
        votes.take(sighting, |sighting, verdict| self.judged(&sighting, verdict));
        self.votes = votes;
    }

    /// Judges the remaining sightings and returns the complete windows.
    pub fn finish(&mut self) -> Vec<Window> {
        std::mem::take(&mut self.votes).finish(|sighting, verdict| self.judged(&sighting, verdict));
        for sighting in std::mem::take(&mut self.newest) {
            self.keep(&sighting);
        }
        let mut windows = std::mem::take(&mut self.windows);
        windows.iter_mut().for_each(Window::settle);
        windows
    }

    fn judged(&mut self, sighting: &Sighting, verdict: Verdict) {
        match verdict {
            Verdict::Mismatch => self.mismatches += 1,
            Verdict::Late => self.late += 1,
            Verdict::Fits => {
                if let Some(jumped) = &mut self.jumped
                    && jumped.sightings < BESIDE_JUMP
                {
                    jumped.sightings += 1;
                    return;
                }
                self.newest.push_back(*sighting);
                if self.newest.len() > BESIDE_JUMP
                    && let Some(oldest) = self.newest.pop_front()
                {
                    self.keep(&oldest);
                }
            }
            Verdict::FitsAfterJump => {
                self.newest.clear();
                let before = match self.jumped {
                    // No sighting between two jumps was kept.
                    Some(jumped) => Some(jumped.before),
                    None => self.windows.last().map(|last| last.seen[1]),
                };
                self.jumped = before.map(|before| OpenJump { before, sightings: 1 });
            }
        }
    }

    /// Stores a sighting in its window.
    fn keep(&mut self, sighting: &Sighting) {
        let at_ns = sighting.at_ns;
        let seen = BothClocks::of(sighting);
        let grid = at_ns.div_euclid(self.length_ns);
        let end_ns = grid.saturating_add(1).saturating_mul(self.length_ns);
        match self.windows.last_mut() {
            Some(last) if self.jumped.is_some() => {
                let before = self.jumped.take().map_or(last.seen[1], |jumped| jumped.before);
                let jump = Jump { before, after: seen };
                last.end_ns = last.seen[1].first_ns.saturating_add(1).min(last.end_ns);
                self.windows.push(Window::new(at_ns, end_ns, Some(jump), seen));
            }
            Some(last) if at_ns >= last.end_ns => {
                let start_ns = grid.saturating_mul(self.length_ns).max(last.end_ns);
                self.windows.push(Window::new(start_ns, end_ns, None, seen));
            }
            Some(last) if at_ns >= last.start_ns => {}
            Some(_) => {
                let position = self.windows.partition_point(|window| window.start_ns <= at_ns);
                let earlier = position
                    .checked_sub(1)
                    .and_then(|position| self.windows.get_mut(position));
                match earlier.filter(|window| at_ns < window.end_ns) {
                    Some(window) => window.take(sighting),
                    None => self.late += 1,
                }
                return;
            }
            None => {
                let start_ns = grid.saturating_mul(self.length_ns);
                self.windows.push(Window::new(start_ns, end_ns, None, seen));
            }
        }
        if let Some(last) = self.windows.last_mut() {
            last.take(sighting);
        }
        if self.windows.len() > self.most_windows {
            self.lengthen();
        }
    }

    /// Doubles the length of windows. Neighbours are merged, except across a jump.
    fn lengthen(&mut self) {
        self.length_ns = self.length_ns.saturating_mul(2);
        let mut merged: Vec<Window> = Vec::with_capacity(self.windows.len() / 2 + 1);
        for window in self.windows.drain(..) {
            match merged.last_mut() {
                Some(last)
                    if window.jump.is_none()
                        && last.start_ns.div_euclid(self.length_ns)
                            == window.start_ns.div_euclid(self.length_ns) =>
                {
                    last.absorb(window);
                }
                _ => merged.push(window),
            }
        }
        if let Some(last) = merged.last_mut() {
            // The last window continues.
            let grid = last.start_ns.div_euclid(self.length_ns);
            last.end_ns = grid.saturating_add(1).saturating_mul(self.length_ns);
        }
        self.windows = merged;
        if self.windows.len() > self.most_windows {
            // There are more jumps than windows. Evidence after the last window is dropped.
            self.windows.truncate(self.most_windows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(at_ns: i64, offset_ns: i64, slack_ns: i64) -> Sighting {
        Sighting {
            at_ns,
            other_ns: at_ns + offset_ns,
            upper: Some(Bound {
                at_ns,
                value_ns: offset_ns + slack_ns,
            }),
            lower: Some(Bound {
                at_ns,
                value_ns: offset_ns - slack_ns,
            }),
            leaves_ns: Some(offset_ns),
        }
    }

    #[test]
    fn a_long_run_has_longer_windows_and_keeps_its_tightest_bounds() {
        let mut pair = PairEvidence::new(8);
        // 200 s with one sighting every 10 ms. One of them is tight.
        for n in 0..20_000i64 {
            let slack = if n == 12_345 { 10 } else { 1000 + n % 7 };
            pair.take(sighting(n * 10_000_000, 77, slack));
        }
        let windows = pair.finish();
        assert!((4..=8).contains(&windows.len()), "{}", windows.len());
        assert!(windows.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns));
        assert_eq!(windows.iter().map(|window| window.sightings).sum::<u64>(), 20_000);
        let tightest = |hull: fn(&Window) -> &Hull| {
            windows
                .iter()
                .flat_map(|window| hull(window).corners())
                .map(|corner| corner.value_ns)
                .min()
        };
        assert_eq!(tightest(|window| &window.upper), Some(87));
        assert_eq!(tightest(|window| &window.lower), Some(-67));
        assert!(
            windows
                .iter()
                .all(|window| window.leaves.len() > 20 && window.leaves.len() <= MAX_LEAVES)
        );
    }

    #[test]
    fn a_jump_starts_a_window() {
        let mut pair = PairEvidence::new(100);
        for n in 0..100i64 {
            let offset = if n < 50 { 0 } else { -3_000_000_000 };
            pair.take(sighting(n * 10_000_000, offset, 1000));
        }
        let windows = pair.finish();
        let jump = windows[1].jump.expect("a jump");
        // Four sightings on each side are excluded.
        assert_eq!(jump.before.first_ns, 450_000_000);
        let after = BothClocks {
            first_ns: 540_000_000,
            second_ns: 540_000_000 - 3_000_000_000,
        };
        assert_eq!(jump.after, after);
        assert_eq!(
            (windows[0].sightings, windows[1].sightings, windows.len()),
            (46, 46, 2)
        );
    }
}
