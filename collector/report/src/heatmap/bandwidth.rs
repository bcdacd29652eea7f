//! Operation × size class: the median bus bandwidth (METRICS.md, section 2).

use super::grid::{Axis, Cell, Grid, Item, Origin, Reduction};
use super::scale::Unit;
use crate::figures::{counted, quoted, tick};
use crate::prose::{Prose, prose};
use rankscope_formats::session::{OperationClass, Scope, Session};
use std::collections::{BTreeMap, BTreeSet};

/// Attributes that distinguish rows.
type RowKey<'a> = (&'a str, &'a str, &'a str, Scope, u32, bool);

fn kind(class: &OperationClass) -> RowKey<'_> {
    (
        &class.operation,
        &class.library,
        &class.role,
        class.scope,
        class.members,
        class.launches,
    )
}

/// Builds the grid. It has no rows if no operation has a bandwidth.
pub fn grid(session: &Session) -> Grid {
    // Rows that cannot have a value are left out.
    let has_value = |class: &&OperationClass| class.bus_bytes_per_s.value.is_some();
    let with_value: BTreeSet<RowKey> = session.operations.iter().filter(has_value).map(kind).collect();
    // Classes with their positions in the list.
    let classes: Vec<(usize, &OperationClass)> = session
        .operations
        .iter()
        .enumerate()
        .filter(|(_, class)| with_value.contains(&kind(class)) && class.size_from_bytes.is_some())
        .collect();
    let kinds: Vec<RowKey> = with_value.into_iter().collect();
    let sizes = sizes(&classes);
    let Cells {
        values,
        reasons,
        origin,
    } = Cells::of(&classes, &kinds, &sizes);
    Grid {
        title: String::new(),
        rows: Axis {
            name: "operation".to_owned(),
            items: kinds.iter().map(|kind| row_item(session, kind, &kinds)).collect(),
        },
        columns: Axis {
            name: "payload size of one rank, from".to_owned(),
            items: sizes.iter().map(|&size| column_item(size)).collect(),
        },
        cells: values
            .into_iter()
            .map(|((row, column), value)| Cell { row, column, value })
            .collect(),
        unit: Unit::Rate,
        reduction: Reduction::Largest,
        reasons,
        origin: Origin::Each(origin),
    }
}

/// Returns the columns: size classes are powers of two. Unused classes in between are columns too, so that distances
/// are proportional.
fn sizes(classes: &[(usize, &OperationClass)]) -> Vec<u64> {
    let known = classes.iter().filter_map(|(_, class)| class.size_from_bytes);
    let (Some(first), Some(last)) = (known.clone().min(), known.max()) else {
        return Vec::new();
    };
    let powers = (0..64).map(|power| 1u64 << power);
    [0].into_iter()
        .chain(powers)
        .filter(|size| (first..=last).contains(size))
        .collect()
}

/// Cells by row and column: their values with their sources, or why there is none.
#[derive(Default)]
struct Cells {
    values: BTreeMap<(u32, u32), f64>,
    origin: BTreeMap<(u32, u32), String>,
    reasons: BTreeMap<(u32, u32), Prose>,
}

impl Cells {
    fn of(classes: &[(usize, &OperationClass)], kinds: &[RowKey], sizes: &[u64]) -> Self {
        let mut cells = Self::default();
        for (row, kind_of) in (0..).zip(kinds) {
            for (place, class) in classes.iter().filter(|(_, class)| kind(class) == *kind_of) {
                let at = class
                    .size_from_bytes
                    .and_then(|size| sizes.iter().position(|&of| of == size));
                if let Some(column) = at.and_then(|at| u32::try_from(at).ok()) {
                    cells.add((row, column), *place, class);
                }
            }
            for (column, _) in (0..).zip(sizes) {
                if !cells.values.contains_key(&(row, column)) {
                    cells
                        .reasons
                        .entry((row, column))
                        .or_insert_with(|| "no call with this size".into());
                }
            }
        }
        cells
    }

    /// Adds the class at `place` of the list.
    fn add(&mut self, cell: (u32, u32), place: usize, class: &OperationClass) {
        match class.bus_bytes_per_s.get() {
            Ok(quantiles) => {
                self.values.insert(cell, quantiles.p50);
                let from = format!("/operations/{place}/bus_bytes_per_s/value/p50");
                self.origin.insert(cell, from);
            }
            Err(reason) => {
                let from = format!("/operations/{place}/bus_bytes_per_s/reason");
                self.reasons.insert(cell, prose!["– ", quoted(reason, from)]);
            }
        }
    }
}

fn row_item(session: &Session, kind: &RowKey, all: &[RowKey]) -> Item {
    let mut classes = session.operations.iter();
    let place = classes.position(|class| self::kind(class) == *kind);
    let label = label(kind, all, place.unwrap_or(0));
    Item {
        tick: label.plain(),
        label,
    }
}

fn column_item(size: u64) -> Item {
    let label = size_label(size);
    Item {
        label: prose!["from ", tick(label.as_str())],
        tick: label,
    }
}

/// Formats the operation, and the attributes that distinguish it from others of the same name. `place` is the position
/// of one of them in the list.
fn label(kind: &RowKey, all: &[RowKey], place: usize) -> Prose {
    let same: Vec<&RowKey> = all.iter().filter(|other| other.0 == kind.0).collect();
    let of = |field: &str| format!("/operations/{place}/{field}");
    let mut label = prose![quoted(kind.0, of("operation"))];
    let mut add = |differs: bool, text: Prose| {
        if differs {
            label.push(", ");
            label.push(text);
        }
    };
    add(
        same.iter().any(|other| other.1 != kind.1),
        quoted(kind.1, of("library")).into(),
    );
    add(
        same.iter().any(|other| other.2 != kind.2),
        quoted(kind.2, of("role")).into(),
    );
    add(
        same.iter().any(|other| other.3 != kind.3),
        quoted(kind.3, of("scope")).into(),
    );
    add(
        same.iter().any(|other| other.4 != kind.4),
        counted(u64::from(kind.4), "member", of("members")),
    );
    add(kind.5, "several at once".into());
    label
}

/// Formats a power of two in bytes: `512 KiB`.
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
        let kinds: [RowKey; 3] = [
            ("all-reduce", "gloo", "world", Scope::InsideHost, 8, false),
            ("all-reduce", "gloo", "world", Scope::InsideHost, 4, false),
            ("send", "gloo", "world", Scope::InsideHost, 8, true),
        ];
        assert_eq!(label(&kinds[0], &kinds, 0).plain(), "all-reduce, 8 members");
        assert_eq!(label(&kinds[2], &kinds, 2).plain(), "send, several at once");
    }
}
