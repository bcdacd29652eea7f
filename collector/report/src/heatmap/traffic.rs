//! Rank × rank: traffic from one rank to another, in one grid as recorded and in another as modelled.

use super::grid::{Axis, Cell, Grid, Origin, Reduction};
use super::scale::Unit;
use super::steps::rank_item;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{LeftOut, Pair, Session, TrafficRow, TrafficSource};
use rankscope_ranklog::Operation;
use std::collections::BTreeMap;

/// Quantity of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficValue {
    /// Bytes over the whole run.
    Bytes,
    /// Bytes over the time of their transfers.
    Bandwidth,
}

/// Maximum number of pairs that a summary lists. It exceeds what the page can show, and suffices for a ring of a
/// thousand ranks.
pub const MAX_PAIRS: usize = 4_096;

/// Sums the traffic per pair of ranks: recorded pairs first, then by sender and receiver.
pub fn pairs(rows: &[TrafficRow]) -> Vec<Pair> {
    let mut sums: BTreeMap<(bool, RankIndex, RankIndex), (u64, u64, i64)> = BTreeMap::new();
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
                from_rank: from_rank.0,
                to_rank: to_rank.0,
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

/// Builds the non-empty grids: recorded, modelled. `ranks`: positions, ascending.
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
    let recorded = of(false, "recorded: sender and receiver were seen");
    let modelled = of(true, "modelled: by the ring or tree of the algorithm");
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
            // With more pairs the summary has no list, and cells have no source.
            if pairs.len() <= MAX_PAIRS {
                origin.insert((row, column), format!("/pairs/list/value/{place}/{field}"));
            }
        }
    }
    (cells, Origin::Each(origin))
}

/// Returns the traffic between unknown ranks, which is in no pair.
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

/// Whether proxies measured any of the traffic.
pub fn has_proxies(rows: &[TrafficRow]) -> bool {
    rows.iter()
        .any(|row| row.source == TrafficSource::Proxies && row.operation == Operation::Unknown)
}
