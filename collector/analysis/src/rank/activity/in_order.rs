//! Sorts items that arrive nearly in order: in runs, most of which are later than the run before.

use std::collections::VecDeque;

/// An item with a time by which it is ordered.
pub trait Moment {
    /// Returns the time, in nanoseconds.
    fn moment_ns(&self) -> i64;
}

/// Maximum distance from the end at which a new item is inserted directly, without sorting.
const NEAR: usize = 16;

/// A queue of items in order of time. Items of the same time keep their order of arrival.
pub struct InOrder<T> {
    sorted: VecDeque<T>,
    fresh: Vec<T>,
    /// Scratch buffers, kept for their memory.
    behind: Vec<T>,
    places: Vec<(i64, usize)>,
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self {
            sorted: VecDeque::new(),
            fresh: Vec::new(),
            behind: Vec::new(),
            places: Vec::new(),
        }
    }
}

impl<T: Moment> InOrder<T> {
    /// Adds an item.
    #[inline]
    pub fn push(&mut self, one: T) {
        // Among items of equal time those in `sorted` arrived first.
        if !self.fresh.is_empty() {
            self.fresh.push(one);
            return;
        }
        let moment = one.moment_ns();
        let later = self.sorted.iter().rev().take(NEAR + 1);
        match later.take_while(|other| other.moment_ns() > moment).count() {
            0 => self.sorted.push_back(one),
            places if places <= NEAR => self.sorted.insert(self.sorted.len() - places, one),
            _ => self.fresh.push(one),
        }
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.sorted.len() + self.fresh.len()
    }

    /// Iterates over all items in any order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.sorted.iter().chain(&self.fresh)
    }

    /// Removes and returns the first item if its time is at most `until_ns`. No item that is pushed later may be before
    /// `until_ns`.
    #[inline]
    pub fn next_until(&mut self, until_ns: i64) -> Option<T> {
        if !self.fresh.is_empty() {
            self.sort();
        }
        let is_due = self.sorted.front()?.moment_ns() <= until_ns;
        if is_due { self.sorted.pop_front() } else { None }
    }

    /// Sorts the new items by (time, position). Items are several times as large as these pairs and are moved only
    /// once.
    fn sort_fresh(&mut self) {
        self.places.clear();
        self.places
            .extend(self.fresh.iter().map(T::moment_ns).zip(0usize..));
        self.places.sort_unstable();
        for at in 0..self.places.len() {
            // The item of a position that was filled before moved to where that position's new item came from.
            let mut from = self.places[at].1;
            while from < at {
                from = self.places[from].1;
            }
            self.places[at].1 = from;
            self.fresh.swap(at, from);
        }
    }

    /// Merges the new items. Items before the first new one stay in place.
    fn sort(&mut self) {
        self.sort_fresh();
        let first = self.fresh[0].moment_ns();
        let stays = self.sorted.partition_point(|one| one.moment_ns() <= first);
        if stays == self.sorted.len() {
            self.sorted.extend(self.fresh.drain(..));
            return;
        }
        self.behind.extend(self.sorted.drain(stays..));
        let mut behind = self.behind.drain(..).peekable();
        for one in self.fresh.drain(..) {
            while let Some(other) = behind.next_if(|other| other.moment_ns() <= one.moment_ns()) {
                self.sorted.push_back(other);
            }
            self.sorted.push_back(one);
        }
        self.sorted.extend(behind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct One(i64, usize);

    impl Moment for One {
        fn moment_ns(&self) -> i64 {
            self.0
        }
    }

    proptest! {
        #[test]
        fn every_record_is_emitted_once_and_in_order(runs in prop::collection::vec(prop::collection::vec(0i64..40, 0..20), 0..12)) {
            let mut order = InOrder::default();
            let (mut all, mut out) = (Vec::new(), Vec::new());
            for (number, run) in runs.iter().enumerate() {
                let from = number as i64 * 10;
                for &offset in run {
                    all.push(One(from + offset, all.len()));
                    order.push(all[all.len() - 1]);
                }
                // No later item is before the start of the next run.
                while let Some(one) = order.next_until(from + 9) {
                    out.push(one);
                }
                prop_assert_eq!(order.len(), all.len() - out.len());
                prop_assert_eq!(order.iter().count(), order.len());
            }
            while let Some(one) = order.next_until(i64::MAX) {
                out.push(one);
            }
            all.sort_by_key(|one| one.0);
            prop_assert_eq!(out, all);
        }
    }
}
