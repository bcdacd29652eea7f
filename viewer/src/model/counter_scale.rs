//! Scales of counters: the same for all ranks, so that the heights of their rows compare.

use rankscope_formats::session::Session;
use rustc_hash::{FxHashMap, FxHashSet};

/// Scale of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterScale {
    /// Value at the bottom of a row: the smallest value of all ranks, at most 0.
    pub lowest: f64,
    /// Value at the top of a row: the largest value of all ranks, at least 0.
    pub highest: f64,
}

impl CounterScale {
    /// Scale of a counter without a finite value.
    pub const NONE: Self = Self {
        lowest: 0.0,
        highest: 0.0,
    };

    /// Returns the height of a value: 0 is the bottom of a row, 1 the top.
    pub fn share_of(&self, value: f64) -> f64 {
        // The difference of two large values may exceed a float, but not that of their halves.
        let height = self.highest / 2.0 - self.lowest / 2.0;
        if height > 0.0 {
            ((value / 2.0 - self.lowest / 2.0) / height).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }
}

/// Scales of all counters of a session.
#[derive(Debug, Default)]
pub struct CounterScales {
    by_name: FxHashMap<String, CounterScale>,
    /// Names of counters whose samples rankscope took.
    of_system: FxHashSet<String>,
}

impl CounterScales {
    /// Computes the scales from the summaries of the counters.
    pub fn of(session: &Session) -> Self {
        let mut scales: FxHashMap<String, CounterScale> = FxHashMap::default();
        for counter in &session.counters {
            let (Some(min), Some(max)) = (counter.min, counter.max) else {
                continue;
            };
            let scale = scales.entry(counter.name.clone()).or_insert(CounterScale::NONE);
            scale.lowest = scale.lowest.min(min);
            scale.highest = scale.highest.max(max);
        }
        Self {
            by_name: scales,
            of_system: session.system_counters().into_iter().map(str::to_owned).collect(),
        }
    }

    /// Returns the scale of a counter; `None` if no sample of it is a finite number.
    pub fn get(&self, name: &str) -> Option<CounterScale> {
        self.by_name.get(name).copied()
    }

    /// Returns true if rankscope took the samples of a counter, and not the program.
    pub fn is_of_system(&self, name: &str) -> bool {
        self.of_system.contains(name)
    }

    /// Returns true if a counter is of the program.
    pub fn has_of_program(&self) -> bool {
        self.by_name.keys().any(|name| !self.of_system.contains(name))
    }

    /// Returns true without counters.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_fixtures::sessions::structured;

    #[test]
    fn all_ranks_share_a_scale_that_contains_zero() {
        let mut session = structured();
        let scales = CounterScales::of(&session);
        let loss = scales.get("loss").expect("a scale");
        assert_eq!((loss.lowest, loss.highest), (0.0, 2.5));
        assert_eq!(loss.share_of(1.25), 0.5);
        assert_eq!((loss.share_of(-1.0), loss.share_of(9.0)), (0.0, 1.0));
        session.counters.retain(|counter| counter.name == "loss");
        session.counters[0].min = Some(-f64::MAX);
        session.counters[0].max = Some(-1.0);
        session.counters[1].min = Some(-2.0);
        session.counters[1].max = Some(-1.5);
        let scales = CounterScales::of(&session);
        let negative = scales.get("loss").expect("a scale");
        assert_eq!((negative.lowest, negative.highest), (-f64::MAX, 0.0));
        assert_eq!(negative.share_of(-f64::MAX / 2.0), 0.5);
        assert!(scales.get("queue_bytes").is_none());
        // A counter that is always 0 has no height.
        session.counters[0].min = Some(0.0);
        session.counters[0].max = Some(0.0);
        session.counters.truncate(1);
        let zero = CounterScales::of(&session).get("loss").expect("a scale");
        assert_eq!(zero.share_of(0.0), 0.0);
    }
}
