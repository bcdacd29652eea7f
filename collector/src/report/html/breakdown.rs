//! The picture of where each rank's time went: one bar per rank, its parts adding up to the window.

use super::grouping::groups;
use super::scale;
use super::svg::{Anchor, Svg, text_width};
use crate::report::{units, words};
use rankscope_formats::session::{RankBreakdown, Session};

/// Rows at most; more ranks share rows.
pub const MOST_ROWS: usize = 64;
const BARS: f64 = 860.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 24.0;

/// The parts of a bar: style, words, time.
type Part = (&'static str, &'static str, fn(&RankBreakdown) -> i64);
const PARTS: [Part; 4] = [
    ("host", "host time (not blocked for communication)", |entry| {
        entry.host_ns
    }),
    ("transfer", "exposed transfer", words::exposed_transfer_ns),
    ("wait", "exposed wait for peers", |entry| entry.exposed_wait_ns),
    ("other", "otherwise blocked", |entry| entry.other_blocked_ns),
];

/// The picture; nothing without ranks, or where communication has no times.
pub fn draw(session: &Session) -> Option<String> {
    let entries = &session.breakdown;
    // Bars of which the communication is missing would say that there was none.
    if entries.iter().any(|entry| entry.leaves_out()) {
        return None;
    }
    let rows = groups(entries.len(), MOST_ROWS);
    if rows.is_empty() {
        return None;
    }
    let labels: Vec<String> = rows
        .iter()
        .map(|row| super::row_label(session, row, |at| entries[at].rank))
        .collect();
    let left = labels.iter().map(|label| text_width(label)).fold(0.0, f64::max) + 8.0;
    let pitch: f64 = if rows.len() <= 16 { 22.0 } else { 14.0 };
    let bar = pitch - if rows.len() <= 16 { 6.0 } else { 3.0 };
    let bottom = TOP + pitch * rows.len() as f64;
    let right = left + BARS;
    let mut svg = Svg::new(
        right + 24.0,
        bottom + BOTTOM,
        "Share of each rank's time per part, as stacked bars",
    );
    let mut x = left;
    for (style, name, _) in PARTS {
        x = svg.key(x, 12.0, style, name);
    }
    for percent in scale::ticks(100.0, 5) {
        let x = left + BARS * percent / 100.0;
        svg.line(x, TOP - 4.0, x, bottom);
        svg.text(x, bottom + 14.0, Anchor::Middle, &format!("{percent:.0} %"));
    }
    for ((row, label), at) in rows.iter().zip(&labels).zip(0..) {
        let y = TOP + pitch * f64::from(at);
        svg.text(left - 6.0, y + bar / 2.0 + 4.0, Anchor::End, label);
        let window: i64 = entries[row.clone()].iter().map(|entry| entry.window_ns).sum();
        if window <= 0 {
            continue;
        }
        let members = row.len() as i64;
        let of_several = if members > 1 { " (mean of the ranks)" } else { "" };
        let mut x = left;
        for (style, name, part) in PARTS {
            let sum: i64 = entries[row.clone()].iter().map(part).sum();
            let share = sum as f64 / window as f64;
            let width = BARS * share.clamp(0.0, 1.0);
            let tooltip = format!(
                "{label}: {name} {} of {} ({}){of_several}",
                units::time(sum / members),
                units::time(window / members),
                units::percent(share)
            );
            if sum > 0 {
                svg.rect(x, y, width, bar, style, &tooltip);
            }
            x += width;
        }
    }
    Some(svg.finish())
}
