//! Rank × rank picture of what was moved, as the proxies measured it.

use super::cividis;
use super::heat_map::{LEGEND, legend, legend_width};
use super::svg::{Anchor, LETTER, Svg, text_width};
use crate::report::{units, words};
use rankscope_formats::session::Session;
use std::collections::BTreeMap;

/// Ranks at most; of larger jobs the table tells.
const MOST_RANKS: usize = 64;
const WIDEST: f64 = 640.0;
const WIDEST_CELL: f64 = 44.0;

/// The picture; nothing where no traffic was measured, or among too many ranks.
pub fn draw(session: &Session) -> Option<String> {
    let mut moved: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    // Each end tells; where one was not recorded, or lost something, the other knows more.
    let mut arrived: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for entry in &session.traffic {
        let Some(peer) = entry.peer_rank else { continue };
        if entry.sent_bytes > 0 {
            let sent = moved.entry((entry.rank, peer)).or_insert(0);
            *sent = sent.saturating_add(entry.sent_bytes);
        }
        if entry.received_bytes > 0 {
            let received = arrived.entry((peer, entry.rank)).or_insert(0);
            *received = received.saturating_add(entry.received_bytes);
        }
    }
    for (pair, bytes) in arrived {
        let sent = moved.entry(pair).or_insert(0);
        *sent = (*sent).max(bytes);
    }
    let mut ranks: Vec<u32> = moved.keys().flat_map(|&(from, to)| [from, to]).collect();
    ranks.sort_unstable();
    ranks.dedup();
    if ranks.is_empty() || ranks.len() > MOST_RANKS {
        return None;
    }
    let top = moved.values().copied().max().unwrap_or(0).max(1) as f64;
    let labels: Vec<String> = ranks
        .iter()
        .map(|&rank| words::rank_name(session, rank))
        .collect();
    let left = labels.iter().map(|label| text_width(label)).fold(0.0, f64::max) + 8.0;
    let cell = (WIDEST / ranks.len() as f64).min(WIDEST_CELL);
    let gap = if cell >= 8.0 { 1.0 } else { 0.0 };
    let extent = cell * ranks.len() as f64;
    let name = "sent, from the rank of the row to that of the column";
    let mut svg = Svg::new(
        (left + extent).max(left + legend_width(name)) + 30.0,
        LEGEND + extent + 34.0,
        "Bytes sent from rank to rank as a heat map",
    );
    legend(&mut svg, left, top, |bytes| units::bytes(bytes as u64), name);
    for ((&from, label), row) in ranks.iter().zip(&labels).zip(0..) {
        let y = LEGEND + cell * f64::from(row);
        svg.text(
            left - 6.0,
            y + cell / 2.0 + LETTER / 2.0 - 1.5,
            Anchor::End,
            label,
        );
        for ((&to, other), column) in ranks.iter().zip(&labels).zip(0..) {
            let x = left + cell * f64::from(column);
            match moved.get(&(from, to)) {
                Some(&bytes) => {
                    let colour = cividis::colour(bytes as f64 / top);
                    let tooltip = format!("{label} to {other}: {}", units::bytes(bytes));
                    svg.rect(x, y, cell - gap, cell - gap, &colour, &tooltip);
                }
                None => svg.rect(
                    x,
                    y,
                    cell - gap,
                    cell - gap,
                    "missing",
                    &format!("{label} to {other}: nothing by proxies"),
                ),
            }
        }
    }
    for (&rank, column) in ranks.iter().zip(0..) {
        let x = left + cell * (f64::from(column) + 0.5);
        svg.text(x, LEGEND + extent + 13.0, Anchor::Middle, &rank.to_string());
    }
    svg.text(left, LEGEND + extent + 28.0, Anchor::Start, "to rank");
    Some(svg.finish())
}
