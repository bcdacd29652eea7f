//! `session.json`: the data of the summary and of the report.
//!
//! The name of every figure contains its unit. A [`Figure`] that could not be computed has a reason instead of a value;
//! it is never 0 or NaN. Lists that could grow without bound are cut, and their totals are stored beside them.

#[cfg(doc)]
use super::Figure;
use super::axis::Axis;
use super::counters::CounterSummary;
use super::devices::{DeviceActivity, DeviceSource};
use super::findings::{Finding, Scorecard};
use super::gpus::GpuSummary;
use super::imported::Imported;
use super::losses::{LossSummary, Problems};
use super::matching::Matching;
use super::operations::{Connect, OperationClass, SmallLaunches, Totals};
use super::part::Part;
use super::pauses::NamedTimes;
use super::ranks::{Attempt, CommunicatorSummary, Coverage, Host, Rank, Surrounding, World};
use super::steps::{RankBreakdown, Steps};
use super::structure::WorldStructure;
use super::waits::{Blame, PeerTraffic, WaitMatrix};
use crate::{files, whole_file};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// Version of this layout. A reader rejects newer versions.
pub const SESSION_VERSION: u32 = 1;

/// Summary of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Version of the layout: [`SESSION_VERSION`].
    pub version: u32,
    /// Name and version of the program that wrote the session.
    pub tool: Tool,
    /// Time at which the session was written, in nanoseconds since 1970.
    pub written_unix_ns: i64,
    /// Run directories from which the session was made, as given.
    pub directories: Vec<String>,
    /// Source of the run, if another profiler recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// Part of the run that this session contains; absent if it contains the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// Time axis of the session.
    pub axis: Axis,
    /// Ranks that were recorded, of all ranks that exist. This is the first line of every summary.
    pub coverage: Coverage,
    /// Attempts: incarnations of the job, ordered by time.
    pub attempts: Vec<Attempt>,
    /// Worlds: sets of ranks that one communicator numbers.
    pub worlds: Vec<World>,
    /// Hosts: one entry per clock.
    pub hosts: Vec<Host>,
    /// Hardware, versions, and the environment variables that affect communication.
    #[serde(default)]
    pub surroundings: Vec<Surrounding>,
    /// Ranks. Their index is the `rank` of all tables and lists.
    pub ranks: Vec<Rank>,
    /// Communicators. Their index is the `communicator` of all tables and lists.
    pub communicators: Vec<CommunicatorSummary>,
    /// Roles of communicators, peers and pipelines; one entry per world.
    #[serde(default)]
    pub structure: Vec<WorldStructure>,
    /// Sums over the session.
    pub totals: Totals,
    /// Operations by kind, size class and scope, those with the most time first. The building of communicators is not
    /// included.
    pub operations: Vec<OperationClass>,
    /// Time spent building communicators.
    pub connect: Connect,
    /// Steps of the job.
    pub steps: Steps,
    /// Breakdown of each rank's time, one entry per rank.
    pub breakdown: Vec<RankBreakdown>,
    /// Named parts of host time, such as input, checkpoints and evaluation.
    #[serde(default)]
    pub named_times: NamedTimes,
    /// Counters of the ranks, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<CounterSummary>,
    /// GPUs that were sampled, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuSummary>,
    /// Device times that libraries reported; one entry per rank with such times.
    #[serde(default)]
    pub devices: Vec<DeviceSource>,
    /// Activity of devices, one entry per rank for which it was recorded or requested.
    #[serde(default)]
    pub activity: Vec<DeviceActivity>,
    /// Traffic between ranks as NCCL's proxies measured it, if it was requested.
    #[serde(default)]
    pub traffic: Vec<PeerTraffic>,
    /// Waits per rank and step.
    pub waits: WaitMatrix,
    /// Blame: waiting that each rank caused.
    pub blame: Blame,
    /// Findings, the costliest first.
    pub findings: Vec<Finding>,
    /// Scorecard of the run, 0 to 100 (METRICS.md, section 9). It uses the peaks and limits that were given when the
    /// session was written.
    #[serde(default)]
    pub scorecard: Option<Scorecard>,
    /// Launches of at most 64 KiB, by scope. The latency score is computed from them.
    #[serde(default)]
    pub small_launches: Vec<SmallLaunches>,
    /// Results of matching the calls of the ranks.
    pub matching: Matching,
    /// Dropped records.
    pub losses: Vec<LossSummary>,
    /// Unexpected conditions in the input.
    pub problems: Problems,
    /// Tables of the session.
    pub tables: Vec<TableInfo>,
}

/// Program that wrote a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Name of the program.
    pub name: String,
    /// Version of the program.
    pub version: String,
}

/// One table of the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableInfo {
    /// Name of the table, which is also its directory.
    pub name: String,
    /// Number of rows over all parts.
    pub rows: u64,
    /// Size of all parts, in bytes.
    pub bytes: u64,
}

/// Error while reading a summary.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    /// An operation on the file failed.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Path of the file.
        path: String,
        /// Cause of the error.
        source: io::Error,
    },
    /// The file is not the summary of a session.
    #[error("{path} is not a session summary: {source}")]
    Format {
        /// Path of the file.
        path: String,
        /// Cause of the error.
        source: serde_json::Error,
    },
    /// A newer program wrote the file.
    #[error("{path} has layout {found}; this program reads up to {SESSION_VERSION}")]
    Version {
        /// Path of the file.
        path: String,
        /// Version of its layout.
        found: u32,
    },
}

impl Session {
    /// Returns the number of a rank's operations that were put on a stream and whose completion time is unknown. Only
    /// ranks without recorded device activity have such operations. It is then unknown whether host time is free of
    /// communication.
    pub fn operations_without_times(&self, rank: u32) -> u64 {
        // Entries are ordered by rank, and there may be thousands of ranks.
        let at = self.breakdown.binary_search_by_key(&rank, |entry| entry.rank);
        at.map_or(0, |at| self.breakdown[at].operations_without_times)
    }

    /// Reads `session.json` of a session directory.
    pub fn read(session: &Path) -> Result<Self, SummaryError> {
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let path = session.join(super::SUMMARY_FILE);
        let name = path.display().to_string();
        let text = files::read(&path).map_err(|source| SummaryError::Io {
            path: name.clone(),
            source,
        })?;
        let head: Head = serde_json::from_slice(&text).map_err(|source| SummaryError::Format {
            path: name.clone(),
            source,
        })?;
        if head.version > SESSION_VERSION {
            return Err(SummaryError::Version {
                path: name,
                found: head.version,
            });
        }
        serde_json::from_slice(&text).map_err(|source| SummaryError::Format { path: name, source })
    }

    /// Writes `session.json` into a session directory. The file appears completely or not at all.
    pub fn write(&self, session: &Path) -> io::Result<()> {
        let text = super::layout::to_text(self)?;
        whole_file::write(&session.join(super::SUMMARY_FILE), &text)
    }
}
