//! Severity of results, as colours and marks.

use crate::sentences::Mood;
use rankscope_formats::comparison::{
    Change, Difference, DifferenceEffect, GateVerdict, MetricVerdict, Verdict,
};

/// Returns the severity of the comparison's verdict.
pub fn of_comparison(verdict: Verdict) -> Mood {
    match verdict {
        Verdict::Fine => Mood::Good,
        Verdict::Regressed => Mood::Bad,
        Verdict::Inconclusive => Mood::Warning,
    }
}

/// Returns the severity of a gate's verdict.
pub fn of_gate(verdict: GateVerdict) -> Mood {
    match verdict {
        GateVerdict::Pass => Mood::Good,
        GateVerdict::Fail => Mood::Bad,
        GateVerdict::Inconclusive => Mood::Warning,
    }
}

/// Returns the severity of a metric's verdict.
pub fn of_metric(verdict: MetricVerdict) -> Mood {
    match verdict {
        MetricVerdict::Improved => Mood::Good,
        MetricVerdict::Regressed => Mood::Bad,
        MetricVerdict::Unchanged => Mood::Plain,
        MetricVerdict::Inconclusive => Mood::Warning,
    }
}

/// Returns the severity of a change.
pub fn of_change(change: &Change) -> Mood {
    match change.is_worse {
        Some(true) => Mood::Bad,
        Some(false) => Mood::Good,
        None => Mood::Plain,
    }
}

/// Returns the severity of a difference between runs that should be equal.
pub fn of_difference(difference: &Difference) -> Mood {
    match difference.effect {
        DifferenceEffect::Blocks => Mood::Bad,
        DifferenceEffect::Accepted => Mood::Plain,
        DifferenceEffect::CannotPass => Mood::Warning,
    }
}

/// Returns the mark that shows a severity without colour, as on the page.
pub fn mark(mood: Mood) -> &'static str {
    match mood {
        Mood::Good => "✓",
        Mood::Plain => "·",
        Mood::Warning => "!",
        Mood::Bad => "✗",
    }
}
