//! Unions of intervals. Intervals arrive nearly in order and are removed from the front.

pub mod counted;
pub mod device_overlap;
pub mod overlap;

use crate::model::interval::Interval;
use std::collections::VecDeque;

/// A collection of intervals that arrive in nearly any order. Their union is removed from the front.
#[derive(Default)]
pub struct Intervals {
    /// Sorted by start from `head` on, unless `dirty`.
    list: Vec<Interval>,
    head: usize,
    dirty: bool,
}

impl Intervals {
    /// Adds an interval. Empty intervals are ignored.
    #[inline]
    pub fn add(&mut self, start_ns: i64, end_ns: i64) {
        let interval = Interval { start_ns, end_ns };
        if !interval.is_empty() {
            self.dirty |= self.list.last().is_some_and(|last| last.start_ns > start_ns);
            self.list.push(interval);
        }
    }

    /// Returns the number of stored intervals.
    pub fn waiting(&self) -> usize {
        self.list.len() - self.head
    }

    /// Moves the union of all parts in `from..until` to `out`. Parts after `until` stay, and parts before `from` are
    /// dropped.
    ///
    /// The cost depends on what is moved, not on what stays: the list may contain many steps.
    pub fn take(&mut self, from: i64, until: i64, out: &mut Vec<Interval>) {
        out.clear();
        if self.dirty {
            self.list[self.head..].sort_unstable();
            self.dirty = false;
        }
        let first = self.head;
        let mut at = first;
        let mut kept = first;
        let window = Interval::new(from, until);
        while let Some(&interval) = self.list.get(at).filter(|interval| interval.start_ns < until) {
            at += 1;
            if interval.end_ns > until {
                self.list[kept] = Interval::new(until, interval.end_ns);
                kept += 1;
            }
            let inside = interval.intersection(window);
            if !inside.is_empty() {
                append(out, inside);
            }
        }
        // Intervals that extend beyond `until` continue there, before intervals that start later.
        let sticking_out = kept - first;
        self.head = at - sticking_out;
        self.list.copy_within(first..kept, self.head);
        if self.head > self.list.len() / 2 {
            self.list.drain(..self.head);
            self.head = 0;
        }
    }
}

/// Appends an interval to a union. It must not start before the last one.
#[inline]
fn append(union: &mut Vec<Interval>, next: Interval) {
    if !union.last_mut().is_some_and(|last| last.absorb(next)) {
        union.push(next);
    }
}

/// Adds an interval to the end of a union that is removed from the front. It must not start before the last one.
#[inline]
pub fn extend(union: &mut VecDeque<Interval>, next: Interval) {
    if !union.back_mut().is_some_and(|last| last.absorb(next)) {
        union.push_back(next);
    }
}

/// Returns the sum of the lengths of intervals, in nanoseconds.
pub fn length(union: &[Interval]) -> i64 {
    union.iter().map(|interval| interval.duration_ns()).sum()
}

/// Returns the length of the intersection of two unions.
pub fn intersection(one: &[Interval], other: &[Interval]) -> i64 {
    let (mut i, mut j, mut sum) = (0, 0, 0);
    while let (Some(a), Some(b)) = (one.get(i), other.get(j)) {
        sum += a.overlap_ns(*b);
        if a.end_ns <= b.end_ns { i += 1 } else { j += 1 }
    }
    sum
}

/// Computes the part of the first union that is not in the second.
pub fn difference(one: &[Interval], other: &[Interval], out: &mut Vec<Interval>) {
    out.clear();
    let mut j = 0;
    for &Interval { start_ns, end_ns } in one {
        let mut at = start_ns;
        while other.get(j).is_some_and(|hole| hole.end_ns <= at) {
            j += 1;
        }
        let mut next = j;
        while let Some(hole) = other.get(next).filter(|hole| hole.start_ns < end_ns) {
            if hole.start_ns > at {
                out.push(Interval::new(at, hole.start_ns));
            }
            at = at.max(hole.end_ns);
            next += 1;
        }
        if at < end_ns {
            out.push(Interval::new(at, end_ns));
        }
    }
}

/// Computes the union of two unions.
pub fn union(one: &[Interval], other: &[Interval], out: &mut Vec<Interval>) {
    out.clear();
    let (mut i, mut j) = (0, 0);
    loop {
        let next = match (one.get(i), other.get(j)) {
            (Some(&a), Some(&b)) if a.start_ns <= b.start_ns => {
                i += 1;
                a
            }
            (_, Some(&b)) => {
                j += 1;
                b
            }
            (Some(&a), None) => {
                i += 1;
                a
            }
            (None, None) => return,
        };
        append(out, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn union_of(list: &[(i64, i64)]) -> Vec<Interval> {
        let mut intervals = Intervals::default();
        for &(start, length) in list {
            intervals.add(start, start + length);
        }
        let mut out = Vec::new();
        intervals.take(i64::MIN, i64::MAX, &mut out);
        out
    }

    proptest! {
        #[test]
        fn set_operations_equal_a_count_of_every_nanosecond(
            one in proptest::collection::vec((0i64..200, 0i64..30), 0..20),
            other in proptest::collection::vec((0i64..200, 0i64..30), 0..20),
        ) {
            let (one, other) = (union_of(&one), union_of(&other));
            let inside = |list: &[Interval], t: i64| list.iter().any(|interval| interval.contains(t));
            let (mut left, mut both) = (Vec::new(), Vec::new());
            difference(&one, &other, &mut left);
            union(&one, &other, &mut both);
            for t in 0..240 {
                prop_assert_eq!(inside(&left, t), inside(&one, t) && !inside(&other, t));
                prop_assert_eq!(inside(&both, t), inside(&one, t) || inside(&other, t));
            }
            prop_assert!(left.iter().chain(&both).all(|interval| !interval.is_empty()));
            prop_assert_eq!(length(&left) + intersection(&one, &other), length(&one));
        }
    }
}
