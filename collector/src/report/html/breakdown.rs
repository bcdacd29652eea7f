//! The pictures of where each rank's time went, and that of its devices: one bar per rank, its parts adding up to the
//! window.

use super::svg::{Anchor, Svg, text_width};
use crate::heatmap::{grouping::groups, ticks as scale};
use crate::report::{units, words};
use rankscope_formats::session::{DeviceActivity, RankBreakdown, Session};

/// Rows at most; more ranks share rows.
pub const MOST_ROWS: usize = 64;
const BARS: f64 = 860.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 24.0;

/// A part of a bar: style, words, time.
type Part<E> = (&'static str, &'static str, fn(&E) -> i64);

/// What bars are drawn of.
struct Bars<'a, E> {
    entries: Vec<&'a E>,
    parts: &'a [Part<E>],
    rank: fn(&E) -> u32,
    window_ns: fn(&E) -> i64,
    title: &'a str,
}

const DEVICE_PARTS: [Part<DeviceActivity>; 6] = [
    ("host", "compute", |entry| entry.compute_only_ns),
    ("overlapped", "compute and communication", |entry| {
        entry.overlapped_ns
    }),
    ("transfer", "exposed transfer", |entry| {
        entry.exposed_communication_ns - entry.exposed_wait_ns
    }),
    ("wait", "exposed wait for peers", |entry| entry.exposed_wait_ns),
    ("memory", "exposed memory work", |entry| entry.exposed_memory_ns),
    ("missing", "idle", |entry| entry.idle_ns),
];

const PARTS: [Part<RankBreakdown>; 4] = [
    ("host", "host time (not blocked for communication)", |entry| {
        entry.host_ns
    }),
    ("transfer", "exposed transfer", words::exposed_transfer_ns),
    ("wait", "exposed wait for peers", |entry| entry.exposed_wait_ns),
    ("other", "otherwise blocked", |entry| entry.other_blocked_ns),
];

/// The picture; nothing without ranks, or where communication has no times.
pub fn draw(session: &Session) -> Option<String> {
    // Bars of which the communication is missing would say that there was none.
    if session.breakdown.iter().any(|entry| entry.leaves_out()) {
        return None;
    }
    let bars = Bars {
        entries: session.breakdown.iter().collect(),
        parts: &PARTS,
        rank: |entry| entry.rank,
        window_ns: |entry| entry.window_ns,
        title: "Share of each rank's time per part, as stacked bars",
    };
    bars.draw(session)
}

/// The picture of the devices; nothing where their work was not recorded as a whole.
pub fn draw_devices(session: &Session) -> Option<String> {
    let bars = Bars {
        entries: session
            .activity
            .iter()
            .filter(|entry| entry.window_ns > 0)
            .collect(),
        parts: &DEVICE_PARTS,
        rank: |entry| entry.rank,
        window_ns: |entry| entry.window_ns,
        title: "Share of the time of each rank's devices per part, as stacked bars",
    };
    bars.draw(session)
}

impl<E> Bars<'_, E> {
    fn draw(&self, session: &Session) -> Option<String> {
        let entries = &self.entries;
        let rows = groups(entries.len(), MOST_ROWS);
        if rows.is_empty() {
            return None;
        }
        let labels: Vec<String> = rows
            .iter()
            .map(|row| super::row_label(session, row, |at| (self.rank)(entries[at])))
            .collect();
        let left = labels.iter().map(|label| text_width(label)).fold(0.0, f64::max) + 8.0;
        let pitch: f64 = if rows.len() <= 16 { 22.0 } else { 14.0 };
        let bar = pitch - if rows.len() <= 16 { 6.0 } else { 3.0 };
        let bottom = TOP + pitch * rows.len() as f64;
        let right = left + BARS;
        let mut svg = Svg::new(right + 24.0, bottom + BOTTOM, self.title);
        let mut x = left;
        for &(style, name, _) in self.parts {
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
            let window: i64 = entries[row.clone()]
                .iter()
                .map(|&entry| (self.window_ns)(entry))
                .sum();
            if window <= 0 {
                continue;
            }
            let members = row.len() as i64;
            let of_several = if members > 1 { " (mean of the ranks)" } else { "" };
            let mut x = left;
            for &(style, name, part) in self.parts {
                let sum: i64 = entries[row.clone()].iter().map(|&entry| part(entry)).sum();
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
}
