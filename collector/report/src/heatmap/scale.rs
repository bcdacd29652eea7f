//! Conversion between values and colour numbers.

use super::cividis::COLOURS;
use super::ticks::ticks;
use crate::figures;
use crate::figures::Shown;
use rankscope_analysis::model::units;
use serde::Serialize;

/// Highest colour number.
const LAST: f64 = (COLOURS - 1) as f64;
/// Factor over the 99th percentile from which a value would leave all others dark.
const OUTLIER: f64 = 4.0;
/// Minimum number of values for a meaningful percentile.
const MIN_FOR_OUTLIERS: usize = 100;
/// Maximum number of decades.
const DECADES: f64 = 9.0;

/// Unit of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Time,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Bytes per second.
    #[serde(rename = "bytes/s")]
    Rate,
}

impl Unit {
    /// Formats a value with its unit.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::Time => units::time_f(value),
            Self::Bytes => units::bytes(value.max(0.0).round() as u64),
            Self::Rate => units::rate(value),
        }
    }
}

impl Unit {
    /// Like [`Self::shown`], with its source. A value without a source is a tick of the scale.
    pub(crate) fn figure(self, value: f64, from: String) -> Shown {
        if from.is_empty() {
            return figures::tick(self.shown(value));
        }
        match self {
            Self::Time => figures::time_f(value, from),
            Self::Bytes => figures::bytes(value.max(0.0).round() as u64, from),
            Self::Rate => figures::rate(value, from),
        }
    }
}

/// Spread of the colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Equal steps.
    Linear,
    /// Equal factors; the first colour is 0 and less.
    Log,
}

/// Mapping of values to colours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scale {
    /// Unit of the values.
    pub unit: Unit,
    /// Spread of the colours.
    pub spread: Spread,
    /// Value of the first colour; on a logarithmic scale, of the second.
    pub bottom: f64,
    /// Value of the last colour, also used for all values above it.
    pub top: f64,
    /// Largest value.
    pub largest: f64,
    /// Number of cells with a value above `top`.
    pub above: u64,
    /// Number of cells with a value of 0 or less.
    pub zeros: u64,
}

impl Scale {
    /// Creates a scale for these values. `spread`: `None` chooses the logarithm if `prefers_log` is set and positive
    /// values differ by more than a factor of 100. `clips`: if a few values are far above all others, the top is the
    /// 99th percentile. Otherwise the top is always the largest value: among a thousand ranks, the important one is
    /// less than one in a hundred.
    pub fn of(
        values: impl Iterator<Item = f64>,
        unit: Unit,
        spread: Option<Spread>,
        prefers_log: bool,
        clips: bool,
    ) -> Self {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let largest = values.last().copied().unwrap_or(0.0);
        let least = values.first().copied().unwrap_or(0.0);
        let positive = &values[values.partition_point(|value| *value <= 0.0)..];
        let smallest = positive.first().copied();
        let spread = match (spread, smallest) {
            (Some(Spread::Log) | None, None) => Spread::Linear,
            (Some(spread), _) => spread,
            (None, Some(smallest)) if prefers_log && largest > 100.0 * smallest => Spread::Log,
            (None, Some(_)) => Spread::Linear,
        };
        let percentile = positive
            .get((positive.len() * 99 / 100).min(positive.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0.0);
        let is_far = largest > OUTLIER * percentile && positive.len() >= MIN_FOR_OUTLIERS;
        let mut top = if is_far && clips && spread == Spread::Linear {
            percentile
        } else {
            largest
        };
        let mut bottom = match spread {
            Spread::Linear => least.min(0.0),
            Spread::Log => smallest.unwrap_or(1.0).max(top / 10f64.powf(DECADES)),
        };
        if top <= bottom {
            // All values are equal: give them a colour, and the scale some length.
            match spread {
                Spread::Linear => top = bottom + 1.0,
                Spread::Log => bottom = top / 10.0,
            }
        }
        Self {
            unit,
            spread,
            bottom,
            top,
            largest,
            zeros: (values.len() - positive.len()) as u64,
            above: values.iter().filter(|value| **value > top).count() as u64,
        }
    }

    /// Returns the colour number of a value.
    pub fn number(&self, value: f64) -> u8 {
        let share = match self.spread {
            Spread::Linear => (value - self.bottom) / (self.top - self.bottom) * LAST,
            Spread::Log if value <= 0.0 => 0.0,
            Spread::Log => {
                let share = (value / self.bottom).ln() / (self.top / self.bottom).ln();
                1.0 + share.clamp(0.0, 1.0) * (LAST - 1.0)
            }
        };
        share.round().clamp(0.0, LAST) as u8
    }

    /// Returns the value in the middle of a colour.
    pub fn value(&self, number: u8) -> f64 {
        let number = f64::from(number);
        match self.spread {
            Spread::Linear => self.bottom + (self.top - self.bottom) * number / LAST,
            Spread::Log if number < 1.0 => 0.0,
            Spread::Log => self.bottom * (self.top / self.bottom).powf((number - 1.0) / (LAST - 1.0)),
        }
    }

    /// Returns round values with their positions on the scale, 0 to 1, ascending.
    pub fn ticks(&self) -> Vec<(f64, f64)> {
        let mut out = Vec::new();
        match self.spread {
            Spread::Linear => {
                let step = ticks(self.top - self.bottom, 4).get(1).copied().unwrap_or(1.0);
                let first = (self.bottom / step).ceil() as i64;
                let last = (self.top / step + 1e-9).floor() as i64;
                out.extend((first..=last).map(|at| at as f64 * step));
            }
            Spread::Log => {
                let first = self.bottom.log10().floor() as i32;
                let last = self.top.log10().ceil() as i32;
                let decades = |factors: &'static [f64]| {
                    (first..=last)
                        .flat_map(move |power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
                };
                let factors: &'static [f64] = if last - first > 3 { &[1.0] } else { &[1.0, 3.0] };
                out.extend(
                    decades(factors)
                        .filter(|value| *value >= self.bottom * 0.999 && *value <= self.top * 1.001),
                );
            }
        }
        out.into_iter()
            .map(|value| {
                let share = match self.spread {
                    Spread::Linear => (value - self.bottom) / (self.top - self.bottom),
                    Spread::Log => (value / self.bottom).ln() / (self.top / self.bottom).ln(),
                };
                (value, share.clamp(0.0, 1.0))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_few_far_values_are_cut_off_and_counted_on_request() {
        let values = || (1..=200).map(f64::from).chain([10_000.0, 20_000.0]);
        let scale = Scale::of(values(), Unit::Time, None, false, true);
        assert_eq!((scale.top, scale.above, scale.largest), (200.0, 2, 20_000.0));
        assert_eq!(scale.number(20_000.0), 254);
        let whole = Scale::of(values(), Unit::Time, None, false, false);
        assert_eq!((whole.top, whole.above), (20_000.0, 0));
    }

    #[test]
    fn zeros_and_no_values_have_a_scale() {
        let zero = Scale::of(
            [0.0, 0.0].into_iter(),
            Unit::Bytes,
            Some(Spread::Log),
            true,
            false,
        );
        assert_eq!((zero.spread, zero.number(0.0)), (Spread::Linear, 0));
        let none = Scale::of(std::iter::empty(), Unit::Bytes, None, true, false);
        assert_eq!(none.number(0.0), 0);
        let one = Scale::of([5.0].into_iter(), Unit::Bytes, Some(Spread::Log), true, false);
        assert_eq!(one.number(5.0), 254);
    }

    proptest! {
        #[test]
        fn a_colour_gives_its_value_within_one_step(
            values in proptest::collection::vec(-1_000_000i64..1_000_000_000, 1..300),
            is_log in any::<bool>(),
        ) {
            let spread = if is_log { Spread::Log } else { Spread::Linear };
            let values: Vec<f64> = values.iter().map(|&value| value as f64).collect();
            let scale = Scale::of(values.iter().copied(), Unit::Time, Some(spread), false, false);
            for &value in &values {
                let number = scale.number(value);
                prop_assert_eq!(scale.number(scale.value(number)), number);
                let (low, high) = (
                    scale.value(number.saturating_sub(1)),
                    scale.value(number.saturating_add(1).min(254)),
                );
                let is_clipped = value <= 0.0 && scale.spread == Spread::Log;
                let little = value.abs() * 1e-9 + 1e-6;
                prop_assert!(is_clipped || (low <= value + little && value <= high + little), "{low} {value} {high}");
            }
        }
    }
}
