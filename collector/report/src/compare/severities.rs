//! Severity of results, as colours and marks.

use crate::sentences::Level;
use rankscope_formats::comparison::{
    Change, Difference, DifferenceEffect, GateVerdict, MetricVerdict, Verdict,
};

/// Returns the severity of the comparison's verdict.
pub fn of_comparison(verdict: Verdict) -> Level {
    match verdict {
        Verdict::Fine => Level::Good,
        Verdict::Regressed => Level::Bad,
        Verdict::Inconclusive => Level::Warning,
    }
}

/// Returns the severity of a gate's verdict.
pub fn of_gate(verdict: GateVerdict) -> Level {
    match verdict {
        GateVerdict::Pass => Level::Good,
        GateVerdict::Fail => Level::Bad,
        GateVerdict::Inconclusive => Level::Warning,
    }
}

/// Returns the severity of a metric's verdict.
pub fn of_metric(verdict: MetricVerdict) -> Level {
    match verdict {
        MetricVerdict::Improved => Level::Good,
        MetricVerdict::Regressed => Level::Bad,
        MetricVerdict::Unchanged => Level::Plain,
        MetricVerdict::Inconclusive => Level::Warning,
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
    match difference.effect {
        DifferenceEffect::Blocks => Level::Bad,
        DifferenceEffect::Accepted => Level::Plain,
        DifferenceEffect::CannotPass => Level::Warning,
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
