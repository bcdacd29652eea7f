//! Options, result and errors of an export.

use rankscope_formats::perfetto::{Error, Written};
use rankscope_formats::session::TableError;
use std::io;
use std::path::PathBuf;

/// Maximum size in bytes that the Perfetto page opens without trouble.
pub const DEFAULT_MAX_BYTES: u64 = 1 << 30;
/// Options of the export.
#[derive(Clone, Debug)]
pub struct PerfettoOptions {
    /// File to write; replaced if it exists.
    pub output: PathBuf,
    /// Positions in [`Session::ranks`] of the ranks to export. `None`: all.
    pub ranks: Option<Vec<u32>>,
    /// Interval to export, since [`rankscope_formats::session::Axis::start_ns`], in nanoseconds. Partly overlapping
    /// records are included. `None`: all.
    pub range_ns: Option<(i64, i64)>,
    /// Approximate maximum size of the file in bytes. Every rank gets its share; records beyond it are left out at the
    /// end.
    pub max_bytes: u64,
}

impl PerfettoOptions {
    /// Exports everything, up to the size that the page can open.
    pub fn whole(output: PathBuf) -> Self {
        Self {
            output,
            ranks: None,
            range_ns: None,
            max_bytes: DEFAULT_MAX_BYTES,
        }
    }
}

/// Summary of the export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Counts that the trace engine should find.
    pub written: Written,
    /// Ranks in the trace.
    pub ranks: u32,
    /// Number of operations in the trace.
    pub operations: u64,
    /// Number of works of devices in the trace.
    pub works: u64,
    /// Number of operations and spans left out because they overlap on one thread, which the format cannot represent.
    pub dropped: u64,
    /// Time since the start of the session from which records of some ranks are missing because of the size limit.
    pub cut_off_ns: Option<i64>,
}

impl Exported {
    /// Adds the counts of a rank. `written` and `ranks` are those of the whole trace.
    pub(super) fn add(&mut self, of_rank: RankCounts) {
        self.operations += of_rank.operations;
        self.works += of_rank.works;
        self.dropped += of_rank.dropped;
        self.cut_off_ns = match (self.cut_off_ns, of_rank.cut_off_ns) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// Counts of one rank.
#[derive(Clone, Copy, Default)]
pub(super) struct RankCounts {
    /// Number of operations in the trace.
    pub operations: u64,
    /// Number of works of devices in the trace.
    pub works: u64,
    /// Number of operations and spans left out because the format cannot represent them.
    pub dropped: u64,
    /// Time since the start of the session from which records are missing because of the size limit.
    pub cut_off_ns: Option<i64>,
}

/// Error while exporting a session.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A table could not be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The trace could not be written.
    #[error("{path}: {source}")]
    Trace {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: Error,
    },
    /// The file could not be created.
    #[error("cannot write {path}: {source}")]
    Output {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
}
