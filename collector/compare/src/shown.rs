//! Formatting of changes.

use super::metrics::Unit;
use rankscope_analysis::model::units;

/// Formats a value.
pub fn value(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanoseconds => units::time_f(value),
        Unit::BytesPerSecond => units::rate(value),
        Unit::Bytes => units::bytes(value.abs().round() as u64),
        Unit::Share => format!("{} %", units::digits(value * 100.0)),
        Unit::Count => units::digits(value),
    }
}

/// Formats a difference with its sign: `+3.2 ms`, `−1.5 pp`.
pub fn amount(unit: Unit, difference: f64) -> String {
    let sign = if difference < 0.0 { "−" } else { "+" };
    let size = difference.abs();
    match unit {
        Unit::Share => format!("{sign}{} pp", units::digits(size * 100.0)),
        _ => format!("{sign}{}", value(unit, size)),
    }
}

/// Formats a change with its share of the base: `+3.2 ms (+6.1 %)`.
pub fn change(unit: Unit, difference: f64, base: f64) -> String {
    let share = difference / base.abs();
    if share.is_finite() && unit != Unit::Share {
        format!("{} ({})", amount(unit, difference), percent(share))
    } else {
        amount(unit, difference)
    }
}

/// Formats a share of the base with its sign: `+6.1 %`.
pub fn percent(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    format!("{sign}{} %", units::digits(share.abs() * 100.0))
}
