//! Dropped records and other problems (METRICS.md, section 11).

#[cfg(doc)]
use super::Session;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Dropped records of one rank, by cause and kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossSummary {
    /// Index into [`Session::ranks`]; `null` for a log without a rank.
    pub rank: Option<u32>,
    /// Name of the log if there is no rank, or `merge` for records that the merge dropped.
    pub source: String,
    /// Cause: `no-chunk`, `disk`, ….
    pub cause: String,
    /// Kind of record: `call`, `issue`, ….
    pub kind: String,
    /// Number of dropped records.
    pub count: u64,
    /// Time of the first dropped record, in nanoseconds on the axis.
    pub first_ns: i64,
    /// Time of the last dropped record, in nanoseconds on the axis.
    pub last_ns: i64,
    /// Advice on how to avoid the loss.
    pub advice: String,
}

/// Unexpected conditions in the input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problems {
    /// Number of problems.
    pub total: u64,
    /// The first problems, at most [`Problems::MAX_LISTED`]. The table `problems` has all of them.
    pub listed: Vec<ProblemSummary>,
}

impl Problems {
    /// Maximum number of listed problems. The total is always complete.
    pub const MAX_LISTED: usize = 200;
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemSummary {
    /// Index into [`Session::ranks`], if a rank is concerned.
    pub rank: Option<u32>,
    /// File, if one is concerned.
    pub file: Option<String>,
    /// Offset in the file, in bytes.
    pub offset_bytes: Option<u64>,
    /// Expected content, and the part that was kept.
    pub what: String,
}

impl ProblemSummary {
    /// Returns a problem of a file, at an offset in bytes if it is known.
    pub fn of_file(path: &Path, offset_bytes: Option<u64>, what: String) -> Self {
        Self {
            rank: None,
            file: Some(path.display().to_string()),
            offset_bytes,
            what,
        }
    }
}
