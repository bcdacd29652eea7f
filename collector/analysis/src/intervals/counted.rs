//! Tracks time that was already counted: a union of intervals that arrive in nearly any order, in bounded memory.
//!
//! An instance is emitted when its last member was read, and ranks are read in strides. So an instance of two ranks may
//! arrive before an earlier instance of three ranks.

use crate::model::interval::Interval;
use rankscope_formats::session::{put_unsigned, take_unsigned};

/// Number of intervals at the end of the list that are searched first.
const NEAR: usize = 64;
/// Number of intervals at the end that are not packed.
const UNPACKED: usize = 64;
/// Number of intervals that are packed at once.
const PACKED_AT_ONCE: usize = 64;

/// A union of intervals with bounded memory.
#[derive(Clone, Debug)]
pub struct CountedTime {
    /// Maximum number of intervals. On overflow the older half is removed, and all time before its end counts as
    /// included.
    most: usize,
    /// The oldest intervals. Few unions need them again, and each rank has four unions.
    old: PackedIntervals,
    /// False once an interval arrived that touches an old one. Later ones probably do, too.
    may_pack: bool,
    /// Disjoint intervals in order, after the old ones.
    list: Vec<Interval>,
    /// All time before this counts as included.
    before: i64,
}

/// Disjoint intervals in order, as gaps and lengths, which take less than half of the memory.
#[derive(Clone, Debug, Default)]
struct PackedIntervals {
    bytes: Vec<u8>,
    count: usize,
    /// Time at which the first gap begins, in nanoseconds.
    from_ns: i64,
    /// End of the last interval, in nanoseconds.
    until_ns: i64,
}

impl PackedIntervals {
    fn push(&mut self, interval: Interval) {
        if self.count == 0 {
            self.from_ns = interval.start_ns;
            self.until_ns = interval.start_ns;
        }
        put_unsigned(
            interval.start_ns.wrapping_sub(self.until_ns) as u64,
            &mut self.bytes,
        );
        put_unsigned(interval.duration_ns() as u64, &mut self.bytes);
        self.until_ns = interval.end_ns;
        self.count += 1;
    }

    /// Removes the first `count` intervals and calls `each` with them.
    fn take_first(&mut self, count: usize, mut each: impl FnMut(Interval)) {
        let mut rest = self.bytes.as_slice();
        for _ in 0..count.min(self.count) {
            let (Some(gap), Some(length)) = (take_unsigned(&mut rest), take_unsigned(&mut rest)) else {
                break;
            };
            let start_ns = self.from_ns.wrapping_add(gap as i64);
            self.from_ns = start_ns.wrapping_add(length as i64);
            each(Interval::new(start_ns, self.from_ns));
        }
        let taken = self.bytes.len() - rest.len();
        self.bytes.drain(..taken);
        self.count -= count.min(self.count);
    }
}

impl CountedTime {
    /// Creates an empty union that keeps at most `most` intervals.
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(2),
            old: PackedIntervals::default(),
            may_pack: true,
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
                if self.list.len() == self.list.capacity() {
                    // Doubling would leave half of the memory of most unions unused.
                    self.list.reserve_exact(NEAR);
                }
                self.list.push(Interval::new(from, until));
                self.forget();
                self.pack();
                return;
            }
        }
        if self.old.count > 0 && from <= self.old.until_ns {
            self.unpack();
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
        if self.old.count + self.list.len() <= self.most {
            return;
        }
        let half = self.most / 2;
        let of_list = half.saturating_sub(self.old.count);
        self.old
            .take_first(half, |interval| self.before = interval.end_ns);
        for interval in self.list.drain(..of_list) {
            self.before = interval.end_ns;
        }
    }

    /// Packs the oldest intervals, once there are enough of them.
    fn pack(&mut self) {
        if self.may_pack && self.list.len() >= UNPACKED + PACKED_AT_ONCE {
            for interval in self.list.drain(..PACKED_AT_ONCE) {
                self.old.push(interval);
            }
            self.old.bytes.shrink_to_fit();
        }
    }

    /// Unpacks all intervals.
    #[cold]
    fn unpack(&mut self) {
        self.may_pack = false;
        let mut list = Vec::with_capacity(self.old.count + self.list.len() + 1);
        self.old
            .take_first(self.old.count, |interval| list.push(interval));
        list.append(&mut self.list);
        self.list = list;
        self.old = PackedIntervals::default();
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

    proptest! {
        /// A union that packs its old intervals gives the same pieces as one that does not.
        #[test]
        fn packing_changes_nothing(
            intervals in proptest::collection::vec((0i64..60, 1i64..40, proptest::bool::weighted(0.02)), 0..2000),
            most in 2usize..400,
        ) {
            let mut packing = CountedTime::new(most);
            let mut plain = CountedTime { may_pack: false, ..CountedTime::new(most) };
            let mut at = 0;
            for (gap, length, is_late) in intervals {
                at += gap;
                let from = if is_late { at - gap * 300 } else { at };
                let (mut new, mut expected) = (Vec::new(), Vec::new());
                packing.add(Interval::new(from, from + length), &mut new);
                plain.add(Interval::new(from, from + length), &mut expected);
                prop_assert_eq!(new, expected);
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut covered = CountedTime::new(2048);
        let mut new = Vec::new();
        for n in 0..100_000 {
            covered.add(Interval::new(10 * n, 10 * n + 5), &mut new);
        }
        assert!(covered.old.count + covered.list.len() <= 2048);
        assert!(covered.old.bytes.len() <= 2 * 2048 && covered.list.capacity() <= 2 * NEAR);
        assert_eq!(length(&new), 500_000);
        covered.add(Interval::new(0, 100), &mut new);
        assert_eq!(length(&new), 500_000, "long ago");
    }
}
