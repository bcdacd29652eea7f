//! Severity of results, as colours and marks.

use crate::sentences::Mood;
use rankscope_formats::comparison::{Change, Difference};

/// Returns the severity of the comparison's verdict.
pub fn of_comparison(verdict: &str) -> Mood {
    match verdict {
        "fine" => Mood::Good,
        "regressed" => Mood::Bad,
        _ => Mood::Warning,
    }
}

/// Returns the severity of a gate's verdict.
pub fn of_gate(verdict: &str) -> Mood {
    match verdict {
        "pass" => Mood::Good,
        "fail" => Mood::Bad,
        _ => Mood::Warning,
    }
}

/// Returns the severity of a metric's verdict.
pub fn of_metric(verdict: &str) -> Mood {
    match verdict {
        "improved" => Mood::Good,
        "regressed" => Mood::Bad,
        "unchanged" => Mood::Plain,
        _ => Mood::Warning,
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
    match difference.effect.as_str() {
        "blocks" => Mood::Bad,
        "accepted" => Mood::Plain,
        _ => Mood::Warning,
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
