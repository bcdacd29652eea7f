//! How a change is written: as a share of the base where there is one, else in the metric's unit; with its sign, and with how
//! far it may be off.

use crate::figures;
use crate::prose::{Prose, prose};
use crate::source::{less, share, times};
use rankscope_formats::comparison::{Interval, MetricResult};

/// Ends whose distances from the middle differ by less than this share of the whole are written as `± half`.
const LOPSIDED: f64 = 0.02;

/// A change of more than this many times the base is written in the metric's unit: hundreds of thousands of percent say nothing.
const MOST_TIMES: f64 = 100.0;

/// What a change is measured by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// The base: a share of this value.
    Base(f64),
    /// The metric's own unit: its base is 0, less, or next to nothing; or it is a share itself.
    Own,
}

/// By what a metric's change is measured. Shares change by percentage points: 10 % of 10 % says nothing to anybody.
pub fn scale(metric: &MetricResult) -> Scale {
    let is_far = metric.change.abs() > MOST_TIMES * metric.base;
    if metric.unit == "share" || metric.relative.is_none() || metric.base <= 0.0 || is_far {
        Scale::Own
    } else {
        Scale::Base(metric.base)
    }
}

/// A value of a metric, or a dash for what is no number.
pub fn value(value: f64, unit: &str, from: String) -> Prose {
    if value.is_finite() {
        figures::mean(value, unit, from).into()
    } else {
        "–".into()
    }
}

/// A change of a metric: `value` is in its unit.
pub fn part(value: f64, metric: &MetricResult, at: &str, field: &str) -> Prose {
    let from = format!("{at}/{field}");
    if !value.is_finite() {
        return "–".into();
    }
    match scale(metric) {
        Scale::Base(base) => figures::relative_change(value / base, share(from, format!("{at}/base"))),
        Scale::Own => figures::change(value, &metric.unit, from),
    }
    .into()
}

/// The change of the metric at `at`, and how far it may be off: `+6.1 % ± 0.8 %`.
pub fn change(metric: &MetricResult, at: &str) -> Prose {
    let change = part(metric.change, metric, at, "change");
    let Some(interval) = metric.interval else {
        return change;
    };
    if !(interval.low.is_finite() && interval.high.is_finite()) {
        return change;
    }
    if is_lopsided(interval, metric.change) {
        let low = part(interval.low, metric, at, "interval/low");
        let high = part(interval.high, metric, at, "interval/high");
        return prose![change, " (", low, " to ", high, ")"];
    }
    prose![change, " ± ", half(interval, metric, at)]
}

fn is_lopsided(interval: Interval, change: f64) -> bool {
    let (below, above) = (change - interval.low, interval.high - change);
    (below - above).abs() > LOPSIDED * (interval.high - interval.low).abs()
}

fn half(interval: Interval, metric: &MetricResult, at: &str) -> Prose {
    let half = (interval.high - interval.low) / 2.0;
    let whole = less(format!("{at}/interval/high"), format!("{at}/interval/low"));
    match scale(metric) {
        Scale::Base(base) => {
            let twice = times("2", format!("{at}/base"));
            figures::relative(half / base, share(whole, twice))
        }
        Scale::Own if metric.unit == "share" => figures::points(half, share(whole, "2")),
        Scale::Own => figures::mean(half, &metric.unit, share(whole, "2")),
    }
    .into()
}
