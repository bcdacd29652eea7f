//! Output of `rankscope top --once --json`: everything that the screen shows.
//!
//! A figure that could not be computed has a reason instead of a value. `docs/METRICS.md` defines each figure.

use rankscope_formats::session::{Figure, Ratio, Severity, schema_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Version of the layout of [`TopDocument`].
pub const TOP_VERSION: u32 = 1;

/// Returns the JSON Schema of [`TopDocument`], in draft 2020-12.
pub fn schema() -> Value {
    let mut schema = schema_of::<TopDocument>(&format!("rankscope top --once --json, version {TOP_VERSION}"));
    schema["properties"]["version"]["const"] = json!(TOP_VERSION);
    schema
}

/// The last seconds of a running job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopDocument {
    /// Version of the layout: [`TOP_VERSION`].
    pub version: u32,
    /// Run directories, as given.
    pub directories: Vec<String>,
    /// Time at which reading began, in nanoseconds since 1970.
    pub read_unix_ns: i64,
    /// Time that reading took, in nanoseconds.
    pub read_for_ns: i64,
    /// The part of the run to which all figures refer.
    pub window: TopWindow,
    /// The newest attempt. All ranks and hosts are those of this attempt.
    pub attempt: TopAttempt,
    /// Number of ranks whose logs were read.
    pub ranks_seen: u32,
    /// Number of ranks that the worlds have.
    pub ranks_expected: Figure<u32>,
    /// Number of ranks whose process runs on this machine.
    pub ranks_running: u32,
    /// Time from the last record of the job to the reading, in nanoseconds.
    pub idle_for_ns: Figure<i64>,
    /// Whole training steps per second.
    pub steps_per_s: Figure<f64>,
    /// Median step time, in nanoseconds.
    pub step_median_ns: Figure<i64>,
    /// Operations per second, over all ranks.
    pub operations_per_s: Figure<f64>,
    /// Payload of the operations per second, over all ranks, in bytes/s.
    pub payload_bytes_per_s: Figure<f64>,
    /// Exposed communication as a share of the ranks' time. Both numbers are in rank-nanoseconds.
    pub exposed_communication: Figure<Ratio>,
    /// Exposed wait as a share of the ranks' time. Both numbers are in rank-nanoseconds.
    pub exposed_wait: Figure<Ratio>,
    /// Number of records that were lost.
    pub lost: u64,
    /// Ranks, by their number.
    pub ranks: Vec<TopRow>,
    /// Hosts, each with the sums of its ranks.
    pub hosts: Vec<TopRow>,
    /// Bandwidth by operation and size class, the classes with the most time first.
    pub bandwidth: Vec<TopClass>,
    /// Findings in the window, the costliest first.
    pub warnings: Vec<TopWarning>,
}

/// Part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopWindow {
    /// Requested length, in nanoseconds.
    pub requested_ns: i64,
    /// Approximate maximum number of records, over all ranks.
    pub most_records: u64,
    /// Length, in nanoseconds.
    pub length_ns: Figure<i64>,
    /// Number of records in it.
    pub records: u64,
    /// True if the limit of records made it shorter than requested.
    pub is_shortened: bool,
}

/// One incarnation of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopAttempt {
    /// Number of the attempt, from 1 on.
    pub number: u32,
    /// Restart count that the launcher gave, 0 for the first attempt.
    pub restart: u32,
    /// Elastic run ID; `null` if the launcher set none.
    pub run_id: Option<String>,
}

/// State of a rank's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TopState {
    /// The process was killed or crashed.
    Killed,
    /// The process closed its log.
    Ended,
    /// The process belongs to another machine. Its last seconds and its state are unknown here.
    Elsewhere,
    /// The process runs on this machine.
    Running,
}

impl TopState {
    /// Returns the name in the table and in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Ended => "ended",
            Self::Elsewhere => "elsewhere",
            Self::Running => "running",
        }
    }
}

/// A rank, or the sums over the ranks of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopRow {
    /// Name of the rank or host.
    pub name: String,
    /// Host of the rank; `null` in a row of a host.
    pub host: Option<String>,
    /// Numbers of the ranks, in ascending order.
    pub rank_numbers: Vec<u32>,
    /// Process ID of the rank; `null` in a row of a host.
    pub pid: Option<u32>,
    /// State of the process. For a host: the first state of any of its ranks, in the order killed, ended, elsewhere,
    /// running.
    pub state: TopState,
    /// Number of ranks.
    pub ranks: u32,
    /// Number of ranks whose process runs on this machine.
    pub running: u32,
    /// Number of operations.
    pub operations: u64,
    /// Operations per second.
    pub operations_per_s: Figure<f64>,
    /// Exposed communication as a share of the time of the ranks. Both numbers are in rank-nanoseconds.
    pub exposed_communication: Figure<Ratio>,
    /// Exposed wait as a share of the time of the ranks. Both numbers are in rank-nanoseconds.
    pub exposed_wait: Figure<Ratio>,
    /// Exposed waiting that these ranks caused on other ranks, in rank-nanoseconds.
    pub caused_exposed_rank_ns: i64,
    /// Launches in which the ranks arrived last, of those with at least two members in which they took part.
    pub last_arrivals: Figure<Ratio>,
    /// Resident memory, last sample in the window, in bytes. For a host: the sum over its ranks.
    pub resident_memory_bytes: Figure<f64>,
    /// Busy processors: mean over the samples in the window, summed over the classes of threads and the ranks.
    pub processors: Figure<f64>,
    /// Memory that is left on the host, last sample in the window, in bytes.
    pub available_memory_bytes: Figure<f64>,
    /// Interface with the most traffic, if the traffic was sampled in the window.
    pub busiest_link: Figure<TopLink>,
    /// Utilization of the GPUs, mean over the samples in the window and the GPUs, in percent.
    pub gpu_utilization_percent: Figure<f64>,
    /// Operation in progress for the longest time; `null` if there is none.
    pub in_call: Option<String>,
    /// Duration of the operation in progress for the longest time, in nanoseconds. It includes the time that reading
    /// took.
    pub in_call_for_ns: Option<i64>,
    /// Number of lost records.
    pub lost: u64,
}

/// Traffic of a network interface: means over the samples in the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopLink {
    /// Name of the interface.
    pub name: String,
    /// Received traffic, in bytes/s.
    pub received_bytes_per_s: f64,
    /// Sent traffic, in bytes/s.
    pub sent_bytes_per_s: f64,
}

/// Operations of one kind, size class and scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopClass {
    /// Name of the operation.
    pub operation: String,
    /// Range of the payload, for display: `64–128 KiB`; `null` if sizes are unknown.
    pub size: Option<String>,
    /// Smallest payload of the class, in bytes; `null` if sizes are unknown.
    pub size_from_bytes: Option<u64>,
    /// First payload above the class, in bytes; `null` if sizes are unknown.
    pub size_below_bytes: Option<u64>,
    /// Role of the communicators.
    pub role: String,
    /// Number of members of the communicators.
    pub members: u32,
    /// Calls per second over all ranks, or launches per second of groups.
    pub operations_per_s: Figure<f64>,
    /// Median transfer time, in nanoseconds.
    pub transfer_p50_ns: Figure<f64>,
    /// Median bus bandwidth, in bytes/s.
    pub bus_bytes_per_s: Figure<f64>,
    /// Median effective bandwidth, waits included, in bytes/s.
    pub effective_bytes_per_s: Figure<f64>,
    /// Σ exposed wait over ranks, in rank-nanoseconds.
    pub exposed_wait_rank_ns: i64,
}

/// Finding in the window. `rankscope rules` explains each kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopWarning {
    /// Kind of the finding.
    pub kind: String,
    /// Rank, pair of ranks, or host that the finding is about; `null` if it is about more. Kind and subject identify a
    /// finding in consecutive windows.
    #[serde(default)]
    pub subject: Option<String>,
    /// Severity.
    pub severity: Severity,
    /// Title: one sentence with numbers and units.
    pub title: String,
    /// Evidence, one sentence each.
    pub evidence: Vec<String>,
    /// Advice; `null` if there is none.
    pub advice: Option<String>,
    /// Cost as a share of the window, both in nanoseconds.
    pub cost_of_window: Figure<Ratio>,
}
