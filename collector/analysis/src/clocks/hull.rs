//! Keeps only the bounds that matter.
//!
//! A line is below all upper bounds of a window exactly if it is below the corners of their lower convex hull. The
//! source is Duda, Harrus, Haddad, Bernard 1987. So a window keeps the corners, forgets the rest, and loses nothing.

use super::MAX_DRIFT_PPM;

/// Maximum number of corners per window and side. On overflow the corner whose removal costs least is removed.
pub const MAX_CORNERS: usize = 24;

/// An upper bound: the offset is at most `value_ns` at `at_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Time on the first clock of the pair, in nanoseconds.
    pub at_ns: i64,
    /// Bound of second clock minus first clock, in nanoseconds.
    pub value_ns: i64,
}

/// Upper bounds of a window. Lower bounds are stored with the opposite sign.
#[derive(Clone, Debug, Default)]
pub struct Hull {
    corners: Vec<Bound>,
}

impl Hull {
    /// Returns the corners in order of time.
    pub fn corners(&self) -> &[Bound] {
        &self.corners
    }

    /// Adds bounds in any order.
    pub fn extend(&mut self, bounds: impl IntoIterator<Item = Bound>) {
        let before = self.corners.len();
        self.corners.extend(bounds);
        if self.corners.len() > before {
            self.tidy();
        }
    }

    /// Removes a corner. The bounds that it hid are forgotten, which only loosens the hull.
    pub fn remove(&mut self, corner: usize) -> Bound {
        self.corners.remove(corner)
    }

    fn tidy(&mut self) {
        self.corners
            .sort_unstable_by_key(|corner| (corner.at_ns, corner.value_ns));
        self.corners.dedup_by_key(|corner| corner.at_ns);
        let mut hull: Vec<Bound> = Vec::with_capacity(self.corners.len().min(4 * MAX_CORNERS));
        for &corner in &self.corners {
            while let [.., before, last] = hull[..]
                && excess(before, last, corner) >= 0
            {
                hull.pop();
            }
            hull.push(corner);
        }
        // No clock drifts faster than the limit. A corner that only steeper lines touch adds nothing to its neighbour.
        let is_steep = |one: Bound, other: Bound, sign: i128| {
            let rise = i128::from(other.value_ns) - i128::from(one.value_ns);
            let run = i128::from(other.at_ns) - i128::from(one.at_ns);
            sign * rise * 1_000_000 > run * i128::from(MAX_DRIFT_PPM)
        };
        let first = hull
            .windows(2)
            .take_while(|pair| is_steep(pair[0], pair[1], -1))
            .count();
        hull.drain(..first);
        while let [.., before, last] = hull[..]
            && is_steep(before, last, 1)
        {
            hull.pop();
        }
        while hull.len() > MAX_CORNERS {
            let least = (1..hull.len() - 1)
                .min_by_key(|&at| -excess(hull[at - 1], hull[at], hull[at + 1]))
                .unwrap_or(0);
            hull.remove(least);
        }
        self.corners = hull;
    }
}

/// Returns twice the signed area of the triangle of the three points. It is negative if `middle` is a corner of the
/// lower hull, below the line from `one` to `other`.
fn excess(one: Bound, middle: Bound, other: Bound) -> i128 {
    let x = |bound: Bound| i128::from(bound.at_ns) - i128::from(one.at_ns);
    let y = |bound: Bound| i128::from(bound.value_ns) - i128::from(one.value_ns);
    y(middle) * x(other) - y(other) * x(middle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// For every possible slope, the highest line allowed by the corners equals the one allowed by all bounds, in
        /// any order of arrival.
        #[test]
        fn the_corners_imply_all_bounds(bounds in proptest::collection::vec((0i64..1_000_000_000, -200_000i64..200_000), 1..200), cut in 0usize..200, ppm in -200i64..=200) {
            let bounds: Vec<Bound> = bounds.iter().map(|&(at_ns, value_ns)| Bound { at_ns, value_ns }).collect();
            let (one, other) = bounds.split_at(cut.min(bounds.len()));
            let mut hull = Hull::default();
            hull.extend(other.iter().copied());
            hull.extend(one.iter().copied());
            // Height at 0 of the highest line of this slope, in millionths of a nanosecond.
            let highest = |of: &[Bound]| of.iter().map(|bound| bound.value_ns * 1_000_000 - bound.at_ns * ppm).min();
            prop_assert!(hull.corners().len() < MAX_CORNERS, "random bounds have few corners");
            prop_assert_eq!(highest(hull.corners()), highest(&bounds));
        }
    }

    #[test]
    fn a_full_hull_drops_the_corners_that_cost_least() {
        let mut hull = Hull::default();
        // A parabola: every point is a corner, and all slopes are below the limit.
        hull.extend((-50i64..=50).map(|n| Bound {
            at_ns: n * 1_000_000_000,
            value_ns: n * n * 1000,
        }));
        assert_eq!(hull.corners().len(), MAX_CORNERS);
        // Every second or third corner remains. The largest loss is a few thousandths of the drift per step.
        let at_zero = hull.corners().iter().map(|corner| corner.value_ns).min();
        assert!(at_zero.is_some_and(|value| value <= 4000), "{at_zero:?}");
    }

    #[test]
    fn damaged_timestamps_do_not_overflow() {
        let mut hull = Hull::default();
        hull.extend(
            [i64::MIN, i64::MIN / 2, 0, i64::MAX / 2, i64::MAX].map(|at_ns| Bound {
                at_ns,
                value_ns: -at_ns.saturating_abs(),
            }),
        );
        assert!(!hull.corners().is_empty());
    }
}
