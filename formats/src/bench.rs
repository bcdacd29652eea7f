//! Results of `rankscope bench`: `bench.json`.
//!
//! Sizes, times and bandwidths are those of nccl-tests, doc/PERFORMANCE.md (METRICS.md, section 2): the size is S, the time
//! is that of one operation, and `busbw = S / time · factor`.

use crate::session::Scope;
use crate::vocabulary::vocabulary;
use crate::whole_file::WholeFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of the file in the directory of a bench.
pub const BENCH_FILE: &str = "bench.json";
/// Version of its layout.
pub const BENCH_VERSION: u32 = 1;

vocabulary! {
    /// Whether an operation writes its result over its input.
    Placement {
        /// Input and output are different buffers.
        OutOfPlace = "out-of-place",
        /// The output is, or contains, the input.
        InPlace = "in-place",
        /// A placement of a later version.
        #[serde(other)]
        Unknown = "unknown",
    }
}

/// Results of one sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchResults {
    /// Version of this layout.
    pub version: u32,
    /// Version of rankscope.
    pub tool_version: String,
    /// Start, in seconds since 1970 (UTC).
    pub started_unix_s: i64,
    /// False while the sweep runs, or if it was interrupted. The rows so far are valid.
    pub is_complete: bool,
    /// Library whose operations were measured.
    pub library: BenchLibrary,
    /// Number of ranks.
    pub ranks: u32,
    /// Name of the host of each rank.
    pub hosts: Vec<String>,
    /// Location of the ranks.
    pub scope: Scope,
    /// Type of the elements, for example `float32`.
    pub data_type: String,
    /// How it was measured.
    pub settings: BenchSettings,
    /// One row per operation, size and placement, in the order of the measurements.
    pub rows: Vec<BenchRow>,
    /// One row per ordered pair of ranks; empty unless requested.
    pub pairs: Vec<PairRow>,
    /// Highest bandwidth and typical latency of the path, for the scorecard.
    pub peak: Option<BenchPeak>,
    /// What could not be measured, and why.
    pub problems: Vec<String>,
}

/// Library that was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BenchLibrary {
    /// `gloo` or `nccl`.
    pub name: String,
    /// Version, if it is known.
    pub version: Option<String>,
    /// File.
    pub path: PathBuf,
}

/// Settings of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BenchSettings {
    /// Blocks per row. A block is a series of operations without a pause, as one measurement of nccl-tests.
    pub blocks: u32,
    /// Maximum number of operations per block.
    pub most_iterations: u32,
    /// Maximum number of operations before the first block.
    pub warmup_iterations: u32,
    /// Operations at the start of each block, before its clock starts. They absorb the time by which the ranks leave the
    /// barrier one after the other.
    pub settling_iterations: u32,
    /// Time after which a row has fewer operations per block, in milliseconds.
    pub row_limit_ms: u64,
    /// Whether the operations were recorded, which makes small ones slower.
    pub is_recorded: bool,
}

/// Measurements of one operation at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchRow {
    /// Name of the operation, for example `all-reduce`; `send-receive` is the ring exchange of nccl-tests.
    pub operation: String,
    /// Size S, in bytes.
    pub size_bytes: u64,
    /// Count c of elements (METRICS.md, section 2).
    pub elements: u64,
    /// Placement of the buffers.
    pub placement: Placement,
    /// Operations per block.
    pub iterations: u32,
    /// Operations that each rank ran for this row: the check, the warm-up, and all blocks with the operations before their
    /// clocks started.
    pub calls: u64,
    /// Mean time of an operation in each block, averaged over the ranks, in nanoseconds.
    pub blocks_ns: Vec<f64>,
    /// Median and spread of these means, in nanoseconds.
    pub time_ns: BenchSpread,
    /// S / median time, in bytes per second.
    pub algorithm_bytes_per_s: f64,
    /// Bus bandwidth at the median time, in bytes per second; absent with one rank.
    pub bus_bytes_per_s: Option<f64>,
    /// Wrong elements on all ranks; absent if the results were not checked.
    pub wrong_elements: Option<u64>,
}

/// Median and spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchSpread {
    /// Minimum.
    pub min: f64,
    /// First quartile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Third quartile.
    pub p75: f64,
    /// Maximum.
    pub max: f64,
}

impl BenchSpread {
    /// Computes the quartiles, with linear interpolation. Without a value all are 0.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let Some(last) = sorted.len().checked_sub(1) else {
                return 0.0;
            };
            let place = share * last as f64;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Self {
            min: at(0.0),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            max: at(1.0),
        }
    }

    /// Returns half of the interquartile range, relative to the median.
    pub fn relative(&self) -> f64 {
        if self.p50 > 0.0 {
            (self.p75 - self.p25) / 2.0 / self.p50
        } else {
            0.0
        }
    }
}

/// Messages from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairRow {
    /// Rank of the sender.
    pub from: u32,
    /// Rank of the receiver.
    pub to: u32,
    /// Half of a round trip of a small message, in nanoseconds.
    pub latency_ns: f64,
    /// Bandwidth of large messages in this direction, in bytes per second.
    pub bytes_per_s: f64,
}

/// What the scorecard takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchPeak {
    /// Highest bus bandwidth of a collective, in bytes per second.
    pub bus_bytes_per_s: f64,
    /// Collective and size with that bandwidth, for messages.
    pub bus_row: String,
    /// p99 of the transfer of all recorded launches of at most 64 KiB, in nanoseconds; absent if the session of the bench
    /// has none.
    pub small_transfer_p99_ns: Option<f64>,
}

impl BenchResults {
    /// Reads the results from `bench.json`, or from the directory that contains it.
    pub fn read(path: &Path) -> Result<Self, BenchError> {
        let file = if path.is_dir() {
            path.join(BENCH_FILE)
        } else {
            path.to_owned()
        };
        let failed = |reason: String| BenchError {
            path: file.clone(),
            reason,
        };
        let text = fs::read(&file).map_err(|error| failed(error.to_string()))?;
        Self::parse(&text).map_err(failed)
    }

    /// Reads the results from the content of `bench.json`. The error is a message.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        // The version comes first: another layout may have other fields.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let message = |error: serde_json::Error| error.to_string();
        let Versioned { version } = serde_json::from_slice(text).map_err(message)?;
        if version > BENCH_VERSION {
            return Err(format!(
                "layout {version} is of a later rankscope; this one reads up to {BENCH_VERSION}"
            ));
        }
        serde_json::from_slice(text).map_err(message)
    }

    /// Returns the operations in the order of their measurement.
    pub fn operations(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !all.contains(&row.operation.as_str()) {
                all.push(&row.operation);
            }
        }
        all
    }

    /// Writes `bench.json` into the directory, completely or not at all.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        let mut file = WholeFile::create(&directory.join(BENCH_FILE))?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.finish()
    }
}

/// Results that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the results of a bench in {}: {reason}", path.display())]
pub struct BenchError {
    path: PathBuf,
    reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_numpy() {
        let spread = BenchSpread::of(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(
            (spread.min, spread.p25, spread.p50, spread.p75, spread.max),
            (1.0, 1.75, 2.5, 3.25, 4.0)
        );
        assert_eq!(BenchSpread::of(&[7.0]).p75, 7.0);
        assert_eq!(BenchSpread::of(&[]).p50, 0.0);
    }

    #[test]
    fn a_file_of_a_later_version_or_a_damaged_one_is_named() {
        let folder = tempfile::tempdir().expect("a directory");
        for (text, reason) in [
            ("{\"version\":", "EOF"),
            ("[]", "invalid"),
            ("{\"version\": 99}", "later rankscope"),
            ("{\"version\": 1}", "missing field"),
        ] {
            fs::write(folder.path().join(BENCH_FILE), text).expect("written");
            let error = BenchResults::read(folder.path())
                .expect_err("damaged")
                .to_string();
            assert!(error.contains("bench.json") && error.contains(reason), "{error}");
        }
    }
}
