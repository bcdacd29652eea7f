//! The table, with the columns of nccl-tests.

use super::chart;
use crate::text::layout::TextLayout;

use rankscope_analysis::findings::shown as shown_ns;
use rankscope_analysis::model::units;
use rankscope_compare::bench::BenchComparison;
use rankscope_formats::bench::{BenchResults, BenchRow, PairRow, Placement};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// Maximum number of changed rows that are listed.
const MOST_CHANGES: usize = 20;
/// Maximum number of ranks whose pairs are printed as a matrix.
const MOST_IN_MATRIX: u32 = 16;

/// Returns what was measured: the library, the ranks, the type.
pub fn name(results: &BenchResults) -> String {
    let library = match results.library.name.as_str() {
        "nccl" => "NCCL",
        "gloo" => "Gloo",
        other => other,
    };
    let version = match &results.library.version {
        Some(version) if version.starts_with(|c: char| c.is_ascii_digit()) => format!(" {version}"),
        Some(version) => format!(" ({version})"),
        None => String::new(),
    };
    let hosts = results.hosts.iter().collect::<BTreeSet<_>>().len() as u64;
    format!(
        "{library}{version}, {} on {}, {}",
        units::counted(u64::from(results.ranks), "rank"),
        units::counted(hosts, "host"),
        results.data_type
    )
}

/// Returns the heading of an operation's rows.
pub fn heading(results: &BenchResults, operation: &str) -> String {
    format!(
        "\n{operation} · {}\n\
         {:>12} {:>12}   {:^40}   {:^40}\n\
         {:>12} {:>12}   {COLUMNS}   {COLUMNS}\n\
         {:>12} {:>12}   {UNITS}   {UNITS}\n",
        name(results),
        "",
        "",
        "out-of-place",
        "in-place",
        "size",
        "count",
        "(B)",
        "(elements)"
    )
}

const COLUMNS: &str = "      time      ±    algbw    busbw  wrong";
const UNITS: &str = "      (us)    (%)   (GB/s)   (GB/s)       ";

/// Returns the line of a size, from its rows of both placements.
pub fn line(rows: &[BenchRow]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let part = |placement| {
        let Some(row) = rows.iter().find(|row| row.placement == placement) else {
            return format!("{:>10} {:>6} {:>8} {:>8} {:>6}", "–", "", "–", "–", "–");
        };
        let bus = row
            .bus_bytes_per_s
            .map_or_else(|| "–".to_owned(), |bus| format!("{:.2}", bus / 1e9));
        let wrong = row
            .wrong_elements
            .map_or_else(|| "N/A".to_owned(), |wrong| wrong.to_string());
        format!(
            "{:>10} {:>6.1} {:>8.2} {bus:>8} {wrong:>6}",
            microseconds(row.time_ns.p50),
            row.time_ns.relative() * 100.0,
            row.algorithm_bytes_per_s / 1e9,
        )
    };
    format!(
        "{:>12} {:>12}   {}   {}\n",
        first.size_bytes,
        first.elements,
        part(Placement::OutOfPlace),
        part(Placement::InPlace)
    )
}

/// Formats microseconds as nccl-tests does: at most four digits before the point, two after it.
fn microseconds(ns: f64) -> String {
    let us = ns / 1e3;
    match us {
        us if us >= 10_000.0 => format!("{us:.0}"),
        us if us >= 100.0 => format!("{us:.1}"),
        _ => format!("{us:.2}"),
    }
}

/// Returns what follows the rows: curves, sums, pairs, and where everything is.
pub fn conclusion(results: &BenchResults, directory: &Path, layout: &TextLayout) -> String {
    let mut out = chart::busbw(results, layout);
    for problem in &results.problems {
        let _ = writeln!(out, "Not measured: {problem}");
    }
    let buses: Vec<f64> = results
        .rows
        .iter()
        .filter_map(|row| row.bus_bytes_per_s)
        .collect();
    if !buses.is_empty() {
        // The last line of nccl-tests.
        let mean = buses.iter().sum::<f64>() / buses.len() as f64;
        let _ = writeln!(out, "Avg bus bandwidth   {:.2} GB/s over all rows", mean / 1e9);
    }
    if let Some(peak) = &results.peak {
        let _ = writeln!(
            out,
            "Peak bus bandwidth  {:.2} GB/s ({})",
            peak.bus_bytes_per_s / 1e9,
            peak.bus_row
        );
        if let Some(ns) = peak.small_transfer_p99_ns {
            let _ = writeln!(
                out,
                "Latency             {} (p99 transfer of the recorded operations of at most 64 KiB)",
                shown_ns(ns as i64)
            );
        }
    }
    let checked = results.rows.iter().filter_map(|row| row.wrong_elements);
    let _ = match (checked.clone().count(), checked.sum::<u64>()) {
        (0, _) => writeln!(out, "Results             not checked"),
        (_, 0) => writeln!(out, "Results             all correct"),
        (_, wrong) => writeln!(out, "Results             {wrong} elements are WRONG"),
    };
    out.push_str(&pairs(results));
    let _ = writeln!(
        out,
        "Files               {}: bench.json, bench.svg, bench.png",
        directory.display()
    );
    if results.peak.is_some() {
        let _ = writeln!(
            out,
            "Next                rankscope report RUN --peaks {}",
            directory.display()
        );
    }
    out
}

/// Returns the messages between pairs: two matrices, or the extremes for many ranks.
fn pairs(results: &BenchResults) -> String {
    if results.pairs.is_empty() {
        return String::new();
    }
    let mut out = String::new();
    let spread = |title: &str, of: fn(&PairRow) -> f64, shown: &dyn Fn(f64) -> String| {
        let mut sorted: Vec<&PairRow> = results.pairs.iter().collect();
        sorted.sort_by(|one, other| of(one).total_cmp(&of(other)));
        let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else {
            return String::new();
        };
        format!(
            "{title:<20}{} ({} → {}) to {} ({} → {})\n",
            shown(of(least)),
            least.from,
            least.to,
            shown(of(most)),
            most.from,
            most.to
        )
    };
    out.push_str(&spread("Pair latency", |pair| pair.latency_ns, &|ns| {
        shown_ns(ns as i64)
    }));
    out.push_str(&spread("Pair bandwidth", |pair| pair.bytes_per_s, &units::rate));
    if results.ranks <= MOST_IN_MATRIX {
        out.push_str(&matrix(results, "latency, us", |pair| pair.latency_ns / 1e3));
        out.push_str(&matrix(results, "bandwidth, GB/s", |pair| pair.bytes_per_s / 1e9));
    }
    out
}

fn matrix(results: &BenchResults, title: &str, of: fn(&PairRow) -> f64) -> String {
    let mut out = format!("\n{title}, from row to column\n{:>6}", "");
    for to in 0..results.ranks {
        let _ = write!(out, "{to:>9}");
    }
    out.push('\n');
    for from in 0..results.ranks {
        let _ = write!(out, "{from:>6}");
        for to in 0..results.ranks {
            let pair = results
                .pairs
                .iter()
                .find(|pair| pair.from == from && pair.to == to);
            let _ = match pair {
                Some(pair) => write!(out, "{:>9.2}", of(pair)),
                None => write!(out, "{:>9}", "–"),
            };
        }
        out.push('\n');
    }
    out.push('\n');
    out
}

/// Returns the comparison with an earlier bench.
pub fn comparison(compared: &BenchComparison, tolerance_percent: f64) -> String {
    let mut out = String::new();
    for obstacle in &compared.obstacles {
        let _ = writeln!(out, "Not compared: {obstacle}");
    }
    if compared.compared == 0 {
        return out;
    }
    let slower = compared
        .changes
        .iter()
        .filter(|change| change.is_slower())
        .count() as u64;
    let faster = compared.changes.len() as u64 - slower;
    let _ = writeln!(
        out,
        "Compared            {}: {slower} slower and {faster} faster by more than {tolerance_percent} % and by more than \
         the spread of the blocks",
        units::counted(compared.compared as u64, "row")
    );
    for change in compared.changes.iter().take(MOST_CHANGES) {
        let _ = writeln!(
            out,
            "  {} {:<16} {:>10}  {:<13} {:>10} us → {:>10} us  {:+.1} %",
            if change.is_slower() { "!" } else { " " },
            change.operation,
            units::binary_bytes(change.size_bytes),
            change.placement,
            microseconds(change.before_ns),
            microseconds(change.now_ns),
            (change.ratio() - 1.0) * 100.0
        );
    }
    if compared.changes.len() > MOST_CHANGES {
        let _ = writeln!(out, "  and {} more", compared.changes.len() - MOST_CHANGES);
    }
    out
}
