//! Who took part: hosts, worlds, ranks and communicators (METRICS.md, section 1).

#[cfg(doc)]
use super::Session;
use super::figure::Figure;
use crate::vocabulary::vocabulary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ranks that were recorded, of all ranks that exist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Number of ranks whose logs were read, over all worlds.
    pub ranks_seen: u32,
    /// Number of ranks that the worlds have.
    pub ranks_expected: Figure<u32>,
    /// Ranks without a log.
    pub missing: Vec<MissingRank>,
    /// Advice on the missing ranks; `null` if none is missing.
    pub advice: Option<String>,
    /// Number of logs of processes that never communicated. They have no rank.
    pub logs_without_rank: u32,
    /// Number of ranks whose log ends before its process closed it.
    pub ranks_not_closed: u32,
}

/// Rank without a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MissingRank {
    /// World of the rank: index into [`Session::worlds`].
    pub world: u32,
    /// Number of the rank in its world.
    pub number: u32,
}

/// Attempt: one incarnation of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Elastic run ID (`TORCHELASTIC_RUN_ID`); `null` if the launcher set none.
    pub run_id: Option<String>,
    /// Restart count, 0 for the first attempt.
    pub restart: u32,
    /// Time of the first record, in nanoseconds on the axis.
    pub start_ns: i64,
    /// Time of the last record, in nanoseconds on the axis.
    pub end_ns: i64,
    /// Time between the end of the previous attempt and the start of this one, in nanoseconds; `null` for the first.
    pub lost_before_ns: Option<i64>,
    /// Worlds of the attempt: indices into [`Session::worlds`].
    pub worlds: Vec<u32>,
}

impl Attempt {
    /// Number of restarts up to which outputs list each. More of them are summarized.
    pub const MAX_LISTED: usize = 3;
}

/// World: a set of ranks that one communicator numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct World {
    /// Index into [`Session::attempts`].
    pub attempt: u32,
    /// Number of ranks of the world.
    pub size: u32,
    /// Ranks of the world that were recorded: indices into [`Session::ranks`].
    pub ranks: Vec<u32>,
    /// Communicator that numbers the world: index into [`Session::communicators`]. `null` if the numbers come from
    /// elsewhere.
    pub communicator: Option<u32>,
    /// Source of the numbers: `communicator`, `environment` or `order`.
    pub source: String,
}

/// Host: one clock, which is a kernel of a machine and a time namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Display name.
    pub name: String,
    /// Boot ID of the kernel.
    pub boot_id: Option<String>,
    /// Inode of the time namespace.
    pub time_namespace: Option<String>,
    /// Counter from which timestamps were read: `tsc`, `monotonic-raw` or `cntvct`.
    pub counter: String,
    /// Calibrated frequency of the counter, in ticks per second; unknown with only one calibration.
    pub ticks_per_second: Figure<f64>,
    /// Number of calibrations used.
    pub calibrations: u32,
    /// Error of the conversion inside this host, ± nanoseconds.
    pub error_ns: i64,
    /// Error of this host's wall clock, ± nanoseconds; unknown if the clock is not synchronised.
    pub realtime_error_ns: Figure<i64>,
    /// True if the kernel stopped using the counter as clock source during the run.
    pub counter_distrusted: bool,
    /// Ranks of the host: indices into [`Session::ranks`].
    pub ranks: Vec<u32>,
}

/// Value of one property of the processes, with the number of ranks that have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Surrounding {
    /// Property: `processors`, `processor_model`, `device_model`, `kernel`, `executable`, `rankscope_version`,
    /// `library.nccl.version`, `source.…`, or `env.NAME` for an environment variable.
    pub property: String,
    /// Value of the property, with secrets redacted.
    pub value: String,
    /// Number of ranks with this value.
    pub ranks: u32,
}

vocabulary! {
    /// State in which a rank log ended.
    LogEnding {
        /// The process closed its log.
        Closed = "closed",
        /// The process was killed or crashed. Its last records were found in its live area.
        LiveArea = "live-area",
        /// The process was killed or crashed, and its live area was not found. Its last records are missing.
        Torn = "torn",
        /// The process was still running when the log was read.
        Running = "running",
        /// A state that this version does not know.
        #[serde(other)]
        Unknown = "unknown",
    }
    /// Reach of a communicator over the hosts. Values are ordered by name, as in documents.
    #[derive(Default)]
    Scope {
        /// Each member is on a host of its own.
        AcrossHosts = "across-hosts",
        /// All members are on one host.
        InsideHost = "inside-host",
        /// Some members share a host.
        Mixed = "mixed",
        /// Members are missing, or their hosts are unknown.
        #[default]
        #[serde(other)]
        Unknown = "unknown",
    }
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rank {
    /// Index into [`Session::ranks`].
    pub index: u32,
    /// Index into [`Session::worlds`]; `null` if the rank belongs to no world.
    pub world: Option<u32>,
    /// Index into [`Session::attempts`].
    pub attempt: u32,
    /// Number of the rank in its world.
    pub number: Figure<u32>,
    /// Display name, unique in the session: `rank 3`, with the world if there are several.
    pub name: String,
    /// Index into [`Session::hosts`].
    pub host: u32,
    /// Process ID in the process's own namespace.
    pub pid: u32,
    /// Path of the rank log.
    pub log: String,
    /// Size of the log, in bytes.
    pub log_bytes: u64,
    /// State in which the log ended.
    pub ending: LogEnding,
    /// Rank given by the environment when the first communicator was created.
    pub environment_rank: Option<u32>,
    /// False if environment and communicators disagree, which is a finding; `null` if there is nothing to compare.
    pub environment_agrees: Option<bool>,
    /// Command line, with secrets redacted.
    pub command_line: Option<String>,
    /// Role of the process: the class of its Ray actor, or its role in torchelastic. Missing if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_role: Option<String>,
    /// Time of the first record, in nanoseconds on the axis; unknown without records.
    pub start_ns: Figure<i64>,
    /// Time of the last record, in nanoseconds on the axis; unknown without records.
    pub end_ns: Figure<i64>,
    /// Number of records read.
    pub records: u64,
    /// Number of operations among them.
    pub operations: u64,
    /// Number of lost records, summed over causes (see [`Session::losses`]).
    pub lost: u64,
    /// Operations in progress when the log ended, as text. They help to diagnose a hang.
    pub in_flight: Vec<String>,
    /// Duration of the oldest of these operations, in nanoseconds: until the end of the log, or until it was read if
    /// its process still ran. `null` if there are none.
    #[serde(default)]
    pub in_flight_for_ns: Option<i64>,
    /// Oldest operation that was enqueued on a device and had not completed when the log ended. Missing if there is none,
    /// or if completions are not recorded until the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_on_device: Option<PendingOnDevice>,
}

/// Operation that was enqueued on a device and had not completed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PendingOnDevice {
    /// Kind of operation.
    pub operation: String,
    /// Communicator: index into [`Session::communicators`].
    pub communicator: u32,
    /// Sequence number on the communicator.
    pub sequence: u32,
    /// Number of operations after it on the communicator, which had not completed either.
    pub later: u64,
    /// Time from its request to the last sign of its process, in nanoseconds: the last calibration of its clock, or the
    /// time of reading if it still runs.
    pub for_ns: i64,
    /// Time from the last record of the rank to that sign, in nanoseconds.
    pub silent_for_ns: i64,
}

/// One communicator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommunicatorSummary {
    /// Index into [`Session::communicators`].
    pub index: u32,
    /// Library: `gloo`, `nccl` or `mpi`.
    pub library: String,
    /// Identity in hexadecimal, the same on all members.
    pub identity: String,
    /// Source of the identity: `key-and-blob`, `partial`, `ordinal`, `unique-id` or `self-only`.
    pub identity_source: String,
    /// Number of members.
    pub size: u32,
    /// Members by their number in the communicator, each as an index into [`Session::ranks`]; `null` if a member was
    /// not recorded.
    pub members: Vec<Option<u32>>,
    /// Name under which it was created (store key), for display.
    pub name: String,
    /// Purpose of the communicator. `world` is c10d's default group or the set that numbers the world; `self` has one
    /// member. Others are `tensor`, `pipeline`, `data`, `expert`, `context`, or several of these joined by `+`.
    /// `sub-group` means that the purpose is unknown.
    pub role: String,
    /// Source of the role: `size`, `name` (of the group), `operations` (their use, compared with the members of the
    /// other communicators), or `none`.
    #[serde(default)]
    pub role_source: String,
    /// Reach of the communicator.
    pub scope: Scope,
    /// World of the communicator: index into [`Session::worlds`].
    pub world: Option<u32>,
    /// Time at which the first member created it, in nanoseconds on the axis.
    pub created_ns: i64,
    /// Number of operations on it.
    pub operations: u64,
}
