//! Units that merge a period.

use crate::ingest::between::{Between, LogId, RunCut};
use crate::merge::units::log_input::LogInput;
use crate::rank::Carried;
use rankscope_formats::session::ProblemSummary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What the merge of a period needs.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PeriodInput {
    /// Name of the period.
    pub name: String,
    /// Run directories, with absolute paths.
    pub directories: Vec<PathBuf>,
    /// Directories, and the names that the session states for them.
    pub origins: Vec<(PathBuf, PathBuf)>,
    /// Maximum number of pending calls, if it is not the usual one.
    pub most_pending: Option<usize>,
    from: RunCut,
    until: RunCut,
    origin_unix_ns: i64,
    /// Numbers of the logs at its start.
    pub carried: Vec<(LogId, Arc<Carried>)>,
    /// Its logs.
    pub logs: Vec<LogInput>,
    /// Problems of their files.
    pub problems: Vec<ProblemSummary>,
}

impl PeriodInput {
    /// Creates an input without logs.
    pub fn new(
        name: String,
        directories: Vec<PathBuf>,
        origins: Vec<(PathBuf, PathBuf)>,
        most_pending: Option<usize>,
    ) -> Self {
        Self {
            name,
            directories,
            origins,
            most_pending,
            ..Self::default()
        }
    }

    /// Sets where the run is cut. `origin_unix_ns` is the zero of its axis.
    pub fn between(&mut self, from: &RunCut, until: &RunCut, origin_unix_ns: i64) {
        (self.from, self.until) = (from.clone(), until.clone());
        self.origin_unix_ns = origin_unix_ns;
    }

    /// Returns its start and its end, in nanoseconds since 1970.
    pub fn span(&self) -> (i64, i64) {
        (self.from.unix_ns, self.until.unix_ns)
    }

    /// Calls `merge` with the part of the run.
    pub fn with_part<R>(&self, merge: impl FnOnce(&Between<'_>) -> R) -> R {
        let carried: BTreeMap<LogId, Arc<Carried>> = self.carried.iter().cloned().collect();
        merge(&Between {
            from: &self.from,
            until: &self.until,
            origin_unix_ns: self.origin_unix_ns,
            carried: &carried,
        })
    }
}
