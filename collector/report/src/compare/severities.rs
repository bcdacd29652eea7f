//! Severity of results, as colours and marks.

use crate::sentences::Level;
use rankscope_formats::comparison::{Change, Difference};

/// Returns the severity of the comparison's verdict.
pub fn of_comparison(verdict: &str) -> Level {
    match verdict {
        "fine" => Level::Good,
        "regressed" => Level::Bad,
        _ => Level::Warning,
    }
}

/// Returns the severity of a gate's verdict.
pub fn of_gate(verdict: &str) -> Level {
    match verdict {
        "pass" => Level::Good,
        "fail" => Level::Bad,
        _ => Level::Warning,
    }
}

/// Returns the severity of a metric's verdict.
pub fn of_metric(verdict: &str) -> Level {
    match verdict {
        "improved" => Level::Good,
        "regressed" => Level::Bad,
        "unchanged" => Level::Plain,
        _ => Level::Warning,
    }
}

/// Returns the severity of a change.
pub fn of_change(change: &Change) -> Level {
    match change.is_worse {
        Some(true) => Level::Bad,
        Some(false) => Level::Good,
        None => Level::Plain,
    }
}

/// Returns the severity of a difference between runs that should be equal.
pub fn of_difference(difference: &Difference) -> Level {
    match difference.effect.as_str() {
        "blocks" => Level::Bad,
        "accepted" => Level::Plain,
        _ => Level::Warning,
    }
}

/// Returns the mark that shows a severity without colour, as on the page.
pub fn mark(level: Level) -> &'static str {
    match level {
        Level::Good => "✓",
        Level::Plain => "·",
        Level::Warning => "!",
        Level::Bad => "✗",
    }
}
