//! Measures how much time the recorder itself used, on any thread, while device activity was recorded.

use super::in_order::{InOrder, Moment};
use crate::intervals::extend;
use crate::model::interval::Interval;
use std::collections::VecDeque;

impl Moment for Interval {
    fn moment_ns(&self) -> i64 {
        self.start_ns
    }
}

/// Sums the recorder's intervals in bounded memory. Time on several threads at once counts once.
#[derive(Default)]
pub struct RecorderTime {
    /// Intervals that the recorder used on some thread.
    waiting: InOrder<Interval>,
    /// Ordered union of the intervals that are not yet counted.
    union: VecDeque<Interval>,
    /// Intervals in which all activity was recorded, ordered and merged. Older ones are removed.
    recorded: VecDeque<Interval>,
    total_ns: i64,
}

impl RecorderTime {
    /// Adds an interval of the recorder, in any order. After [`Self::count`] it must not start before that call's
    /// `until_ns`.
    pub fn took(&mut self, start_ns: i64, end_ns: i64) {
        self.waiting.push(Interval { start_ns, end_ns });
    }

    /// Adds an interval in which all activity was recorded, in order.
    pub fn recorded(&mut self, interval: Interval) {
        extend(&mut self.recorded, interval);
    }

    /// Counts all intervals that end by `until_ns`. Intervals that start before `until_ns` must be complete, and the
    /// recorded intervals until then known.
    pub fn count(&mut self, until_ns: i64) {
        while let Some(taken) = self.waiting.next_until(until_ns) {
            extend(&mut self.union, taken);
        }
        // An interval that ends later may still be extended.
        while let Some(taken) = self.union.pop_front_if(|taken| taken.end_ns <= until_ns) {
            while self
                .recorded
                .pop_front_if(|recorded| recorded.end_ns < taken.start_ns)
                .is_some()
            {}
            for recorded in self
                .recorded
                .iter()
                .take_while(|recorded| recorded.start_ns < taken.end_ns)
            {
                self.total_ns = self.total_ns.saturating_add(recorded.overlap_ns(taken));
            }
        }
    }

    /// Returns the counted time, in nanoseconds.
    pub fn total_ns(&self) -> i64 {
        self.total_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a count of every nanosecond.
        #[test]
        fn recorder_time_is_the_overlap_of_overhead_and_recorded_intervals(
            taken in proptest::collection::vec((0i64..200, 0i64..40), 0..30),
            recorded in proptest::collection::vec((0i64..30, 1i64..60), 0..8),
            pauses in proptest::collection::vec(0i64..260, 0..6),
        ) {
            let mut intervals = Vec::new();
            let mut at = 0;
            for (pause, length) in recorded {
                intervals.push(Interval::new(at + pause, at + pause + length));
                at += pause + length;
            }
            let covers = |list: &[Interval], ns| list.iter().any(|interval| interval.contains(ns));
            let taken: Vec<Interval> = taken.into_iter().map(|(start, length)| Interval::new(start, start + length)).collect();
            let expected = (0..1000).filter(|&ns| covers(&taken, ns) && covers(&intervals, ns)).count();

            let mut pauses = pauses;
            pauses.sort_unstable();
            pauses.push(i64::MAX);
            let mut time = RecorderTime::default();
            let (mut from, mut known_until) = (i64::MIN, i64::MIN);
            for until in pauses {
                for one in taken.iter().rev().filter(|one| from <= one.start_ns && one.start_ns < until) {
                    time.took(one.start_ns, one.end_ns);
                }
                for interval in &intervals {
                    // In pieces, as in the log.
                    let piece = interval.intersection(Interval::new(known_until, until));
                    if !piece.is_empty() {
                        time.recorded(piece);
                    }
                }
                (from, known_until) = (until, until);
                time.count(until);
            }
            prop_assert_eq!(time.total_ns(), expected as i64);
        }
    }
}
