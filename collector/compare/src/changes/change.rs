//! Entries of the list of changes.

use rankscope_formats::comparison::Change;
use rankscope_formats::session::Figure;

/// Creates a change without a time.
pub fn untimed(kind: &str, text: String, is_worse: Option<bool>) -> Change {
    Change {
        kind: kind.to_owned(),
        text,
        step_ns: Figure::unknown("this change has no separate time"),
        is_worse,
    }
}

/// Creates a change with a time.
pub fn timed(kind: &str, text: String, ns: f64) -> Change {
    Change {
        kind: kind.to_owned(),
        text,
        step_ns: Figure::known(ns),
        is_worse: Some(ns > 0.0),
    }
}
