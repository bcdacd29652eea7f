//! The offsets and drifts that are still possible: a convex set of (offset, drift) at one time. Evidence cuts the set,
//! time shears it, and wander widens it.

/// Largest offset that is considered, in nanoseconds: eleven days. An offset that reaches it is unbounded.
pub const FARTHEST: f64 = 1e15;

/// Maximum number of corners; on overflow the region is widened to its bounding box.
const MAX_CORNERS: usize = 256;

/// A convex set of (offset in ns, drift in ns per second). Corners are in anticlockwise order.
#[derive(Clone, Debug)]
pub struct Region {
    corners: Vec<[f64; 2]>,
}

impl Region {
    /// Returns the region of all offsets with at most this drift.
    pub fn anything(drift: f64) -> Self {
        Self {
            corners: vec![
                [-FARTHEST, -drift],
                [FARTHEST, -drift],
                [FARTHEST, drift],
                [-FARTHEST, drift],
            ],
        }
    }

    /// Intersects the region with the half plane `a · offset + b · drift ≤ c`. Returns false and changes nothing if the
    /// result would be empty.
    #[must_use]
    pub fn cut(&mut self, a: f64, b: f64, c: f64) -> bool {
        let over = |corner: [f64; 2]| a * corner[0] + b * corner[1] - c;
        if self.corners.iter().all(|&corner| over(corner) <= 0.0) {
            return true;
        }
        let mut kept = Vec::with_capacity(self.corners.len() + 1);
        for (at, &corner) in self.corners.iter().enumerate() {
            let next = self.corners[(at + 1) % self.corners.len()];
            let (here, there) = (over(corner), over(next));
            if here <= 0.0 {
                kept.push(corner);
            }
            if (here < 0.0 && there > 0.0) || (here > 0.0 && there < 0.0) {
                let share = here / (here - there);
                kept.push([
                    corner[0] + share * (next[0] - corner[0]),
                    corner[1] + share * (next[1] - corner[1]),
                ]);
            }
        }
        if kept.is_empty() {
            return false;
        }
        self.corners = kept;
        true
    }

    /// Intersects the region with another one. Returns false if the result would be empty; cuts made before then
    /// remain.
    #[must_use]
    pub fn intersect(&mut self, other: &Self) -> bool {
        let count = other.corners.len();
        (0..count).all(|at| {
            let (one, next) = (other.corners[at], other.corners[(at + 1) % count]);
            let (x, y) = (next[0] - one[0], next[1] - one[1]);
            // The inside is on the left of an edge. Very short edges have no direction.
            (x.abs() < 1e-9 && y.abs() < 1e-9) || {
                let scale = x.abs().max(y.abs());
                let (a, b) = (y / scale, -x / scale);
                let slack = 1e-6 * (1.0 + one[0].abs() * 1e-9);
                self.cut(a, b, a * one[0] + b * one[1] + slack)
            }
        })
    }

    /// Returns the region after `seconds`. The drift may change by at most `wander` at that time.
    #[must_use]
    pub fn after(&self, seconds: f64, wander: f64) -> Self {
        let moved = self.corners.iter().flat_map(|corner| {
            let offset = (corner[0] + corner[1] * seconds).clamp(-2.0 * FARTHEST, 2.0 * FARTHEST);
            [[offset, corner[1] - wander], [offset, corner[1] + wander]]
        });
        Self {
            corners: hull(moved.collect()),
        }
    }

    /// Returns the region `seconds` earlier. The drift may differ by at most `wander` until now.
    #[must_use]
    pub fn before(&self, seconds: f64, wander: f64) -> Self {
        let moved = self.corners.iter().flat_map(|corner| {
            [corner[1] - wander, corner[1] + wander].map(|drift| {
                let offset = (corner[0] - drift * seconds).clamp(-2.0 * FARTHEST, 2.0 * FARTHEST);
                [offset, drift]
            })
        });
        Self {
            corners: hull(moved.collect()),
        }
    }

    /// Limits the drift to ±`drift`.
    pub fn limit_drift(&mut self, drift: f64) {
        // A region always contains such a drift: it was widened from one that did. So neither cut can fail.
        let _ = self.cut(0.0, 1.0, drift) && self.cut(0.0, -1.0, drift);
    }

    /// Returns the smallest and the largest drift.
    pub fn drifts(&self) -> (f64, f64) {
        self.corners
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), corner| {
                (low.min(corner[1]), high.max(corner[1]))
            })
    }

    /// Returns the smallest and the largest offset after `seconds` at constant drift.
    pub fn range(&self, seconds: f64) -> (f64, f64) {
        self.corners
            .iter()
            .map(|corner| corner[0] + corner[1] * seconds)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), offset| {
                (low.min(offset), high.max(offset))
            })
    }
}

/// Computes the convex hull in anticlockwise order (Andrew's monotone chain).
fn hull(mut points: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    points.sort_by(|one, other| one[0].total_cmp(&other[0]).then(one[1].total_cmp(&other[1])));
    points.dedup();
    if points.len() < 3 {
        return points;
    }
    let turn =
        |o: [f64; 2], a: [f64; 2], b: [f64; 2]| (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
    let half = |points: &mut dyn Iterator<Item = [f64; 2]>| {
        let mut chain: Vec<[f64; 2]> = Vec::new();
        for point in points {
            while let [.., before, last] = chain[..]
                && turn(before, last, point) <= 0.0
            {
                chain.pop();
            }
            chain.push(point);
        }
        chain.pop();
        chain
    };
    let mut lower = half(&mut points.iter().copied());
    let upper = half(&mut points.iter().rev().copied());
    lower.extend(upper);
    if lower.len() > MAX_CORNERS {
        // A bounding box is never smaller than the region.
        let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        for corner in &lower {
            for axis in 0..2 {
                low[axis] = low[axis].min(corner[axis]);
                high[axis] = high[axis].max(corner[axis]);
            }
        }
        lower = vec![low, [high[0], low[1]], high, [low[0], high[1]]];
    }
    lower
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_keep_the_points_that_satisfy_them() {
        let mut region = Region::anything(10.0);
        assert!(region.cut(1.0, 0.0, 5.0) && region.cut(-1.0, 0.0, 5.0));
        // At eleven days the resolution of f64 is an eighth of a nanosecond.
        let (low, high) = region.range(0.0);
        assert!(
            (low + 5.0).abs() < 0.2 && (high - 5.0).abs() < 0.2,
            "{low} {high}"
        );
        // Two seconds later the offset is at least 10: from 5 this needs a drift of at least 2.5 ns/s.
        assert!(region.cut(-1.0, -2.0, -10.0));
        let (low, high) = region.range(2.0);
        assert!(
            (low - 10.0).abs() < 0.2 && (high - 25.0).abs() < 0.5,
            "{low} {high}"
        );
        let before = region.clone();
        assert!(!region.cut(1.0, 0.0, -11.0));
        assert_eq!(region.range(0.0), before.range(0.0));
    }

    #[test]
    fn elapsed_time_shears_a_region_and_wander_widens_it() {
        let mut region = Region::anything(1.0);
        assert!(region.cut(1.0, 0.0, 0.0) && region.cut(-1.0, 0.0, 0.0));
        let later = region.after(3.0, 0.5);
        let (low, high) = later.range(0.0);
        assert!((low + 3.0).abs() < 1e-9 && (high - 3.0).abs() < 1e-9);
        let (low, high) = later.range(1.0);
        assert!((low + 4.5).abs() < 1e-9 && (high - 4.5).abs() < 1e-9);
        // Forward and back: everything that was possible still is.
        let mut back = later.before(3.0, 0.5);
        assert!(back.intersect(&region));
        assert!(back.range(0.0).0 <= 1e-3 && back.range(0.0).1 >= -1e-3);
    }
}
