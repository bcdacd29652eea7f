//! Options of a merge, with their defaults.

use crate::matching::{MAX_PENDING, stride};
use std::path::{Path, PathBuf};

/// Input and output of a merge.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// Run directories (or logs) of one job, from one node or several.
    pub directories: Vec<PathBuf>,
    /// Session directory. It is created; an earlier session in it is replaced.
    pub output: PathBuf,
    /// Number of threads in addition to the matching thread; `None` for one per processor.
    pub threads: Option<usize>,
    /// Maximum number of pending calls; `None` for enough for half a million.
    pub most_pending: Option<usize>,
}

impl MergeOptions {
    /// Returns the options to merge one run directory into its folder `session`.
    pub fn of_run(directory: &Path) -> Self {
        Self {
            directories: vec![directory.to_path_buf()],
            output: directory.join("session"),
            threads: None,
            most_pending: None,
        }
    }

    /// Returns the number of decoding threads.
    pub(super) fn decoding_threads(&self) -> usize {
        self.threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from))
    }

    /// Returns the maximum number of pending calls of a job with this many ranks.
    pub(super) fn pending_limit(&self, ranks: usize) -> usize {
        self.most_pending
            .unwrap_or_else(|| MAX_PENDING.max(2 * ranks * stride(ranks)))
    }
}
