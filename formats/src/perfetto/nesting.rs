//! Which slices are open on a track: the check that keeps the engine from bending them.
//!
//! The engine knows only begins and ends, and an end closes the innermost open slice. Slices of one
//! track must therefore be disjoint or nested, and be written outer first: then begin and end can
//! be written side by side, and the engine's stable sort by time yields the right brackets, also
//! where ends and begins coincide (a slice that starts when another ends is its sibling, because
//! that other's end stands before it in the file).

/// The deepest nesting that every engine keeps (v55 clamps at depth 511, v58 drops beyond 512).
pub(super) const DEPTH_LIMIT: usize = 511;

/// What is wrong with a slice, in terms of its track.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Misplaced {
    /// It starts before the latest slice, which started at this time.
    Early(u64),
    /// It outlasts the innermost open slice, which ends at this time.
    SticksOut(u64),
    /// The limit of depth is reached.
    TooDeep,
}

/// The slices of one track that are open at the latest start: at most [`DEPTH_LIMIT`] ends.
#[derive(Debug, Default)]
pub(super) struct OpenSlices {
    latest_start: u64,
    ends: Vec<u64>,
}

impl OpenSlices {
    /// Takes the slice `[start, end]` (ns) as the next of the track, or says why it cannot be.
    #[inline]
    pub(super) fn accept(&mut self, start: u64, end: u64) -> Result<(), Misplaced> {
        if start < self.latest_start {
            return Err(Misplaced::Early(self.latest_start));
        }
        while self.ends.last().is_some_and(|&open| open <= start) {
            self.ends.pop();
        }
        if let Some(&open) = self.ends.last() {
            if open < end {
                return Err(Misplaced::SticksOut(open));
            }
            if self.ends.len() >= DEPTH_LIMIT {
                return Err(Misplaced::TooDeep);
            }
        }
        self.latest_start = start;
        self.ends.push(end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(slices: &[(u64, u64)]) -> Result<(), Misplaced> {
        let mut open = OpenSlices::default();
        slices
            .iter()
            .try_for_each(|&(start, end)| open.accept(start, end))
    }

    #[test]
    fn disjoint_nested_and_touching_slices_are_taken() {
        assert_eq!(all(&[(10, 20), (20, 30), (30, 30), (30, 40)]), Ok(()));
        assert_eq!(all(&[(10, 40), (10, 40), (10, 20), (20, 40), (40, 41)]), Ok(()));
        assert_eq!(all(&[(10, 10), (10, 30), (10, 10), (30, 30)]), Ok(()));
    }

    #[test]
    fn what_the_engine_would_bend_is_refused() {
        assert_eq!(all(&[(10, 20), (15, 25)]), Err(Misplaced::SticksOut(20)));
        assert_eq!(all(&[(10, 20), (10, 30)]), Err(Misplaced::SticksOut(20)));
        assert_eq!(all(&[(20, 30), (10, 15)]), Err(Misplaced::Early(20)));
    }

    #[test]
    fn a_refused_slice_leaves_no_trace() {
        let mut open = OpenSlices::default();
        open.accept(10, 20).expect("first");
        assert!(open.accept(15, 25).is_err());
        assert_eq!(open.accept(12, 18), Ok(()));
    }

    #[test]
    fn depth_is_limited() {
        let mut open = OpenSlices::default();
        for _ in 0..DEPTH_LIMIT {
            assert_eq!(open.accept(1, 2), Ok(()));
        }
        assert_eq!(open.accept(1, 2), Err(Misplaced::TooDeep));
        assert_eq!(open.accept(2, 3), Ok(()));
    }
}
