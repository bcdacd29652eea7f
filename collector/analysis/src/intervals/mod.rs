//! Unions of intervals. Intervals arrive nearly in order and are removed from the front.

pub mod counted;
pub mod device_overlap;
pub mod overlap;

/// A collection of intervals that arrive in nearly any order. Their union is removed from the front.
#[derive(Default)]
pub struct Intervals {
    /// Sorted by start from `head` on, unless `dirty`.
    list: Vec<(i64, i64)>,
    head: usize,
    dirty: bool,
}

impl Intervals {
    /// Adds an interval. Empty intervals are ignored.
    #[inline]
    pub fn add(&mut self, start: i64, end: i64) {
        if start < end {
            self.dirty |= self.list.last().is_some_and(|last| last.0 > start);
            self.list.push((start, end));
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
    pub fn take(&mut self, from: i64, until: i64, out: &mut Vec<(i64, i64)>) {
        out.clear();
        if self.dirty {
            self.list[self.head..].sort_unstable();
            self.dirty = false;
        }
        let first = self.head;
        let mut at = first;
        let mut kept = first;
        while let Some(&(start, end)) = self.list.get(at).filter(|interval| interval.0 < until) {
            at += 1;
            if end > until {
                self.list[kept] = (until, end);
                kept += 1;
            }
            let (start, end) = (start.max(from), end.min(until));
            if start < end {
                match out.last_mut() {
                    Some(last) if start <= last.1 => last.1 = last.1.max(end),
                    _ => out.push((start, end)),
                }
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

/// Returns the total length of a union.
pub fn length(union: &[(i64, i64)]) -> i64 {
    union.iter().map(|(start, end)| end - start).sum()
}

/// Returns the length of the intersection of two unions.
pub fn intersection(one: &[(i64, i64)], other: &[(i64, i64)]) -> i64 {
    let (mut i, mut j, mut sum) = (0, 0, 0);
    while let (Some(a), Some(b)) = (one.get(i), other.get(j)) {
        sum += (a.1.min(b.1) - a.0.max(b.0)).max(0);
        if a.1 <= b.1 { i += 1 } else { j += 1 }
    }
    sum
}

/// Computes the part of the first union that is not in the second.
pub fn difference(one: &[(i64, i64)], other: &[(i64, i64)], out: &mut Vec<(i64, i64)>) {
    out.clear();
    let mut j = 0;
    for &(start, end) in one {
        let mut at = start;
        while other.get(j).is_some_and(|hole| hole.1 <= at) {
            j += 1;
        }
        let mut hole = j;
        while let Some(&(from, to)) = other.get(hole).filter(|hole| hole.0 < end) {
            if from > at {
                out.push((at, from));
            }
            at = at.max(to);
            hole += 1;
        }
        if at < end {
            out.push((at, end));
        }
    }
}

/// Computes the union of two unions.
pub fn union(one: &[(i64, i64)], other: &[(i64, i64)], out: &mut Vec<(i64, i64)>) {
    out.clear();
    let (mut i, mut j) = (0, 0);
    loop {
        let next = match (one.get(i), other.get(j)) {
            (Some(&a), Some(&b)) if a.0 <= b.0 => {
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
        match out.last_mut() {
            Some(last) if next.0 <= last.1 => last.1 = last.1.max(next.1),
            _ => out.push(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn union_of(list: &[(i64, i64)]) -> Vec<(i64, i64)> {
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
            let inside = |list: &[(i64, i64)], t: i64| list.iter().any(|&(start, end)| start <= t && t < end);
            let (mut left, mut both) = (Vec::new(), Vec::new());
            difference(&one, &other, &mut left);
            union(&one, &other, &mut both);
            for t in 0..240 {
                prop_assert_eq!(inside(&left, t), inside(&one, t) && !inside(&other, t));
                prop_assert_eq!(inside(&both, t), inside(&one, t) || inside(&other, t));
            }
            prop_assert!(left.iter().chain(&both).all(|&(start, end)| start < end));
            prop_assert_eq!(length(&left) + intersection(&one, &other), length(&one));
        }
    }
}
