//! Rank × rank: what went from one to the other, in one grid what was recorded, in another what is modelled.

use super::grid::{Axis, Cell, Grid, Reduction};
use super::scale::Unit;
use super::steps::rank_item;
use rankscope_formats::Operation;
use rankscope_formats::session::{Session, TrafficRow, TrafficSource};
use std::collections::BTreeMap;

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficValue {
    /// Bytes over the whole run.
    Bytes,
    /// Bytes over the time of the transfers in which they went.
    Bandwidth,
}

/// Over how many rows of a table how much was moved of which it is not known between whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeftOut {
    /// Operations.
    pub operations: u64,
    /// Which, by name.
    pub names: Vec<&'static str>,
}

/// The grids that have anything: recorded, modelled. `ranks`: positions, ascending.
pub fn grids(session: &Session, rows: &[TrafficRow], ranks: &[u32], value: TrafficValue) -> Vec<Grid> {
    let of = |is_wanted: fn(TrafficSource) -> bool, title: &str| {
        let cells = cells(rows.iter().filter(|row| is_wanted(row.source)), ranks, value);
        let axis = |name: &str| Axis {
            name: name.to_owned(),
            items: ranks.iter().map(|&rank| rank_item(session, rank)).collect(),
        };
        (!cells.is_empty()).then(|| Grid {
            title: title.to_owned(),
            rows: axis("from rank"),
            columns: axis("to rank"),
            cells,
            unit: match value {
                TrafficValue::Bytes => Unit::Bytes,
                TrafficValue::Bandwidth => Unit::Rate,
            },
            reduction: Reduction::Largest,
            reasons: BTreeMap::new(),
        })
    };
    let recorded = of(
        |source| {
            matches!(
                source,
                TrafficSource::Called | TrafficSource::Proxies | TrafficSource::Nested
            )
        },
        "recorded: who talks to whom was seen",
    );
    let modelled = of(
        |source| source == TrafficSource::Modelled,
        "modelled: by the algorithm's ring or tree, not seen",
    );
    recorded.into_iter().chain(modelled).collect()
}

fn cells<'a>(rows: impl Iterator<Item = &'a TrafficRow>, ranks: &[u32], value: TrafficValue) -> Vec<Cell> {
    let mut pairs: BTreeMap<(u32, u32), (u64, u64, i64)> = BTreeMap::new();
    for row in rows.filter(|row| !row.superseded) {
        let at = |rank: Option<u32>| {
            let place = ranks.binary_search(&rank?).ok()?;
            u32::try_from(place).ok()
        };
        let (Some(from), Some(to)) = (at(row.from_rank), at(row.to_rank)) else {
            continue;
        };
        let sum = pairs.entry((from, to)).or_insert((0, 0, 0));
        sum.0 = sum.0.saturating_add(row.bytes);
        sum.1 = sum.1.saturating_add(row.timed_bytes);
        sum.2 = sum.2.saturating_add(row.transfer_ns);
    }
    pairs
        .into_iter()
        .filter_map(|((row, column), (bytes, timed, ns))| {
            let value = match value {
                TrafficValue::Bytes => bytes as f64,
                TrafficValue::Bandwidth if timed > 0 && ns > 0 => timed as f64 / ns as f64 * 1e9,
                TrafficValue::Bandwidth => return None,
            };
            Some(Cell { row, column, value })
        })
        .collect()
}

/// What is in no grid because it is not known between whom it went.
pub fn left_out(rows: &[TrafficRow]) -> LeftOut {
    let mut out = LeftOut::default();
    for row in rows.iter().filter(|row| row.source == TrafficSource::LeftOut) {
        out.operations += row.operations;
        out.names.push(row.operation.name());
    }
    out.names.sort_unstable();
    out.names.dedup();
    out
}

/// True if proxies measured any of it.
pub fn has_proxies(rows: &[TrafficRow]) -> bool {
    rows.iter()
        .any(|row| row.source == TrafficSource::Proxies && row.operation == Operation::Unknown)
}
