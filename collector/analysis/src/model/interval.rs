//! A piece of time.

use serde::{Deserialize, Serialize};

/// A half-open interval of time: from its start, included, to its end, excluded.
///
/// It is empty if it does not end after its start. Intervals are ordered by their starts, then by their ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Interval {
    /// Start, in nanoseconds.
    pub start_ns: i64,
    /// End, in nanoseconds.
    pub end_ns: i64,
}

impl Interval {
    /// Returns the interval from a start to an end, in nanoseconds.
    #[inline]
    pub const fn new(start_ns: i64, end_ns: i64) -> Self {
        Self { start_ns, end_ns }
    }

    /// Returns its length, in nanoseconds. It is negative if the end is before the start.
    #[inline]
    pub const fn duration_ns(self) -> i64 {
        self.end_ns - self.start_ns
    }

    /// Returns true if no time is inside.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.start_ns >= self.end_ns
    }

    /// Returns true if the time `ns` is inside.
    #[inline]
    pub const fn contains(self, ns: i64) -> bool {
        self.start_ns <= ns && ns < self.end_ns
    }

    /// Returns the part that is also in another interval. It may be empty.
    #[inline]
    pub fn intersection(self, other: Self) -> Self {
        Self {
            start_ns: self.start_ns.max(other.start_ns),
            end_ns: self.end_ns.min(other.end_ns),
        }
    }

    /// Returns the length of the part that is also in another interval, in nanoseconds.
    #[inline]
    pub fn overlap_ns(self, other: Self) -> i64 {
        self.intersection(other).duration_ns().max(0)
    }

    /// Returns the smallest interval that contains both.
    #[inline]
    pub fn spanning(self, other: Self) -> Self {
        Self {
            start_ns: self.start_ns.min(other.start_ns),
            end_ns: self.end_ns.max(other.end_ns),
        }
    }

    /// Extends it by an interval that does not start before it. Returns false if there is a gap between them.
    #[inline]
    pub fn absorb(&mut self, next: Self) -> bool {
        let touches = next.start_ns <= self.end_ns;
        if touches {
            self.end_ns = self.end_ns.max(next.end_ns);
        }
        touches
    }
}
