//! What every rank of a job does at one moment: the output of `rankscope status --json`, and the files `hang-*.json`
//! that `rankscope run --hang-timeout` stores in a run directory.
//!
//! METRICS.md, section 13, defines the kinds of verdicts.

use crate::vocabulary::vocabulary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Value of [`Status::format`].
pub const STATUS_FORMAT: &str = "rankscope-status-1";
/// Prefix of the names of stored documents in a run directory. The time of the document and `.json` follow.
pub const HANG_FILE_PREFIX: &str = "hang-";

vocabulary! {
    /// Whether the job hangs.
    Health {
        /// Operations complete, or nothing waits longer than is usual in this job.
        Healthy = "healthy",
        /// Ranks wait for something that does not come.
        Hang = "hang",
        /// Too little was seen to decide.
        #[serde(other)]
        Unknown = "unknown",
    }
    /// Cause of a wait.
    HangKind {
        /// The members of a communicator called different operations, or the same one with other sizes, types or roots.
        Mismatch = "mismatch",
        /// A process that the others wait for has ended.
        ProcessGone = "process-gone",
        /// A process that the others wait for is stopped by a signal or a debugger.
        Stopped = "stopped",
        /// Ranks called operations of two or more communicators in different orders, and wait for each other.
        CrossedOrder = "crossed-order",
        /// A rank that the others wait for has not called the operation. It waits in another operation, or it is not
        /// known what it does.
        MissingCaller = "missing-caller",
        /// A rank that the others wait for has not called the operation, and is outside communication: in its own code,
        /// asleep, or waiting for input.
        UserCode = "user-code",
        /// All members have called the operation on the host, and it has not completed on the device.
        PendingOnDevice = "pending-on-device",
        /// All members are in the same operation, and it does not complete.
        Transfer = "transfer",
        /// The wait is no longer than what this job has shown before, or the rank that is waited for still works.
        SlowNotStuck = "slow-not-stuck",
        /// A kind that this version does not know.
        #[serde(other)]
        Unknown = "unknown",
    }
    /// How sure a verdict is.
    Confidence {
        /// Every member of the communicator was seen, and the evidence excludes other kinds.
        High = "high",
        /// The evidence allows another kind, which the evidence names.
        Medium = "medium",
        /// Members were not seen, or evidence is missing.
        #[serde(other)]
        Low = "low",
    }
    /// State of a process.
    ProcessState {
        /// It runs or sleeps.
        Running = "running",
        /// A signal or a debugger stopped it.
        Stopped = "stopped",
        /// It is in an uninterruptible call of the kernel (state D).
        InKernel = "in-kernel",
        /// It has ended.
        Gone = "gone",
        /// It runs on another machine, and its log changes.
        Remote = "remote",
        /// Nothing is known about it.
        #[serde(other)]
        Unknown = "unknown",
    }
}

/// State of a job at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// [`STATUS_FORMAT`].
    pub format: String,
    /// Time of the look, in nanoseconds since 1970.
    pub taken_unix_ns: i64,
    /// Run directories.
    pub directories: Vec<String>,
    /// Whether the job hangs.
    pub health: Health,
    /// The result in one sentence.
    pub sentence: String,
    /// Why ranks wait: the first verdict is the one that [`Status::sentence`] states. Empty if nothing waits.
    pub verdicts: Vec<HangVerdict>,
    /// Ranks that do the same.
    pub groups: Vec<RankGroup>,
    /// Communicators with a pending operation, and those that completed one last.
    pub communicators: Vec<CommunicatorStatus>,
    /// All ranks of the newest attempt.
    pub ranks: Vec<RankStatus>,
    /// What was not seen, and problems of the input.
    pub notes: Vec<String>,
}

/// Why ranks wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HangVerdict {
    /// Kind of cause.
    pub kind: HangKind,
    /// How sure it is.
    pub confidence: Confidence,
    /// The verdict in one sentence.
    pub sentence: String,
    /// Ranks that cause the wait: indices into [`Status::ranks`].
    pub culprits: Vec<u32>,
    /// Names of these ranks. A rank without a log is named by its number.
    pub culprit_names: Vec<String>,
    /// Ranks that wait: indices into [`Status::ranks`].
    pub waiting: Vec<u32>,
    /// The communicator: index into [`Status::communicators`]. `null` if it is unknown.
    pub communicator: Option<u32>,
    /// Operation that does not complete.
    pub operation: Option<String>,
    /// Number of the operation on its communicator, as c10d, NCCL or the Gloo program counts it. `null` if it is unknown.
    pub sequence: Option<u64>,
    /// Time since the first rank has waited, in nanoseconds.
    pub for_ns: i64,
    /// Observations that lead to the verdict, in sentences.
    pub evidence: Vec<String>,
}

/// Ranks that do the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankGroup {
    /// Indices into [`Status::ranks`].
    pub ranks: Vec<u32>,
    /// The ranks as a list of numbers and ranges: `0-6, 9`.
    pub shown: String,
    /// What they do, in words.
    pub what: String,
    /// Shortest and longest time for which they have done it, in nanoseconds. `null` if it is unknown.
    pub for_ns: Option<(i64, i64)>,
}

/// One communicator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommunicatorStatus {
    /// Name as in reports.
    pub name: String,
    /// Library: `gloo`, `nccl` or `mpi`.
    pub library: String,
    /// Number of members.
    pub size: u32,
    /// Oldest pending operation of any member; `null` if none is pending.
    pub pending: Option<PendingOperation>,
    /// Number of members whose log was not found.
    pub unseen_members: u32,
}

/// Operation that at least one member has called and that has not completed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PendingOperation {
    /// Kind of operation.
    pub operation: String,
    /// Its number.
    pub sequence: u64,
    /// Members that wait in it: indices into [`Status::ranks`].
    pub waiting: Vec<u32>,
    /// Members that have not called it: indices into [`Status::ranks`].
    pub missing: Vec<u32>,
    /// Members that have completed it: indices into [`Status::ranks`].
    pub completed: Vec<u32>,
    /// Time since the first call, in nanoseconds.
    pub for_ns: i64,
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankStatus {
    /// Name as in reports: `rank 3`.
    pub name: String,
    /// Number in its world; `null` if none is known.
    pub number: Option<u32>,
    /// Host name.
    pub host: String,
    /// Process id in its own namespace.
    pub pid: u32,
    /// State of its process.
    pub process: ProcessState,
    /// How the process ended, in words: `exit status 1`, `killed by SIGKILL`, `killed by the kernel: out of memory`.
    /// `null` if it runs, or if the ending is unknown.
    pub ending: Option<String>,
    /// Path of its log.
    pub log: String,
    /// What it does now, in words.
    pub now: String,
    /// Time for which it has done this, in nanoseconds; `null` if it is unknown.
    pub for_ns: Option<i64>,
    /// Last operation that it completed, and on which communicator, in words; `null` if none was seen.
    pub last_completed: Option<String>,
    /// Time since that completion, in nanoseconds.
    pub last_completed_ago_ns: Option<i64>,
    /// Stack of its main thread, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Vec<String>>,
}
