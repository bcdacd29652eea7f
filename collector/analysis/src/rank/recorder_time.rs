//! How much of the time in which devices' work was recorded the recorder took for itself, on whichever thread.

use super::in_order::{InOrder, Moment};
use std::collections::VecDeque;

/// Time that the recorder took of some thread.
struct Taken {
    start_ns: i64,
    end_ns: i64,
}

impl Moment for Taken {
    fn moment_ns(&self) -> i64 {
        self.start_ns
    }
}

/// Sums what was taken, at once on several threads counted once, in bounded memory.
#[derive(Default)]
pub struct RecorderTime {
    waiting: InOrder<Taken>,
    /// The union of what is in order, in order, not counted yet.
    union: VecDeque<(i64, i64)>,
    /// Intervals in which all was recorded, in order, merged: those that are still asked for.
    recorded: VecDeque<(i64, i64)>,
    total_ns: i64,
}

impl RecorderTime {
    /// The recorder took this. In any order, but after [`Self::count`] not before its `until_ns`.
    pub fn took(&mut self, start_ns: i64, end_ns: i64) {
        self.waiting.push(Taken { start_ns, end_ns });
    }

    /// All was recorded between these moments; in order.
    pub fn recorded(&mut self, start_ns: i64, end_ns: i64) {
        extend(&mut self.recorded, start_ns, end_ns);
    }

    /// What began before is complete, and it is known what was recorded until then.
    pub fn count(&mut self, until_ns: i64) {
        while let Some(taken) = self.waiting.next_until(until_ns) {
            extend(&mut self.union, taken.start_ns, taken.end_ns);
        }
        // What ends later may grow yet.
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

    /// What was counted.
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
        /// One nanosecond after another.
        #[test]
        fn the_time_is_that_of_the_moments_in_which_something_was_taken_and_all_recorded(
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
            let (mut from, mut told) = (i64::MIN, i64::MIN);
            for until in pauses {
                for &(start, end) in taken.iter().rev().filter(|one| from <= one.0 && one.0 < until) {
                    time.took(start, end);
                }
                for &(start, end) in &intervals {
                    // Told in pieces, as the log does.
                    let (start, end) = (start.max(told), end.min(until));
                    if start < end {
                        time.recorded(start, end);
                    }
                }
                (from, told) = (until, until);
                time.count(until);
            }
            prop_assert_eq!(time.total_ns(), expected as i64);
        }
    }
}
