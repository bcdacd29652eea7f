//! Tracks time that was already counted: a union of intervals that arrive in nearly any order, in bounded memory.
//!
//! An instance is emitted when its last member was read, and ranks are read in strides. So an instance of two ranks may
//! arrive before an earlier instance of three ranks.

use crate::model::interval::Interval;

/// Number of intervals at the end of the list that are searched first.
const NEAR: usize = 64;

/// A union of intervals with bounded memory.
#[derive(Clone, Debug)]
pub struct CountedTime {
    /// Maximum number of intervals. On overflow the older half is removed, and all time before its end counts as
    /// included.
    most: usize,
    /// Disjoint intervals in order.
    list: Vec<Interval>,
    /// All time before this counts as included.
    before: i64,
}

impl CountedTime {
    /// Creates an empty union that keeps at most `most` intervals.
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(2),
            list: Vec::new(),
            before: i64::MIN,
        }
    }

    /// Adds an interval, and appends those pieces of it to `new` that were not yet included.
    pub fn add(&mut self, interval: Interval, new: &mut Vec<Interval>) {
        let from = interval.start_ns.max(self.before);
        let until = interval.end_ns;
        if from >= until {
            return;
        }
        // Most intervals start after all others, or extend the last one.
        match self.list.last_mut() {
            Some(last) if last.start_ns <= from && from <= last.end_ns => {
                if last.end_ns < until {
                    new.push(Interval::new(last.end_ns, until));
                    last.end_ns = until;
                }
                return;
            }
            Some(last) if from <= last.end_ns => {}
            _ => {
                new.push(Interval::new(from, until));
                self.list.push(Interval::new(from, until));
                self.forget();
                return;
            }
        }
        // The intervals that it touches or contains. Most of them are among the last ones, which are in the cache.
        let near = self.list.len().saturating_sub(NEAR);
        let near = if self.list[near].end_ns < from { near } else { 0 };
        let first = near + self.list[near..].partition_point(|covered| covered.end_ns < from);
        let last = near + self.list[near..].partition_point(|covered| covered.start_ns <= until);
        let mut at = from;
        for covered in &self.list[first..last] {
            if at < covered.start_ns {
                new.push(Interval::new(at, covered.start_ns));
            }
            at = at.max(covered.end_ns);
        }
        if at < until {
            new.push(Interval::new(at, until));
        }
        let mut joined = Interval::new(from, until);
        let touched = &self.list[first..last];
        for covered in touched.first().into_iter().chain(touched.last()) {
            joined = joined.spanning(*covered);
        }
        self.list.splice(first..last, [joined]);
        self.forget();
    }

    /// Removes the older half of a full list.
    fn forget(&mut self) {
        if self.list.len() > self.most {
            let half = self.most / 2;
            self.before = self.list[half - 1].end_ns;
            self.list.drain(..half);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intervals::length;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the order of the intervals, each nanosecond is new exactly once.
        #[test]
        fn each_nanosecond_is_counted_once(intervals in proptest::collection::vec((0i64..300, 0i64..40), 0..60)) {
            let mut covered = CountedTime::new(2048);
            let mut seen = vec![0; 400];
            let mut expected = vec![0; 400];
            for (from, length) in intervals {
                let mut new = Vec::new();
                covered.add(Interval::new(from, from + length), &mut new);
                for piece in new {
                    (piece.start_ns..piece.end_ns).for_each(|moment| seen[moment as usize] += 1);
                }
                (from..from + length).for_each(|moment| expected[moment as usize] = 1);
                prop_assert!(covered.list.windows(2).all(|pair| pair[0].end_ns < pair[1].start_ns));
            }
            prop_assert_eq!(seen, expected);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut covered = CountedTime::new(2048);
        let mut new = Vec::new();
        for n in 0..100_000 {
            covered.add(Interval::new(10 * n, 10 * n + 5), &mut new);
        }
        assert!(covered.list.len() <= 2048);
        assert_eq!(length(&new), 500_000);
        covered.add(Interval::new(0, 100), &mut new);
        assert_eq!(length(&new), 500_000, "long ago");
    }
}
