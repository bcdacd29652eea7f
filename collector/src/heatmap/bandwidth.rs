//! Operation × size class: the median bus bandwidth (METRICS.md, section 2).

use super::grid::{Axis, Cell, Grid, Item, Reduction};
use super::scale::Unit;
use crate::report::units;
use rankscope_formats::session::{OperationClass, Session};
use std::collections::{BTreeMap, BTreeSet};

/// What tells one row from another.
type Kind<'a> = (&'a str, &'a str, &'a str, &'a str, u32, bool);

fn kind(class: &OperationClass) -> Kind<'_> {
    (
        &class.operation,
        &class.library,
        &class.role,
        &class.scope,
        class.members,
        class.launches,
    )
}

/// The grid; no rows where no operation has a bandwidth.
pub fn grid(session: &Session) -> Grid {
    // A row in which no cell could ever have a value would say nothing.
    let has_value = |class: &&OperationClass| class.bus_bytes_per_s.value.is_some();
    let with_value: BTreeSet<Kind> = session.operations.iter().filter(has_value).map(kind).collect();
    let classes: Vec<&OperationClass> = session
        .operations
        .iter()
        .filter(|class| with_value.contains(&kind(class)) && class.size_from_bytes.is_some())
        .collect();
    let kinds: Vec<Kind> = with_value.into_iter().collect();
    let sizes: BTreeSet<u64> = classes.iter().filter_map(|class| class.size_from_bytes).collect();
    // Size classes are powers of two: those between that nobody used are columns too, so that distances are true.
    let columns: Vec<u64> = match (sizes.first(), sizes.last()) {
        (Some(&first), Some(&last)) => {
            let powers = (0..64).map(|power| 1u64 << power);
            [0].into_iter()
                .chain(powers)
                .filter(|size| (first..=last).contains(size))
                .collect()
        }
        _ => Vec::new(),
    };
    let mut cells: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    let mut reasons = BTreeMap::new();
    for (row, kind_of) in (0..).zip(&kinds) {
        for class in classes.iter().filter(|class| kind(class) == *kind_of) {
            let at = class
                .size_from_bytes
                .and_then(|size| columns.iter().position(|&of| of == size));
            let Some(column) = at.and_then(|at| u32::try_from(at).ok()) else {
                continue;
            };
            match class.bus_bytes_per_s.get() {
                Ok(quantiles) => {
                    cells.insert((row, column), quantiles.p50);
                }
                Err(reason) => {
                    reasons.insert((row, column), format!("– {reason}"));
                }
            }
        }
        for (column, _) in (0..).zip(&columns) {
            if !cells.contains_key(&(row, column)) {
                reasons
                    .entry((row, column))
                    .or_insert_with(|| "not called with this size".to_owned());
            }
        }
    }
    Grid {
        title: String::new(),
        rows: Axis {
            name: "operation".to_owned(),
            items: kinds
                .iter()
                .map(|kind| {
                    let label = label(kind, &kinds);
                    Item {
                        tick: label.clone(),
                        label,
                    }
                })
                .collect(),
        },
        columns: Axis {
            name: "size of the payload of one rank, from".to_owned(),
            items: columns
                .iter()
                .map(|&size| {
                    let label = size_label(size);
                    Item {
                        tick: label.clone(),
                        label: format!("from {label}"),
                    }
                })
                .collect(),
        },
        cells: cells
            .into_iter()
            .map(|((row, column), value)| Cell { row, column, value })
            .collect(),
        unit: Unit::Rate,
        reduction: Reduction::Largest,
        reasons,
    }
}

/// The operation, and of the rest what tells it from others of that name.
fn label(kind: &Kind, all: &[Kind]) -> String {
    let same: Vec<&Kind> = all.iter().filter(|other| other.0 == kind.0).collect();
    let mut label = kind.0.to_owned();
    let mut add = |differs: bool, text: String| {
        if differs {
            label.push_str(", ");
            label.push_str(&text);
        }
    };
    add(same.iter().any(|other| other.1 != kind.1), kind.1.to_owned());
    add(same.iter().any(|other| other.2 != kind.2), kind.2.to_owned());
    add(same.iter().any(|other| other.3 != kind.3), kind.3.to_owned());
    add(
        same.iter().any(|other| other.4 != kind.4),
        units::counted(u64::from(kind.4), "member"),
    );
    add(kind.5, "several at once".to_owned());
    label
}

/// A power of two in bytes: `512 KiB`.
fn size_label(size: u64) -> String {
    let (value, unit) = match size {
        0..1024 => (size, "B"),
        _ if size < 1 << 20 => (size >> 10, "KiB"),
        _ if size < 1 << 30 => (size >> 20, "MiB"),
        _ if size < 1 << 40 => (size >> 30, "GiB"),
        _ => (size >> 40, "TiB"),
    };
    format!("{value} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rows_are_named_shortly() {
        assert_eq!(size_label(0), "0 B");
        assert_eq!(size_label(1 << 19), "512 KiB");
        assert_eq!(size_label(1 << 34), "16 GiB");
        let kinds: [Kind; 3] = [
            ("all-reduce", "gloo", "world", "inside-host", 8, false),
            ("all-reduce", "gloo", "world", "inside-host", 4, false),
            ("send", "gloo", "world", "inside-host", 8, true),
        ];
        assert_eq!(label(&kinds[0], &kinds), "all-reduce, 8 members");
        assert_eq!(label(&kinds[2], &kinds), "send, several at once");
    }
}
