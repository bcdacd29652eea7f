//! Rank × rank: what went from one to the other, in one grid what was recorded, in another what is modelled.

use super::grid::{Axis, Cell, Grid, Origin, Reduction};
use super::scale::Unit;
use super::steps::rank_item;
use rankscope_formats::session::{LeftOut, Pair, Session, TrafficRow, TrafficSource};
use rankscope_ranklog::Operation;
use std::collections::BTreeMap;

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficValue {
    /// Bytes over the whole run.
    Bytes,
    /// Bytes over the time of the transfers in which they went.
    Bandwidth,
}

/// Pairs that a summary lists at most: more than the page tells apart, and a ring of a thousand ranks.
pub const MOST_PAIRS: usize = 4_096;

/// What went from one rank to another, all of one kind together: what was recorded first, then by sender and receiver.
pub fn pairs(rows: &[TrafficRow]) -> Vec<Pair> {
    let mut sums: BTreeMap<(bool, u32, u32), (u64, u64, i64)> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.superseded) {
        let is_modelled = match row.source {
            TrafficSource::Called | TrafficSource::Proxies | TrafficSource::Nested => false,
            TrafficSource::Modelled => true,
            TrafficSource::LeftOut => continue,
        };
        let (Some(from), Some(to)) = (row.from_rank, row.to_rank) else {
            continue;
        };
        let sum = sums.entry((is_modelled, from, to)).or_insert((0, 0, 0));
        sum.0 = sum.0.saturating_add(row.bytes);
        sum.1 = sum.1.saturating_add(row.timed_bytes);
        sum.2 = sum.2.saturating_add(row.transfer_ns);
    }
    sums.into_iter()
        .map(
            |((is_modelled, from_rank, to_rank), (bytes, timed_bytes, transfer_ns))| Pair {
                from_rank,
                to_rank,
                is_modelled,
                bytes,
                timed_bytes,
                transfer_ns,
                bytes_per_s: (timed_bytes > 0 && transfer_ns > 0)
                    .then(|| timed_bytes as f64 / transfer_ns as f64 * 1e9),
            },
        )
        .collect()
}

/// The grids that have anything: recorded, modelled. `ranks`: positions, ascending.
pub fn grids(session: &Session, pairs: &[Pair], ranks: &[u32], value: TrafficValue) -> Vec<Grid> {
    let of = |is_modelled: bool, title: &str| {
        let (cells, origin) = cells(pairs, is_modelled, ranks, value);
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
            origin,
        })
    };
    let recorded = of(false, "recorded: who talks to whom was seen");
    let modelled = of(true, "modelled: by the algorithm's ring or tree, not seen");
    recorded.into_iter().chain(modelled).collect()
}

fn cells(pairs: &[Pair], is_modelled: bool, ranks: &[u32], value: TrafficValue) -> (Vec<Cell>, Origin) {
    let at = |rank: u32| {
        let place = ranks.binary_search(&rank).ok()?;
        u32::try_from(place).ok()
    };
    let mut cells = Vec::new();
    let mut origin = BTreeMap::new();
    for (place, pair) in pairs.iter().enumerate() {
        let (Some(row), Some(column)) = (at(pair.from_rank), at(pair.to_rank)) else {
            continue;
        };
        let (value, field) = match value {
            TrafficValue::Bytes => (Some(pair.bytes as f64), "bytes"),
            TrafficValue::Bandwidth => (pair.bytes_per_s, "bytes_per_s"),
        };
        if let Some(value) = value.filter(|_| pair.is_modelled == is_modelled) {
            cells.push(Cell { row, column, value });
            // Of more pairs the summary has none, and no cell says its value.
            if pairs.len() <= MOST_PAIRS {
                origin.insert((row, column), format!("/pairs/list/value/{place}/{field}"));
            }
        }
    }
    (cells, Origin::Each(origin))
}

/// What is in no pair because it is not known between whom it went.
pub fn left_out(rows: &[TrafficRow]) -> LeftOut {
    let mut out = LeftOut::default();
    for row in rows.iter().filter(|row| row.source == TrafficSource::LeftOut) {
        out.operations += row.operations;
        out.names.push(row.operation.name().to_owned());
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
