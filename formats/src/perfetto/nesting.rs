//! Open slices of a track, for the check that prevents the engine from changing slices.
//!
//! The engine knows only starts and ends, and an end closes the innermost open slice. Slices of one track must
//! therefore be disjoint or nested, and be written outer first. Start and end can then be written next to each other,
//! and the engine's stable sort by time gives the correct nesting.
//!
//! This also holds if ends and starts coincide. A slice that starts when another one ends is its sibling, because that
//! end is earlier in the file.

/// Maximum nesting depth that every engine supports (v55 clamps at depth 511, v58 drops beyond 512).
pub(super) const DEPTH_LIMIT: usize = 511;

/// Reason why a slice does not fit on its track.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Misplaced {
    /// It starts before the latest slice, whose start is this time.
    Early(u64),
    /// It ends after the innermost open slice, whose end is this time.
    SticksOut(u64),
    /// The maximum depth is reached.
    TooDeep,
}

/// Slices of one track that are open at the latest start: at most [`DEPTH_LIMIT`] ends.
#[derive(Debug, Default)]
pub(super) struct OpenSlices {
    latest_start: u64,
    ends: Vec<u64>,
}

impl OpenSlices {
    /// Accepts the slice `[start, end]` (in nanoseconds) as the next one of the track, or returns why it does not fit.
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
    fn slices_that_the_engine_would_change_are_refused() {
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
