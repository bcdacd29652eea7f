//! Classes of operations.

use crate::figures::time;
use crate::prose::{Prose, prose};
use rankscope_analysis::model::{labels, units};
use rankscope_formats::session::OperationClass;

/// Formats the waiting in the instances of a row, or a dash if none of them has times.
pub fn class_wait(class: &OperationClass, wait_rank_ns: i64, from: impl Into<String>) -> Prose {
    if class.instances == 0 && class.members > 1 {
        return "–".into();
    }
    let bound = if class.wait_is_upper_bound { "≤ " } else { "" };
    prose![bound, time(wait_rank_ns, from)]
}

/// Returns the operation of a row. Groups of one operation that run as one launch have a separate row.
pub fn operation(class: &OperationClass) -> String {
    if class.launches {
        format!("{} in groups", class.operation)
    } else {
        class.operation.clone()
    }
}

/// Returns what the program requested instead of the operation of a row: `requested as reduce-scatter: 40`.
pub fn requested(class: &OperationClass) -> Option<String> {
    let parts = class.requested.iter();
    let parts: Vec<String> = parts
        .map(|requested| format!("{}: {}", requested.operation, units::count(requested.calls)))
        .collect();
    (!parts.is_empty()).then(|| format!("requested as {}", parts.join(", ")))
}

/// Returns the size class of a row: `64–128 KiB`.
pub fn size_class(class: &OperationClass) -> Option<String> {
    Some(labels::sizes(class.size_from_bytes?, class.size_below_bytes?))
}

/// Returns the class of most launches of a row.
pub fn bound_by(class: &OperationClass) -> Option<&'static str> {
    let classes = &class.classes;
    let counts = [
        (classes.transfer_bound, "transfer"),
        (classes.skew_bound, "waiting"),
        (classes.mixed, "both"),
        (classes.inconclusive, "inconclusive"),
    ];
    let (count, name) = counts.into_iter().max_by_key(|&(count, _)| count)?;
    (count > 0).then_some(name)
}
