//! The part of a run that is reported, on the axis.

use crate::model::interval::Interval;
use serde::{Deserialize, Serialize};

/// Times of a log that are reported. What begins before it or after it belongs to another part of the run, and is read only because
/// results depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartWindow {
    /// Start, in nanoseconds; `i64::MIN` for the start of the run.
    pub from_ns: i64,
    /// End, in nanoseconds; `i64::MAX` for the end of the run.
    pub until_ns: i64,
}

impl PartWindow {
    /// The whole run.
    pub const WHOLE: Self = Self {
        from_ns: i64::MIN,
        until_ns: i64::MAX,
    };

    /// Returns true if it starts after the start of the run.
    #[inline]
    pub const fn has_start(self) -> bool {
        self.from_ns != i64::MIN
    }

    /// Returns true if it ends before the end of the run.
    #[inline]
    pub const fn has_end(self) -> bool {
        self.until_ns != i64::MAX
    }

    /// Returns true if what begins at a time belongs to the part.
    #[inline]
    pub const fn contains(self, ns: i64) -> bool {
        self.from_ns <= ns && ns < self.until_ns
    }

    /// Returns the nearest time in the part.
    #[inline]
    pub fn nearest(self, ns: i64) -> i64 {
        // An inverted window must not panic: clocks of damaged logs may run backwards.
        ns.min(self.until_ns).max(self.from_ns)
    }

    /// Returns the piece of an interval that is in the part. It is empty if the interval is outside.
    #[inline]
    pub fn clip(self, interval: Interval) -> Interval {
        Interval {
            start_ns: self.nearest(interval.start_ns),
            end_ns: self.nearest(interval.end_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_follow_each_other_share_no_time() {
        let first = PartWindow {
            until_ns: 10,
            ..PartWindow::WHOLE
        };
        let second = PartWindow {
            from_ns: 10,
            ..PartWindow::WHOLE
        };
        for ns in [i64::MIN, 9, 10, 11, i64::MAX - 1] {
            assert!(first.contains(ns) != second.contains(ns), "{ns}");
        }
        let interval = Interval::new(4, 15);
        assert_eq!(first.clip(interval), Interval::new(4, 10));
        assert_eq!(second.clip(interval), Interval::new(10, 15));
        assert!(second.clip(Interval::new(3, 7)).is_empty());
        let inverted = PartWindow {
            from_ns: 10,
            until_ns: 5,
        };
        assert!(inverted.clip(interval).is_empty() && !inverted.contains(7));
        assert!(first.has_end() && !first.has_start() && second.has_start() && !second.has_end());
    }
}
