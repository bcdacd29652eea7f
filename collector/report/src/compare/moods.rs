//! What is good and what is bad: the colours and marks of verdicts.

use crate::words::Mood;
use rankscope_formats::comparison::{Change, Difference};

/// Of the comparison's verdict.
pub fn of_comparison(verdict: &str) -> Mood {
    match verdict {
        "fine" => Mood::Good,
        "regressed" => Mood::Bad,
        _ => Mood::Warning,
    }
}

/// Of a gate's verdict.
pub fn of_gate(verdict: &str) -> Mood {
    match verdict {
        "pass" => Mood::Good,
        "fail" => Mood::Bad,
        _ => Mood::Warning,
    }
}

/// Of a metric's verdict.
pub fn of_metric(verdict: &str) -> Mood {
    match verdict {
        "improved" => Mood::Good,
        "regressed" => Mood::Bad,
        "unchanged" => Mood::Plain,
        _ => Mood::Warning,
    }
}

/// Of something that is otherwise.
pub fn of_change(change: &Change) -> Mood {
    match change.is_worse {
        Some(true) => Mood::Bad,
        Some(false) => Mood::Good,
        None => Mood::Plain,
    }
}

/// Of a difference between runs that should be alike.
pub fn of_difference(difference: &Difference) -> Mood {
    match difference.effect.as_str() {
        "blocks" => Mood::Bad,
        "accepted" => Mood::Plain,
        _ => Mood::Warning,
    }
}

/// The mark that says a mood without colour, as the page has it.
pub fn mark(mood: Mood) -> &'static str {
    match mood {
        Mood::Good => "✓",
        Mood::Plain => "·",
        Mood::Warning => "!",
        Mood::Bad => "✗",
    }
}
