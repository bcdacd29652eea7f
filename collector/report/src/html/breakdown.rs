//! Charts of the breakdown of each rank's time and of its devices' time. Each rank has one bar, whose parts add up to
//! the window.

use super::svg::{Anchor, Svg, text_width};
use crate::figures::{percent, tick, time};
use crate::heatmap::{grouping::groups, ticks as scale};
use crate::prose::{Prose, prose};
use crate::sentences;
use crate::source::{among, less, share, sum};
use rankscope_formats::session::{DeviceActivity, RankBreakdown, Session};

/// Maximum number of rows; above it, ranks share rows.
pub const MOST_ROWS: usize = 64;
const BARS: f64 = 860.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 24.0;

/// Part of a bar.
struct Part<E> {
    style: &'static str,
    name: &'static str,
    ns: fn(&E) -> i64,
    /// Field of the part.
    field: &'static str,
    /// Field to subtract.
    without: Option<&'static str>,
}

const fn part<E>(
    style: &'static str,
    name: &'static str,
    ns: fn(&E) -> i64,
    field: &'static str,
    without: Option<&'static str>,
) -> Part<E> {
    Part {
        style,
        name,
        ns,
        field,
        without,
    }
}

impl<E> Part<E> {
    /// Returns the source of the part's sum over these entries of a list.
    fn source(&self, list: &str, entries: &[usize]) -> String {
        let all = |field: &str| sum(&[among(list, entries.iter().copied(), field)]);
        match self.without {
            Some(without) => less(all(self.field), all(without)),
            None => all(self.field),
        }
    }
}

/// Data of the bars.
struct Bars<'a, E> {
    /// List of the entries.
    list: &'static str,
    /// Entries with their positions in the list.
    entries: Vec<(usize, &'a E)>,
    parts: &'a [Part<E>],
    rank: fn(&E) -> u32,
    window_ns: fn(&E) -> i64,
    title: &'a str,
}

const EXPOSED: &str = "/exposed_communication_ns";
const WAIT: &str = "/exposed_wait_ns";

const DEVICE_PARTS: [Part<DeviceActivity>; 6] = [
    part(
        "host",
        "compute",
        |entry| entry.compute_only_ns,
        "/compute_only_ns",
        None,
    ),
    part(
        "overlapped",
        "compute and communication",
        |entry| entry.overlapped_ns,
        "/overlapped_ns",
        None,
    ),
    part(
        "transfer",
        "exposed transfer",
        |entry| entry.exposed_communication_ns - entry.exposed_wait_ns,
        EXPOSED,
        Some(WAIT),
    ),
    part(
        "wait",
        "exposed wait for peers",
        |entry| entry.exposed_wait_ns,
        WAIT,
        None,
    ),
    part(
        "memory",
        "exposed memory work",
        |entry| entry.exposed_memory_ns,
        "/exposed_memory_ns",
        None,
    ),
    part("missing", "idle", |entry| entry.idle_ns, "/idle_ns", None),
];

const PARTS: [Part<RankBreakdown>; 4] = [
    part(
        "host",
        "host time (not blocked for communication)",
        |entry| entry.host_ns,
        "/host_ns",
        None,
    ),
    part(
        "transfer",
        "exposed transfer",
        sentences::exposed_transfer_ns,
        EXPOSED,
        Some(WAIT),
    ),
    part(
        "wait",
        "exposed wait for peers",
        |entry| entry.exposed_wait_ns,
        WAIT,
        None,
    ),
    part(
        "other",
        "other blocked",
        |entry| entry.other_blocked_ns,
        "/other_blocked_ns",
        None,
    ),
];

/// Draws the chart. Returns nothing without ranks, or if communication has no times.
pub fn draw(session: &Session) -> Option<String> {
    // Bars without communication would suggest that there was none.
    if session.breakdown.iter().any(|entry| entry.leaves_out()) {
        return None;
    }
    let bars = Bars {
        list: "/breakdown",
        entries: session.breakdown.iter().enumerate().collect(),
        parts: &PARTS,
        rank: |entry| entry.rank,
        window_ns: |entry| entry.window_ns,
        title: "Share of each rank's time per part, as stacked bars",
    };
    bars.draw(session)
}

/// Draws the chart of the devices. Returns nothing if their activity was not recorded completely.
pub fn draw_devices(session: &Session) -> Option<String> {
    let bars = Bars {
        list: "/activity",
        entries: session
            .activity
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.window_ns > 0)
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
        let labels: Vec<Prose> = rows
            .iter()
            .map(|row| super::row_label(session, row, |at| (self.rank)(entries[at].1)))
            .collect();
        let widths = labels.iter().map(|label| text_width(&label.plain()));
        let left = widths.fold(0.0, f64::max) + 8.0;
        let pitch: f64 = if rows.len() <= 16 { 22.0 } else { 14.0 };
        let bar = pitch - if rows.len() <= 16 { 6.0 } else { 3.0 };
        let bottom = TOP + pitch * rows.len() as f64;
        let right = left + BARS;
        let mut svg = Svg::new(right + 24.0, bottom + BOTTOM, self.title);
        let mut x = left;
        for part in self.parts {
            x = svg.key(x, 12.0, part.style, part.name);
        }
        for percent in scale::ticks(100.0, 5) {
            let x = left + BARS * percent / 100.0;
            svg.line(x, TOP - 4.0, x, bottom);
            svg.text(x, bottom + 14.0, Anchor::Middle, tick(format!("{percent:.0} %")));
        }
        for ((row, label), at) in rows.iter().zip(&labels).zip(0..) {
            let y = TOP + pitch * f64::from(at);
            svg.text(left - 6.0, y + bar / 2.0 + 4.0, Anchor::End, label.clone());
            let members = &entries[row.clone()];
            let places: Vec<usize> = members.iter().map(|&(place, _)| place).collect();
            let window: i64 = members.iter().map(|&(_, entry)| (self.window_ns)(entry)).sum();
            let window_from = sum(&[among(self.list, places.iter().copied(), "/window_ns")]);
            if window <= 0 {
                continue;
            }
            let count = row.len() as i64;
            let mean = |ns: i64, from: &str| match count {
                1 => time(ns, from),
                _ => time(ns / count, share(from, count.to_string())),
            };
            let of_several = if count > 1 { " (mean of the ranks)" } else { "" };
            let mut x = left;
            for part in self.parts {
                let ns: i64 = members.iter().map(|&(_, entry)| (part.ns)(entry)).sum();
                let of_window = ns as f64 / window as f64;
                let width = BARS * of_window.clamp(0.0, 1.0);
                if ns > 0 {
                    let from = part.source(self.list, &places);
                    let tooltip = prose![
                        label.clone(),
                        format!(": {} ", part.name),
                        mean(ns, &from),
                        " of ",
                        mean(window, &window_from),
                        " (",
                        percent(of_window, share(&from, &window_from)),
                        ")",
                        of_several
                    ];
                    svg.rect(x, y, width, bar, part.style, &tooltip);
                }
                x += width;
            }
        }
        Some(svg.finish())
    }
}
