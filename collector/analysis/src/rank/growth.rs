//! Growth of a counter over a run, in bounded memory: the smallest samples of intervals of equal length.

use rankscope_formats::session::CounterGrowth;
use serde::{Deserialize, Serialize};

/// Number of slots. When they are full, two neighbours become one.
const SLOTS: usize = 64;
/// Width of a slot at the start, in nanoseconds.
const FIRST_WIDTH_NS: i64 = 1_000_000_000;
/// Intervals of the whole time. With fewer slots there is no figure.
const INTERVALS: usize = 16;
/// Intervals at the begin that are left out: programs allocate most when they start.
const LEFT_OUT: usize = 4;

/// Smallest samples over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Minima {
    start_ns: Option<i64>,
    width_ns: i64,
    /// Smallest sample of each slot; infinite if it has none.
    slots: Vec<f64>,
}

impl Default for Minima {
    fn default() -> Self {
        Self::new()
    }
}

impl Minima {
    /// Returns a counter without samples.
    pub fn new() -> Self {
        Self {
            start_ns: None,
            width_ns: FIRST_WIDTH_NS,
            slots: Vec::new(),
        }
    }

    /// Adds a finite sample. Samples before the first one are ignored.
    pub fn add(&mut self, at_ns: i64, value: f64) {
        let start_ns = *self.start_ns.get_or_insert(at_ns);
        let since_ns = at_ns.saturating_sub(start_ns);
        if since_ns < 0 {
            return;
        }
        while since_ns / self.width_ns >= SLOTS as i64 {
            self.halve();
        }
        let slot = (since_ns / self.width_ns) as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, f64::INFINITY);
        }
        if let Some(smallest) = self.slots.get_mut(slot) {
            *smallest = smallest.min(value);
        }
    }

    fn halve(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        self.slots = self.slots.chunks(2).map(smallest).collect();
    }

    /// Returns the growth; `None` if an interval has no sample.
    pub fn growth(&self) -> Option<CounterGrowth> {
        let start_ns = self.start_ns?;
        // The last slot may have just begun.
        let slots = self.slots.get(..self.slots.len().checked_sub(1)?)?;
        let bound = |interval: usize| interval * slots.len() / INTERVALS;
        let smallest: Vec<f64> = (LEFT_OUT..INTERVALS)
            .map(|interval| {
                smallest(
                    slots
                        .get(bound(interval)..bound(interval + 1))
                        .unwrap_or_default(),
                )
            })
            .collect();
        if smallest.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let at = |slot: usize| start_ns + slot as i64 * self.width_ns;
        Some(CounterGrowth {
            from_ns: at(bound(LEFT_OUT)),
            to_ns: at(slots.len()),
            first: *smallest.first()?,
            two_thirds: *smallest.get(smallest.len() * 2 / 3)?,
            last: *smallest.last()?,
            fallen: smallest.windows(2).map(|pair| (pair[0] - pair[1]).max(0.0)).sum(),
            rises: smallest.windows(2).filter(|pair| pair[1] > pair[0]).count() as u32,
            intervals: smallest.len() as u32,
        })
    }
}

fn smallest(slots: &[f64]) -> f64 {
    slots.iter().copied().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    fn of(samples: impl IntoIterator<Item = f64>) -> Option<CounterGrowth> {
        let mut minima = Minima::new();
        for (second, value) in (0..).zip(samples) {
            minima.add(5 * SECOND_NS + second * SECOND_NS, value);
        }
        minima.growth()
    }

    #[test]
    fn the_growth_of_a_long_run_is_that_of_its_samples() {
        for seconds in [17, 40, 64, 65, 1_000, 100_000] {
            let growth = of((0..seconds).map(f64::from)).expect("enough samples");
            assert_eq!((growth.rises, growth.intervals), (11, 12), "{seconds}");
            // One per second. The smallest sample of an interval is that of its begin.
            let per_hour = growth.per_hour();
            assert!((per_hour / 3_600.0 - 1.0).abs() < 0.1, "{seconds}: {per_hour}");
            assert_eq!(growth.first, (growth.from_ns / SECOND_NS - 5) as f64);
            let whole = (growth.to_ns / SECOND_NS - 5) as f64;
            assert!((0.75..=1.0).contains(&(whole / f64::from(seconds))), "{whole}");
        }
    }

    #[test]
    fn a_level_that_is_reached_does_not_rise() {
        let growth = of((0..320).map(|second| f64::from(second.min(100)))).expect("enough samples");
        assert!(growth.rises <= 2, "{growth:?}");
        assert_eq!(growth.two_thirds, growth.last);
        let saw = of((0..320).map(|second| f64::from(second % 7))).expect("enough samples");
        assert_eq!((saw.rises, saw.first, saw.last), (0, 0.0, 0.0));
    }

    #[test]
    fn too_few_samples_have_no_growth() {
        assert_eq!(of((0..13).map(f64::from)), None);
        assert_eq!(of([]), None);
        let mut minima = Minima::new();
        minima.add(0, 1.0);
        minima.add(i64::MAX, 2.0);
        minima.add(-1, 2.0);
        assert_eq!(minima.growth(), None, "samples are missing in between");
    }
}
