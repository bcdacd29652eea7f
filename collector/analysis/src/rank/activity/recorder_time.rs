//! Measures how much time the recorder itself used, on any thread, while device activity was recorded.

use super::in_order::{InOrder, Moment};
use std::collections::VecDeque;

/// An interval that the recorder used on some thread.
struct Taken {
    start_ns: i64,
    end_ns: i64,
}

impl Moment for Taken {
    fn moment_ns(&self) -> i64 {
        self.start_ns
    }
}

/// Sums the recorder's intervals in bounded memory. Time on several threads at once counts once.
#[derive(Default)]
pub struct RecorderTime {
    waiting: InOrder<Taken>,
    /// Ordered union of the intervals that are not yet counted.
    union: VecDeque<(i64, i64)>,
    /// Intervals in which all activity was recorded, ordered and merged. Older ones are removed.
    recorded: VecDeque<(i64, i64)>,
    total_ns: i64,
}

impl RecorderTime {
    /// Adds an interval of the recorder, in any order. After [`Self::count`] it must not start before that call's
    /// `until_ns`.
    pub fn took(&mut self, start_ns: i64, end_ns: i64) {
        self.waiting.push(Taken { start_ns, end_ns });
    }

    /// Adds an interval in which all activity was recorded, in order.
    pub fn recorded(&mut self, start_ns: i64, end_ns: i64) {
        extend(&mut self.recorded, start_ns, end_ns);
    }

    /// Counts all intervals that end by `until_ns`. Intervals that start before `until_ns` must be complete, and the
    /// recorded intervals until then known.
    pub fn count(&mut self, until_ns: i64) {
        while let Some(taken) = self.waiting.next_until(until_ns) {
            extend(&mut self.union, taken.start_ns, taken.end_ns);
        }
        // An interval that ends later may still be extended.
        while let Some((start, end)) = self.union.pop_front_if(|taken| taken.1 <= until_ns) {
            while self
                .recorded
                .pop_front_if(|recorded| recorded.1 < start)
                .is_some()
            {}
            for &(from, to) in self.recorded.iter().take_while(|recorded| recorded.0 < end) {
                self.total_ns = self
                    .total_ns
                    .saturating_add((to.min(end) - from.max(start)).max(0));
            }
        }
    }

    /// Returns the counted time, in nanoseconds.
    pub fn total_ns(&self) -> i64 {
        self.total_ns
    }
}

fn extend(union: &mut VecDeque<(i64, i64)>, start: i64, end: i64) {
    match union.back_mut() {
        Some(last) if start <= last.1 => last.1 = last.1.max(end),
        _ => union.push_back((start, end)),
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
                intervals.push((at + pause, at + pause + length));
                at += pause + length;
            }
            let covers = |list: &[(i64, i64)], ns| list.iter().any(|&(from, to)| (from..to).contains(&ns));
            let taken: Vec<(i64, i64)> = taken.into_iter().map(|(start, length)| (start, start + length)).collect();
            let expected = (0..1000).filter(|&ns| covers(&taken, ns) && covers(&intervals, ns)).count();

            let mut pauses = pauses;
            pauses.sort_unstable();
            pauses.push(i64::MAX);
            let mut time = RecorderTime::default();
            let (mut from, mut known_until) = (i64::MIN, i64::MIN);
            for until in pauses {
                for &(start, end) in taken.iter().rev().filter(|one| from <= one.0 && one.0 < until) {
                    time.took(start, end);
                }
                for &(start, end) in &intervals {
                    // In pieces, as in the log.
                    let (start, end) = (start.max(known_until), end.min(until));
                    if start < end {
                        time.recorded(start, end);
                    }
                }
                (from, known_until) = (until, until);
                time.count(until);
            }
            prop_assert_eq!(time.total_ns(), expected as i64);
        }
    }
}
