//! Format of a change with its sign and uncertainty: as a share of the base if there is one, else in the metric's unit.

use crate::figures;
use crate::prose::{Prose, prose};
use crate::source::{less, share, times};
use rankscope_formats::comparison::{Interval, MetricResult};

/// Largest difference between the two half-widths, as a share of the interval, that is still written as `± half`.
const LOPSIDED: f64 = 0.02;

/// Largest change, in multiples of the base, that is written in percent. Hundreds of thousands of percent are
/// meaningless, so a larger change is in the metric's unit.
const MAX_TIMES: f64 = 100.0;

/// Scale of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Share of this base value.
    Base(f64),
    /// Unit of the metric: its base is 0, negative or tiny, or the metric is a share itself.
    Own,
}

/// Returns the scale of a metric's change. Shares change by percentage points: 10 % of 10 % is meaningless.
pub fn scale(metric: &MetricResult) -> Scale {
    let is_far = metric.change.abs() > MAX_TIMES * metric.base;
    if metric.unit == "share" || metric.relative.is_none() || metric.base <= 0.0 || is_far {
        Scale::Own
    } else {
        Scale::Base(metric.base)
    }
}

/// Formats a value of a metric, or a dash if it is not finite.
pub fn value(value: f64, unit: &str, from: String) -> Prose {
    if value.is_finite() {
        figures::mean(value, unit, from).into()
    } else {
        "–".into()
    }
}

/// Formats a change of a metric; `value` is in its unit.
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

/// Formats the change of the metric at `at` with its uncertainty: `+6.1 % ± 0.8 %`.
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
