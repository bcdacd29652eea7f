//! Tracks time that was already counted: a union of intervals that arrive in nearly any order, in bounded memory.
//!
//! An instance is emitted when its last member was read, and ranks are read in strides. So an instance of two ranks may
//! arrive before an earlier instance of three ranks.

/// Number of intervals at the end of the list that are searched first.
const NEAR: usize = 64;

/// A union of intervals with bounded memory.
#[derive(Clone, Debug)]
pub struct CountedTime {
    /// Maximum number of intervals. On overflow the older half is removed, and all time before its end counts as
    /// included.
    most: usize,
    /// Disjoint intervals in order.
    list: Vec<(i64, i64)>,
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
    pub fn add(&mut self, from: i64, until: i64, new: &mut Vec<(i64, i64)>) {
        let from = from.max(self.before);
        if from >= until {
            return;
        }
        // Most intervals start after all others, or extend the last one.
        match self.list.last_mut() {
            Some(last) if last.0 <= from && from <= last.1 => {
                if last.1 < until {
                    new.push((last.1, until));
                    last.1 = until;
                }
                return;
            }
            Some(last) if from <= last.1 => {}
            _ => {
                new.push((from, until));
                self.list.push((from, until));
                self.forget();
                return;
            }
        }
        // The intervals that it touches or contains. Most of them are among the last ones, which are in the cache.
        let near = self.list.len().saturating_sub(NEAR);
        let near = if self.list[near].1 < from { near } else { 0 };
        let first = near + self.list[near..].partition_point(|covered| covered.1 < from);
        let last = near + self.list[near..].partition_point(|covered| covered.0 <= until);
        let mut at = from;
        for &(start, end) in &self.list[first..last] {
            if at < start {
                new.push((at, start));
            }
            at = at.max(end);
        }
        if at < until {
            new.push((at, until));
        }
        let (mut start, mut end) = (from, until);
        if let (Some(one), Some(other)) = (
            self.list.get(first),
            last.checked_sub(1).and_then(|last| self.list.get(last)),
        ) && first < last
        {
            start = start.min(one.0);
            end = end.max(other.1);
        }
        self.list.splice(first..last, [(start, end)]);
        self.forget();
    }

    /// Removes the older half of a full list.
    fn forget(&mut self) {
        if self.list.len() > self.most {
            let half = self.most / 2;
            self.before = self.list[half - 1].1;
            self.list.drain(..half);
        }
    }
}

/// Returns the total length of the pieces.
pub fn length(pieces: &[(i64, i64)]) -> i64 {
    pieces.iter().map(|(from, until)| until - from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
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
                covered.add(from, from + length, &mut new);
                for (start, end) in new {
                    (start..end).for_each(|moment| seen[moment as usize] += 1);
                }
                (from..from + length).for_each(|moment| expected[moment as usize] = 1);
                prop_assert!(covered.list.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
            prop_assert_eq!(seen, expected);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut covered = CountedTime::new(2048);
        let mut new = Vec::new();
        for n in 0..100_000 {
            covered.add(10 * n, 10 * n + 5, &mut new);
        }
        assert!(covered.list.len() <= 2048);
        assert_eq!(length(&new), 500_000);
        covered.add(0, 100, &mut new);
        assert_eq!(length(&new), 500_000, "long ago");
    }
}
