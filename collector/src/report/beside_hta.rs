//! What Holistic Trace Analysis says of an imported run, beside the exact figures: text and page have the same rows.

use super::{units, words};
use rankscope_formats::session::{HtaFigures, Session};

/// Columns of the table.
pub const COLUMNS: [&str; 10] = [
    "rank",
    "window, HTA",
    "exact",
    "overlap, HTA",
    "exact",
    "compute, HTA",
    "exact",
    "idle, HTA",
    "exact",
    "other, HTA",
];

/// Why the two differ.
pub const NOTE: &str = "Holistic Trace Analysis leaves out the last profiler step and kernels without a launch, rounds to whole \
    microseconds, and counts from the first kernel to the last; the exact figures are those above";

/// Its figures, if they were asked for.
pub fn figures(session: &Session) -> Option<&HtaFigures> {
    session.imported.as_ref()?.hta.as_ref()
}

/// A row per rank.
pub fn rows(session: &Session, figures: &HtaFigures) -> Vec<Vec<String>> {
    let percent = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2} %"));
    figures
        .temporal
        .iter()
        .map(|row| {
            let overlap = figures.overlap.iter().find(|overlap| overlap.rank == row.rank);
            let position = session
                .ranks
                .iter()
                .position(|rank| rank.number.value == Some(row.rank));
            let exact = position.and_then(|position| {
                session
                    .activity
                    .iter()
                    .find(|entry| entry.rank as usize == position && entry.window_ns > 0)
            });
            let part = |ns: Option<i64>| match (ns, exact) {
                (Some(ns), Some(entry)) => words::share_of(ns, entry.window_ns),
                _ => "–".to_owned(),
            };
            vec![
                format!("rank {}", row.rank),
                units::time(row.kernel_us.saturating_mul(1000)),
                exact.map_or_else(|| "–".to_owned(), |entry| units::time(entry.window_ns)),
                percent(overlap.and_then(|overlap| overlap.comp_comm_overlap_pctg)),
                exact
                    .and_then(|entry| entry.overlap.value.as_ref())
                    .map_or_else(|| "–".to_owned(), |ratio| units::percent(ratio.share())),
                percent(row.compute_pctg),
                part(exact.map(|entry| entry.compute_only_ns + entry.overlapped_ns)),
                percent(row.idle_pctg),
                part(exact.map(|entry| entry.idle_ns)),
                percent(row.non_compute_pctg),
            ]
        })
        .collect()
}
