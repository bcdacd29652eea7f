//! Linear axis that need not start at zero.

use crate::figures::tick;
use crate::heatmap::ticks::ticks_between;
use crate::html::svg::{Anchor, Svg, text_width};

/// Margin beyond the outermost values, as a share of their span.
const PAD: f64 = 0.05;
const MAX_TICKS: usize = 7;

/// Axis from left to right.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    left: f64,
    width: f64,
}

impl Axis {
    /// Creates an axis over all these values with a margin. Returns nothing without values.
    pub fn over(values: impl IntoIterator<Item = f64>, left: f64, width: f64) -> Option<Self> {
        let (low, high) = values
            .into_iter()
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            return None;
        }
        let span = high - low;
        let pad = if span > 0.0 {
            span * PAD
        } else if low == 0.0 {
            1.0
        } else {
            low.abs() * PAD
        };
        Some(Self {
            low: low - pad,
            high: high + pad,
            left,
            width,
        })
    }

    /// Creates an axis from `low` to `high`, which must be above `low`.
    pub fn between(low: f64, high: f64, left: f64, width: f64) -> Self {
        Self {
            low,
            high,
            left,
            width,
        }
    }

    /// Returns the position of a value. Values beyond an end are at that end.
    pub fn x(&self, value: f64) -> f64 {
        self.left + self.width * ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Whether a value is on the axis.
    pub fn has(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Returns the left end, in pixels.
    pub fn left(&self) -> f64 {
        self.left
    }

    /// Returns the right end, in pixels.
    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Draws thin lines from `top` to `bottom` at round values, with labels below. It draws as many as fit and have
    /// distinct labels.
    pub fn grid(&self, svg: &mut Svg, top: f64, bottom: f64, label: impl Fn(f64) -> String) {
        let labelled = |most: usize| -> Vec<(f64, String)> {
            let values = ticks_between(self.low, self.high, most).into_iter();
            values.map(|value| (value, label(value))).collect()
        };
        self.grid_of(svg, top, bottom, (1..=MAX_TICKS).rev().map(labelled));
    }

    /// Draws the first of these sets of values and labels in which all labels are distinct and do not touch.
    pub fn grid_of(
        &self,
        svg: &mut Svg,
        top: f64,
        bottom: f64,
        sets: impl IntoIterator<Item = Vec<(f64, String)>>,
    ) {
        let fits = |set: &Vec<(f64, String)>| {
            set.windows(2).all(|pair| {
                let distance = self.x(pair[1].0) - self.x(pair[0].0);
                let needed = (text_width(&pair[0].1) + text_width(&pair[1].1)) / 2.0 + 6.0;
                pair[0].1 != pair[1].1 && needed <= distance
            })
        };
        for (value, label) in sets.into_iter().find(fits).unwrap_or_default() {
            let x = self.x(value);
            svg.line(x, top, x, bottom);
            svg.text(x, bottom + 14.0, Anchor::Middle, tick(label));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_values_are_on_the_axis() {
        let axis = Axis::over([3.0, 1.0, f64::NAN], 10.0, 100.0).expect("an axis");
        assert!(axis.x(1.0) > 10.0 && axis.x(3.0) < 110.0 && axis.x(99.0) == 110.0);
        let one = Axis::over([0.0], 0.0, 10.0).expect("an axis");
        assert_eq!(one.x(0.0), 5.0);
        assert!(Axis::over([], 0.0, 1.0).is_none());
    }
}
