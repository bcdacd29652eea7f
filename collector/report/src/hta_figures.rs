//! Figures of Holistic Trace Analysis for an imported run, next to the exact figures. Terminal and page show the same
//! rows.

use super::figures::{self, time};
use super::prose::{Prose, prose};
use super::source::{sum, times};
use crate::sentences;
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

/// Explanation of the differences.
pub const NOTE: &str = "Holistic Trace Analysis leaves out the last profiler step and kernels without a launch, \
    rounds to whole microseconds, and counts from the first kernel to the last; the exact figures are those above";

/// Returns the figures if they were requested.
pub fn figures(session: &Session) -> Option<&HtaFigures> {
    session.imported.as_ref()?.hta.as_ref()
}

/// Returns one row per rank.
pub fn rows(session: &Session, hta: &HtaFigures) -> Vec<Vec<Prose>> {
    const OVERLAP: &str = "/imported/hta/overlap";
    let percent = |value: Option<f64>, from: String| match value {
        Some(value) => Prose::from(figures::percent_as_is(value, 2, from)),
        None => "–".into(),
    };
    hta.temporal
        .iter()
        .enumerate()
        .map(|(at, row)| {
            let from = format!("/imported/hta/temporal/{at}");
            let overlap = hta.overlap.iter().position(|overlap| overlap.rank == row.rank);
            let overlap = overlap.and_then(|at| {
                let value = hta.overlap[at].comp_comm_overlap_pctg;
                Some((value?, format!("{OVERLAP}/{at}/comp_comm_overlap_pctg")))
            });
            let position = session
                .ranks
                .iter()
                .position(|rank| rank.number.value == Some(row.rank));
            let exact = position.and_then(|position| {
                let entries = session.activity.iter().enumerate();
                let mut known = entries
                    .filter(|(_, entry)| entry.rank as usize == position && entry.window_ns > 0)
                    .map(|(at, entry)| (entry, format!("/activity/{at}")));
                known.next()
            });
            let window = |from: &str| format!("{from}/window_ns");
            let dash = || Prose::from("–");
            vec![
                prose!["rank ", figures::plain(row.rank, format!("{from}/rank"))],
                time(
                    row.kernel_us.saturating_mul(1000),
                    times(format!("{from}/kernel_time(us)"), "1000"),
                )
                .into(),
                exact
                    .as_ref()
                    .map_or_else(dash, |(entry, from)| time(entry.window_ns, window(from)).into()),
                overlap.map_or_else(dash, |(value, from)| percent(Some(value), from)),
                exact
                    .as_ref()
                    .and_then(|(entry, from)| {
                        let ratio = entry.overlap.value.as_ref()?;
                        Some(figures::share(ratio, &format!("{from}/overlap/value")).into())
                    })
                    .unwrap_or_else(dash),
                percent(row.compute_pctg, format!("{from}/compute_time_pctg")),
                exact.as_ref().map_or_else(dash, |(entry, from)| {
                    let parts = sum(&[format!("{from}/compute_only_ns"), format!("{from}/overlapped_ns")]);
                    let ns = entry.compute_only_ns + entry.overlapped_ns;
                    sentences::share_of(ns, entry.window_ns, &parts, &window(from))
                }),
                percent(row.idle_pctg, format!("{from}/idle_time_pctg")),
                exact.as_ref().map_or_else(dash, |(entry, from)| {
                    sentences::share_of(
                        entry.idle_ns,
                        entry.window_ns,
                        &format!("{from}/idle_ns"),
                        &window(from),
                    )
                }),
                percent(row.non_compute_pctg, format!("{from}/non_compute_time_pctg")),
            ]
        })
        .collect()
}
