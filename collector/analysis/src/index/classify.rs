//! Classifies moments by the unions that cover them: from several unions to one row of intervals, each with a class.

use crate::intervals::length;
use crate::model::interval::Interval;

/// Emits the window as intervals with the class that `class_of` returns for the set of unions (bit 0: the first)
/// that cover them. Adjacent intervals may have the same class. The unions are sorted, disjoint, and inside the window.
pub(super) fn classify<const N: usize>(
    unions: [&[Interval]; N],
    window: Interval,
    class_of: impl Fn(u8) -> u8,
    mut take: impl FnMut(i64, i64, u8),
) {
    debug_assert!(unions.iter().all(|union| length(union) <= window.duration_ns()));
    let mut next = [0usize; N];
    let mut at = window.start_ns;
    while at < window.end_ns {
        let mut covered = 0u8;
        let mut end = window.end_ns;
        for (bit, (union, next)) in unions.iter().zip(&mut next).enumerate() {
            while union.get(*next).is_some_and(|interval| interval.end_ns <= at) {
                *next += 1;
            }
            match union.get(*next) {
                Some(later) if later.start_ns > at => end = end.min(later.start_ns),
                Some(current) => {
                    covered |= 1 << bit;
                    end = end.min(current.end_ns);
                }
                None => {}
            }
        }
        take(at, end, class_of(covered));
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intervals::Intervals;
    use proptest::prelude::*;

    fn union_of(list: &[(i64, i64)]) -> Vec<Interval> {
        let mut intervals = Intervals::default();
        list.iter()
            .for_each(|&(start, length)| intervals.add(start, start + length));
        let mut out = Vec::new();
        intervals.take(0, 240, &mut out);
        out
    }

    proptest! {
        #[test]
        fn every_time_has_the_class_of_the_span_that_covers_it(
            lists in proptest::array::uniform3(proptest::collection::vec((0i64..200, 0i64..30), 0..12)),
        ) {
            let unions = lists.map(|list| union_of(&list));
            let mut all = Vec::new();
            classify([&unions[0], &unions[1], &unions[2]], Interval::new(0, 240), |set| set, |start, end, set| all.push((start, end, set)));
            let mut at = 0;
            for (start, end, set) in all {
                prop_assert_eq!(start, at);
                prop_assert!(end > start);
                for t in start..end {
                    for (bit, union) in unions.iter().enumerate() {
                        let covers = union.iter().any(|interval| interval.contains(t));
                        prop_assert_eq!(covers, set & 1 << bit != 0);
                    }
                }
                at = end;
            }
            prop_assert_eq!(at, 240);
        }
    }
}
