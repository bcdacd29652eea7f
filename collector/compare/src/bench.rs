//! Comparison of a bench with an earlier one, and with expected bandwidths.

use rankscope_formats::bench::{BenchResults, BenchRow, Placement};
use std::fmt;

/// Rows of two benches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BenchComparison {
    /// Rows that both have.
    pub compared: usize,
    /// Rows that differ by more than the tolerance and the spread of both, with the largest difference first.
    pub changes: Vec<BenchChange>,
    /// Why the benches, or some rows, cannot be compared.
    pub obstacles: Vec<String>,
}

impl BenchComparison {
    /// Returns true if a row is slower.
    pub fn is_slower(&self) -> bool {
        self.changes.iter().any(BenchChange::is_slower)
    }
}

/// A row that changed.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchChange {
    /// Operation.
    pub operation: String,
    /// Size, in bytes.
    pub size_bytes: u64,
    /// Placement.
    pub placement: Placement,
    /// Median times before and now, in nanoseconds.
    pub before_ns: f64,
    /// As above.
    pub now_ns: f64,
}

impl BenchChange {
    /// Returns the time now, relative to that before.
    pub fn ratio(&self) -> f64 {
        self.now_ns / self.before_ns
    }

    /// Returns true if the row became slower.
    pub fn is_slower(&self) -> bool {
        self.now_ns > self.before_ns
    }
}

/// Compares rows of the same operation, size, placement and type. `tolerance`: 0.1 is 10 %.
///
/// A row changed if its median differs by more than the tolerance, and the blocks of the two benches do not overlap. Blocks of
/// one run do not show how much two runs differ, so the tolerance is needed, too.
pub fn compare(before: &BenchResults, now: &BenchResults, tolerance: f64) -> BenchComparison {
    let mut out = BenchComparison::default();
    let mut differs = |what: &str, before: String, now: String| {
        if before != now {
            out.obstacles.push(format!("{what}: {before} before, {now} now"));
        }
    };
    differs("library", before.library.name.clone(), now.library.name.clone());
    differs("ranks", before.ranks.to_string(), now.ranks.to_string());
    differs(
        "location of the ranks",
        before.scope.to_string(),
        now.scope.to_string(),
    );
    let recorded = |results: &BenchResults| {
        let is_recorded = results.settings.is_recorded;
        if is_recorded { "recorded" } else { "not recorded" }.to_owned()
    };
    differs("operations", recorded(before), recorded(now));
    differs("type", before.data_type.clone(), now.data_type.clone());
    if !out.obstacles.is_empty() {
        return out;
    }
    for row in &now.rows {
        let Some(old) = before.rows.iter().find(|old| is_same(old, row)) else {
            continue;
        };
        out.compared += 1;
        let change = BenchChange {
            operation: row.operation.clone(),
            size_bytes: row.size_bytes,
            placement: row.placement,
            before_ns: old.time_ns.p50,
            now_ns: row.time_ns.p50,
        };
        let is_apart = row.time_ns.min > old.time_ns.max || row.time_ns.max < old.time_ns.min;
        let ratio = change.ratio();
        if is_apart && ratio.is_finite() && (ratio > 1.0 + tolerance || ratio < 1.0 / (1.0 + tolerance)) {
            out.changes.push(change);
        }
    }
    out.changes
        .sort_by(|one, other| other.ratio().ln().abs().total_cmp(&one.ratio().ln().abs()));
    let missing = before.rows.len().saturating_sub(out.compared);
    if out.compared == 0 {
        out.obstacles.push("no row is in both benches".to_owned());
    } else if missing > 0 {
        out.obstacles.push(format!(
            "{missing} rows of the earlier bench were not measured now"
        ));
    }
    out
}

fn is_same(one: &BenchRow, other: &BenchRow) -> bool {
    one.operation == other.operation && one.size_bytes == other.size_bytes && one.placement == other.placement
}

/// Bus bandwidth that must be reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Operation; `None` for each.
    pub operation: Option<String>,
    /// Bandwidth, in bytes per second.
    pub bus_bytes_per_s: f64,
}

/// An expectation that was not met.
#[derive(Clone, Debug, PartialEq)]
pub struct Missed {
    operation: String,
    expected: f64,
    /// Best bandwidth; `None` if there is none.
    best: Option<f64>,
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = self.expected / 1e9;
        match self.best {
            Some(best) => write!(
                f,
                "{}: {:.2} GB/s of bus bandwidth at its best size, expected {expected:.2}",
                self.operation,
                best / 1e9
            ),
            None => write!(
                f,
                "{}: no bus bandwidth, expected {expected:.2} GB/s",
                self.operation
            ),
        }
    }
}

/// Returns the expectations that were not met.
pub fn missed(results: &BenchResults, expected: &[Expected]) -> Vec<Missed> {
    let mut out = Vec::new();
    for one in expected {
        let operations = match &one.operation {
            Some(operation) => vec![operation.as_str()],
            None => results.operations(),
        };
        for operation in operations {
            let of_it = results.rows.iter().filter(|row| row.operation == operation);
            let best = of_it.filter_map(|row| row.bus_bytes_per_s).max_by(f64::total_cmp);
            if best.is_none_or(|best| best < one.bus_bytes_per_s) {
                out.push(Missed {
                    operation: operation.to_owned(),
                    expected: one.bus_bytes_per_s,
                    best,
                });
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_formats::bench::{BENCH_VERSION, BenchLibrary, BenchSettings, BenchSpread};
    use rankscope_formats::session::Scope;
    use std::path::PathBuf;

    fn row(size_bytes: u64, blocks_ns: &[f64]) -> BenchRow {
        let time_ns = BenchSpread::of(blocks_ns);
        BenchRow {
            operation: "all-reduce".to_owned(),
            size_bytes,
            elements: size_bytes / 4,
            placement: Placement::OutOfPlace,
            iterations: 20,
            calls: 22,
            blocks_ns: blocks_ns.to_vec(),
            time_ns,
            algorithm_bytes_per_s: size_bytes as f64 / time_ns.p50 * 1e9,
            bus_bytes_per_s: Some(size_bytes as f64 / time_ns.p50 * 1e9),
            wrong_elements: Some(0),
        }
    }

    fn results(rows: Vec<BenchRow>) -> BenchResults {
        BenchResults {
            version: BENCH_VERSION,
            tool_version: String::new(),
            started_unix_s: 0,
            is_complete: true,
            library: BenchLibrary {
                name: "gloo".to_owned(),
                version: None,
                path: PathBuf::new(),
            },
            ranks: 2,
            hosts: vec!["a".to_owned(), "a".to_owned()],
            scope: Scope::InsideHost,
            data_type: "float32".to_owned(),
            settings: BenchSettings {
                blocks: 3,
                most_iterations: 20,
                warmup_iterations: 5,
                settling_iterations: 2,
                row_limit_ms: 500,
                is_recorded: false,
            },
            rows,
            pairs: Vec::new(),
            peak: None,
            problems: Vec::new(),
        }
    }

    #[test]
    fn only_rows_beyond_tolerance_and_spread_changed() {
        let before = results(vec![
            row(8, &[100.0, 110.0, 105.0]),
            row(16, &[100.0, 101.0, 102.0]),
            row(32, &[100.0, 101.0, 102.0]),
            row(64, &[100.0, 300.0, 102.0]),
        ]);
        let now = results(vec![
            // 5 % slower and apart: within the tolerance.
            row(8, &[112.0, 111.0, 113.0]),
            // 50 % slower.
            row(16, &[150.0, 151.0, 152.0]),
            // Twice as fast.
            row(32, &[50.0, 51.0, 52.0]),
            // Slower in the median, but within the spread.
            row(64, &[140.0, 150.0, 160.0]),
        ]);
        let compared = compare(&before, &now, 0.1);
        assert_eq!(compared.compared, 4);
        let sizes: Vec<_> = compared.changes.iter().map(|change| change.size_bytes).collect();
        assert_eq!(sizes, [32, 16]);
        assert!(compared.is_slower());
        assert!(!compare(&before, &before, 0.1).is_slower());
        let fast_only = results(vec![row(32, &[50.0, 51.0, 52.0])]);
        let compared = compare(&before, &fast_only, 0.1);
        assert!(!compared.is_slower());
        assert_eq!(
            compared.obstacles,
            ["3 rows of the earlier bench were not measured now"]
        );
    }

    #[test]
    fn benches_of_different_worlds_are_not_compared() {
        let before = results(vec![row(8, &[100.0])]);
        let now = BenchResults {
            ranks: 4,
            ..before.clone()
        };
        let compared = compare(&before, &now, 0.1);
        assert_eq!((compared.compared, compared.changes.len()), (0, 0));
        assert_eq!(compared.obstacles, ["ranks: 2 before, 4 now"]);
    }

    #[test]
    fn an_expectation_is_met_by_the_best_size() {
        let now = results(vec![row(1000, &[1000.0]), row(4000, &[1000.0])]);
        let of = |operation: Option<&str>, bus_bytes_per_s| {
            missed(
                &now,
                &[Expected {
                    operation: operation.map(str::to_owned),
                    bus_bytes_per_s,
                }],
            )
        };
        assert!(of(None, 4e9).is_empty());
        assert_eq!(
            of(None, 4.1e9)[0].to_string(),
            "all-reduce: 4.00 GB/s of bus bandwidth at its best size, expected 4.10"
        );
        assert_eq!(of(Some("broadcast"), 1.0).len(), 1);
    }
}
