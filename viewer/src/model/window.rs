//! The visible time range and its mapping to the screen.

/// A time range from (inclusive) to (exclusive), in nanoseconds on the session's axis. Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Window {
    /// Start.
    pub from_ns: i64,
    /// End, exclusive.
    pub to_ns: i64,
}

/// Minimum length of a window, in nanoseconds. The clocks have no finer resolution.
const SHORTEST_NS: i64 = 20;

impl Window {
    /// Creates the window between two times in any order. A shorter one is extended to the minimum length.
    pub fn between(one_ns: i64, other_ns: i64) -> Self {
        let (from_ns, to_ns) = (one_ns.min(other_ns), one_ns.max(other_ns));
        if to_ns.saturating_sub(from_ns) >= SHORTEST_NS {
            return Self { from_ns, to_ns };
        }
        let middle = from_ns + (to_ns - from_ns) / 2;
        let from_ns = middle.saturating_sub(SHORTEST_NS / 2).min(i64::MAX - SHORTEST_NS);
        Self {
            from_ns,
            to_ns: from_ns + SHORTEST_NS,
        }
    }

    /// Returns the length, in nanoseconds.
    pub fn length_ns(&self) -> i64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// Returns the place of a time: 0 is the left edge, 1 the right edge.
    ///
    /// The difference is computed in integer nanoseconds. In a run of days, neither an `f32` nor a screen position can
    /// distinguish single nanoseconds.
    pub fn share_of(&self, ns: i64) -> f64 {
        ns.saturating_sub(self.from_ns) as f64 / self.length_ns() as f64
    }

    /// Returns the time at a place: 0 is the left edge, 1 the right edge.
    pub fn at(&self, share: f64) -> i64 {
        self.from_ns
            .saturating_add((share * self.length_ns() as f64).round() as i64)
    }

    /// Returns the window moved by a share of its length.
    #[must_use]
    pub fn moved(&self, share: f64) -> Self {
        let by = (share * self.length_ns() as f64).round() as i64;
        Self {
            from_ns: self.from_ns.saturating_add(by),
            to_ns: self.to_ns.saturating_add(by),
        }
    }

    /// Returns the window moved by a time.
    #[must_use]
    pub fn shifted(&self, by_ns: i64) -> Self {
        Self {
            from_ns: self.from_ns + by_ns,
            to_ns: self.to_ns + by_ns,
        }
    }

    /// Returns the window scaled by `factor`; above 1 it becomes longer. The time at `share` stays at its place.
    #[must_use]
    pub fn zoomed(&self, factor: f64, share: f64) -> Self {
        let fixed = self.at(share);
        let length = (self.length_ns() as f64 * factor).clamp(SHORTEST_NS as f64, 9e18);
        let from_ns = fixed.saturating_sub((length * share).round() as i64);
        Self::between(from_ns, from_ns.saturating_add(length as i64))
    }

    /// Returns the nearest window of this length inside `limits`. The length is at most that of `limits`.
    #[must_use]
    pub fn kept_in(&self, limits: Self) -> Self {
        let length = self.length_ns().min(limits.length_ns());
        let from_ns = self.from_ns.clamp(limits.from_ns, limits.to_ns - length);
        Self {
            from_ns,
            to_ns: from_ns + length,
        }
    }

    /// Returns the window with a margin on both sides, as a share of its length.
    #[must_use]
    pub fn with_margin(&self, share: f64) -> Self {
        self.zoomed(1.0 + 2.0 * share, 0.5)
    }

    /// Returns true if the window and the range overlap.
    pub fn touches(&self, from_ns: i64, to_ns: i64) -> bool {
        from_ns < self.to_ns && to_ns >= self.from_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn zooming_keeps_the_time_under_the_mouse(from in -1_000_000_000_000i64..1_000_000_000_000_000, length in 20i64..100_000_000_000_000, share in 0.0f64..1.0, factor in 0.1f64..10.0) {
            let window = Window::between(from, from + length);
            let fixed = window.at(share);
            let zoomed = window.zoomed(factor, share);
            prop_assert!(zoomed.length_ns() >= SHORTEST_NS);
            let off = (zoomed.share_of(fixed) - share).abs() * 2000.0;
            prop_assert!(off < 60.0 || zoomed.length_ns() > 1000, "moved by {} of 2000 pixels", off);
            prop_assert!(zoomed.length_ns() <= 2000 || off < 1.0);
        }

        #[test]
        fn a_window_is_kept_inside(from in -1000i64..1000, length in 20i64..3000) {
            let limits = Window::between(-500, 700);
            let kept = Window::between(from, from + length).kept_in(limits);
            prop_assert!(kept.from_ns >= limits.from_ns && kept.to_ns <= limits.to_ns);
            prop_assert_eq!(kept.length_ns(), length.min(1200));
        }
    }

    #[test]
    fn nanoseconds_are_distinguished_after_days() {
        let day = 86_400_000_000_000;
        let window = Window::between(30 * day, 30 * day + 100);
        assert_eq!(window.share_of(30 * day + 25), 0.25);
        assert_eq!(window.at(0.25), 30 * day + 25);
        assert_eq!(window.moved(0.5), Window::between(30 * day + 50, 30 * day + 150));
    }
}
