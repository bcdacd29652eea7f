//! `session.json`: the data of the summary and of the report.
//!
//! The name of every figure contains its unit. A [`Figure`] that could not be computed has a reason instead of a value;
//! it is never 0 or NaN. Lists that could grow without bound are cut, and their totals are stored beside them.

use super::imported::Imported;
use super::part::Part;
use super::pauses::{Counted, NamedTimes};
use super::structure::WorldStructure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// Version of this layout. A reader rejects newer versions.
pub const SESSION_VERSION: u32 = 1;

/// A number, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure<T> {
    /// The number; `null` if it could not be computed.
    pub value: Option<T>,
    /// Reason why there is no number; `null` if there is one.
    pub reason: Option<String>,
}

impl<T> Figure<T> {
    /// Creates a figure with a number.
    pub fn known(value: T) -> Self {
        Self {
            value: Some(value),
            reason: None,
        }
    }

    /// Creates a figure without a number, with the reason.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self {
            value: None,
            reason: Some(reason.into()),
        }
    }

    /// Returns the number, or the reason.
    pub fn get(&self) -> Result<&T, &str> {
        self.value
            .as_ref()
            .ok_or_else(|| self.reason.as_deref().unwrap_or("not computed"))
    }
}

/// Percentage with the numbers from which it was computed. The share is `numerator / denominator`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// Numerator, in the unit that the field of this ratio names.
    pub numerator: i64,
    /// Denominator, in the same unit; above 0.
    pub denominator: i64,
}

impl Ratio {
    /// Creates a ratio, or a figure with the reason if the denominator is 0.
    pub fn figure(numerator: i64, denominator: i64, reason_if_zero: &str) -> Figure<Self> {
        if denominator > 0 {
            Figure::known(Self {
                numerator,
                denominator,
            })
        } else {
            Figure::unknown(reason_if_zero)
        }
    }

    /// Returns the share. It is 0 to 1 if the numerator is a part of the denominator.
    pub fn share(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

/// Quantiles from a sketch, in the unit that the field of these quantiles names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// Minimum, exact.
    pub min: f64,
    /// Lower quartile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Upper quartile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum, exact.
    pub max: f64,
    /// Sum, exact.
    pub sum: f64,
    /// Maximum relative error of the percentiles; 0.01 is one percent.
    pub relative_error: f64,
}

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

/// Time axis of the session: nanoseconds since its first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// Wall-clock time of the axis's zero, in nanoseconds since 1970, by the clock of the reference host.
    pub origin_unix_ns: i64,
    /// Time of the first record, in nanoseconds on the axis.
    pub start_ns: i64,
    /// Time of the last record, in nanoseconds on the axis.
    pub end_ns: i64,
    /// Largest clock error between any two hosts, ± nanoseconds; 0 with one host. Unknown if a clock is not
    /// synchronised and no evidence bounds it.
    pub error_between_hosts_ns: Figure<i64>,
    /// Largest error of the conversion inside a host, ± nanoseconds.
    pub error_inside_host_ns: i64,
    /// Method that aligned the hosts: `one-host`, `realtime` (only by their wall clocks) or `messages` (by what the
    /// job's operations prove about the clocks).
    pub method: String,
    /// Clock evidence of the job's operations; absent with one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<AxisEvidence>,
}

/// Clock evidence: bounds that the operations of a job prove for the clocks of its hosts (METRICS.md, section 4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AxisEvidence {
    /// Root: the host whose clock is the axis, as an index into [`Session::hosts`]. Hosts that nothing ties to the root
    /// keep their own time.
    pub root_host: u32,
    /// Number of pairs of hosts.
    pub pairs_total: u64,
    /// Number of pairs with unbounded clock offsets, at least in one direction and for some time.
    pub pairs_unbounded: u64,
    /// Pairs of hosts, at most [`AxisEvidence::MAX_LISTED`]. Unbounded pairs come first, then those with the largest
    /// error.
    pub pairs: Vec<ClockPair>,
    /// Number of messages inside collectives between hosts of which both ends were recorded.
    pub messages: u64,
    /// Number of held-out instances: instances between hosts that the axis was not fitted to, about half of them.
    pub held_out_instances: u64,
    /// Number of held-out instances in which a member left before a needed member had entered, by the wall clocks.
    pub violations_before: u64,
    /// The same number on the axis. Instances that are marked as mismatched are excluded.
    pub violations_after: u64,
    /// Number of instances that no clock offset can explain: their calls do not belong together. They are listed in
    /// [`Session::matching`].
    pub mismatched_instances: u64,
    /// Hosts whose wall clock claims to be synchronised and contradicts the job's operations, as indices into
    /// [`Session::hosts`].
    pub wrong_wall_clocks: Vec<u32>,
    /// Number of time spans in which the evidence of several pairs is contradictory.
    pub contradictory_stretches: u64,
}

impl AxisEvidence {
    /// Maximum number of listed pairs.
    pub const MAX_LISTED: usize = 128;
    /// Maximum number of listed segments per pair.
    pub const MAX_SEGMENTS: usize = 64;
}

/// Offset between the clocks of two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockPair {
    /// First host: index into [`Session::hosts`].
    pub one: u32,
    /// Second host: index into [`Session::hosts`].
    pub other: u32,
    /// Largest error of a time between these hosts, ± nanoseconds; unknown if nothing bounds it.
    pub error_ns: Figure<i64>,
    /// Number of instances and messages that bound the offset directly.
    pub sightings: u64,
    /// Number of these that were left out because they contradict the others.
    pub left_out: u64,
    /// Time spans in which no clock jumped.
    pub segments: Vec<ClockSegment>,
}

/// Time span in which no clock jumped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockSegment {
    /// Start, in nanoseconds on the axis.
    pub start_ns: i64,
    /// End, in nanoseconds on the axis.
    pub end_ns: i64,
    /// Basis of the assumed offset: `leaves-coincide` (operations that all members leave together) or `wall-clocks`.
    pub assumed_from: String,
    /// Offset at certain times; linear in between.
    pub knots: Vec<ClockKnot>,
}

/// Offset at a certain time: the second clock minus the first, both as set by their wall clocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockKnot {
    /// Time of the knot, in nanoseconds on the axis.
    pub at_ns: i64,
    /// Lower bound of the offset, in nanoseconds; `null` if nothing bounds it. [`ClockPair::error_ns`] contains the
    /// reason.
    pub low_ns: Option<i64>,
    /// Upper bound of the offset, in nanoseconds; `null` if nothing bounds it.
    pub high_ns: Option<i64>,
    /// Assumed offset, in nanoseconds. The axis uses it.
    pub assumed_ns: i64,
}

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
    /// Ending of the log: `closed`, `live-area`, `torn` or `running`.
    pub ending: String,
    /// Rank given by the environment when the first communicator was created.
    pub environment_rank: Option<u32>,
    /// False if environment and communicators disagree, which is a finding; `null` if there is nothing to compare.
    pub environment_agrees: Option<bool>,
    /// Command line, with secrets redacted.
    pub command_line: Option<String>,
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
    /// Reach of the communicator: `inside-host`, `across-hosts`, `mixed`, or `unknown` if members are missing.
    pub scope: String,
    /// World of the communicator: index into [`Session::worlds`].
    pub world: Option<u32>,
    /// Time at which the first member created it, in nanoseconds on the axis.
    pub created_ns: i64,
    /// Number of operations on it.
    pub operations: u64,
}

/// Sums over the session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Number of operations (calls of one rank), without the building of communicators.
    pub operations: u64,
    /// Number of instances (matched calls of all members).
    pub instances: u64,
    /// Payload of all operations, in bytes.
    pub bytes: u64,
    /// Number of operations that failed.
    pub failed: u64,
    /// Number of operations in progress when their log ended.
    pub in_flight: u64,
    /// Number of operations that were put on a device's stream and whose completion was not recorded.
    pub enqueued: u64,
    /// Number of calls that were captured into graphs. They are not operations. These totals exclude the work of
    /// the replays.
    pub captured: u64,
    /// Σ exposed wait over ranks, in rank-nanoseconds.
    pub exposed_wait_rank_ns: i64,
    /// Σ hidden wait over ranks, in rank-nanoseconds: waits that computation hides.
    pub hidden_wait_rank_ns: i64,
    /// Number of records read.
    pub records: u64,
    /// Number of lost records.
    pub lost: u64,
}

/// Operations of one kind, size class, library and scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationClass {
    /// Library that was called: `gloo`, `nccl` or `mpi`.
    pub library: String,
    /// Name of the operation, such as `all-reduce`.
    pub operation: String,
    /// Smallest payload c·e of the class, in bytes; `null` if sizes are unknown.
    pub size_from_bytes: Option<u64>,
    /// First payload above the class, in bytes; `null` if sizes are unknown.
    pub size_below_bytes: Option<u64>,
    /// Role of the communicators: see [`CommunicatorSummary::role`].
    pub role: String,
    /// Scope of the communicators: see [`CommunicatorSummary::scope`].
    pub scope: String,
    /// Number of members of the communicators.
    pub members: u32,
    /// True for launches of several of these operations (METRICS.md, section 1). Sizes are then the sum over the
    /// operations of a launch.
    #[serde(default)]
    pub launches: bool,
    /// Number of calls over all ranks, or of launches if `launches` is true.
    pub operations: u64,
    /// Number of completed calls that share their launch with others. Their duration, waits and bandwidth are reported
    /// for the launch.
    #[serde(default)]
    pub shared: u64,
    /// Number of complete instances with figures in this class. Instances of collectives that share a launch are
    /// counted with the launch.
    pub instances: u64,
    /// Number of calls that failed.
    pub failed: u64,
    /// Payload over all calls, in bytes; unknown if the library's structures could not be read.
    pub bytes: Figure<u64>,
    /// Duration of a call from enter to leave, in nanoseconds.
    pub duration_ns: Figure<Quantiles>,
    /// Time of a call from issue to enter, in nanoseconds; unknown if there is no queue.
    pub queue_ns: Figure<Quantiles>,
    /// Σ exposed wait over ranks, in rank-nanoseconds.
    pub exposed_wait_rank_ns: i64,
    /// Σ hidden wait over ranks, in rank-nanoseconds.
    pub hidden_wait_rank_ns: i64,
    /// True if counts per member were not recorded, so that waits are upper bounds.
    pub wait_is_upper_bound: bool,
    /// Transfer time of an instance, in nanoseconds.
    pub transfer_ns: Figure<Quantiles>,
    /// Algorithm bandwidth S / t of launches with a wait share ≤ 20 %, in bytes/s.
    pub algorithm_bytes_per_s: Figure<Quantiles>,
    /// Bus bandwidth of the same launches, in bytes/s.
    pub bus_bytes_per_s: Figure<Quantiles>,
    /// Effective bandwidth of all complete instances: S over the time from the first enter to the last leave, in
    /// bytes/s.
    pub effective_bytes_per_s: Figure<Quantiles>,
    /// Number of launches whose t is the shortest member duration, because the clock interval exceeds 10 % of the
    /// transfer.
    pub shortest_duration_used: u64,
    /// Number of launches with t ≤ 0, which are excluded from the bandwidth.
    pub bandwidth_invalid: u64,
    /// Number of launches per wait class.
    pub classes: ClassCounts,
    /// Sums over transfer-bound launches with a bandwidth. The use of a peak is computed from them.
    #[serde(default)]
    pub transfer_bound: TransferBound,
    /// Launch with the longest transfer; `null` if there is none.
    #[serde(default)]
    pub slowest: Option<LookAt>,
    /// Largest latency that three consecutive launches all reach, in nanoseconds: the maximum, over all groups of three
    /// consecutive launches, of the group's shortest transfer. A limit below it was exceeded three times in a row.
    /// Unknown with fewer than three launches.
    #[serde(default = "fewer_than_three")]
    pub longest_three_in_a_row_ns: Figure<i64>,
}

fn fewer_than_three() -> Figure<i64> {
    Figure::unknown("fewer than three launches have a transfer")
}

/// Sums over launches with a bandwidth (METRICS.md, section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransferBound {
    /// Number of launches.
    pub launches: u64,
    /// Σ S·f, in bytes.
    pub bus_bytes: f64,
    /// Σ t, in nanoseconds.
    pub transfer_ns: f64,
}

/// Transfers of launches of at most 64 KiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SmallLaunches {
    /// Scope of the communicators: see [`CommunicatorSummary::scope`].
    pub scope: String,
    /// Transfer time, in nanoseconds.
    pub transfer_ns: Quantiles,
}

/// Number of launches per wait class (METRICS.md, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassCounts {
    /// Launches with a wait share ≤ 20 %.
    pub transfer_bound: u64,
    /// Launches with a wait share ≥ 80 %.
    pub skew_bound: u64,
    /// Launches with a wait share between 20 % and 80 %.
    pub mixed: u64,
    /// Launches in which the two ends of the clock interval give different classes.
    pub inconclusive: u64,
    /// Launches with one member, without dependencies, or not complete.
    pub none: u64,
}

/// Time spent building communicators, which is kept separate from operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connect {
    /// Number of calls over all ranks.
    pub calls: u64,
    /// Number of calls that failed.
    pub failed: u64,
    /// Σ duration over ranks, in rank-nanoseconds.
    pub duration_rank_ns: i64,
    /// Duration of the longest call, in nanoseconds.
    pub longest_ns: i64,
}

/// Steps of the job (METRICS.md, section 7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steps {
    /// Source of the steps: `marks`, `pattern`, `pattern-with-sizes` or `none`.
    pub source: String,
    /// The repeating sequence, for display.
    pub pattern: Option<String>,
    /// Share of the reference rank's operations that the pattern explains. Below 0.9 there are no steps.
    pub confidence: Figure<f64>,
    /// Explained operations and all operations: the numbers of `confidence`.
    pub explained_operations: Figure<Ratio>,
    /// Number of whole training steps that all ranks of their world have. All figures of steps refer to them.
    pub count: u64,
    /// Number of whole steps that are mostly evaluation, or mostly the writing or reading of a checkpoint.
    #[serde(default)]
    pub other_kinds: u64,
    /// Tokens or samples that the program counts in the steps; empty if it counts nothing.
    #[serde(default)]
    pub counted: Vec<Counted>,
    /// Step time over all ranks and steps, in nanoseconds.
    pub duration_ns: Figure<Quantiles>,
    /// Median step time, in nanoseconds.
    pub median_ns: Figure<i64>,
    /// Number of steps per entry of `list`: 1 unless the run is long.
    pub steps_per_entry: u32,
    /// One entry per step, or per group of steps in a long run.
    pub list: Vec<StepSummary>,
}

/// One step over all ranks, or the means of a group of steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepSummary {
    /// Index into [`Session::worlds`].
    pub world: u32,
    /// First step of the entry.
    pub step: u64,
    /// Number of steps in the entry.
    pub steps: u32,
    /// Earliest start over ranks of the first step, in nanoseconds on the axis.
    pub start_ns: i64,
    /// Latest end over ranks of the last step, in nanoseconds on the axis.
    pub end_ns: i64,
    /// Longest step time over ranks, as the mean over the entry's steps, in nanoseconds.
    pub duration_ns: i64,
    /// Σ exposed wait over ranks, as the mean over the entry's steps, in rank-nanoseconds.
    pub exposed_wait_rank_ns: i64,
    /// Rank that most often has the largest own delay in the entry's steps.
    pub latest_rank: Option<u32>,
    /// Own delay of that rank, as the mean over the entry's steps, in nanoseconds.
    pub latest_delay_ns: Option<i64>,
}

/// Breakdown of one rank's time (METRICS.md, section 5, host-only ranks). Host time, exposed communication and other
/// blocked time add up to the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankBreakdown {
    /// Index into [`Session::ranks`].
    pub rank: u32,
    /// Window: `steps` (all whole steps) or `run` (first to last record).
    pub window: String,
    /// Duration of the window, in nanoseconds.
    pub window_ns: i64,
    /// Number of steps in the window.
    pub steps: u64,
    /// Host time: time in which the training thread was not blocked for communication, in nanoseconds.
    pub host_ns: i64,
    /// Exposed communication: time blocked while operations ran, in nanoseconds.
    pub exposed_communication_ns: i64,
    /// Time blocked while no operation ran, such as queueing and bookkeeping, in nanoseconds.
    pub other_blocked_ns: i64,
    /// Communication at library level, overlapped or not, in nanoseconds.
    pub communication_ns: i64,
    /// Part of the exposed communication that is waiting for peers, in nanoseconds. The rest is transfer.
    pub exposed_wait_ns: i64,
    /// Waiting for peers while the program computed, in nanoseconds.
    pub hidden_wait_ns: i64,
    /// Time from issue to enter, as a union over operations, in nanoseconds; unknown if nothing is queued.
    pub queued_ns: Figure<i64>,
    /// Overlap: the share of communication that computation hides. Both numbers are in nanoseconds. A missing value,
    /// displayed as "–", has a reason.
    pub overlap: Figure<Ratio>,
    /// Number of operations that were put on a device's stream and whose completion time is unknown. Host time,
    /// communication and waiting exclude them.
    pub operations_without_times: u64,
    /// Number of operations whose times come from a device. Their overlap cannot be computed without the other kernels
    /// of the device. The figures here exclude them.
    pub operations_on_device: u64,
    /// Completed operations with a recorded wait or test on an issuing thread, and all completed operations.
    pub operations_with_wait_seen: Figure<Ratio>,
    /// Number of training threads: threads that issued operations. With several, blocked time is that of the thread
    /// that was blocked most.
    pub training_threads: u32,
    /// False if the parts do not add up to the window. This is a bug; it is reported, with exit code 3.
    pub adds_up: bool,
}

impl RankBreakdown {
    /// Returns true if these parts exclude some communication. Their figures of communication are then incomplete.
    pub fn leaves_out(&self) -> bool {
        self.operations_without_times + self.operations_on_device > 0
    }
}

/// Device times that a library reported for one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceSource {
    /// Index into [`Session::ranks`].
    pub rank: u32,
    /// Source of the times: `NCCL profiler plugin, version 5`, `events around launches`, or both.
    pub source: String,
    /// Number of operations with device times, replays included.
    pub operations: u64,
    /// Number of operations whose times come from a pair of events around the whole launch. Their start is at or after
    /// the first event. It may be later by the time that the host took for the launch.
    #[serde(default)]
    pub timed_by_events: u64,
    /// Number of replays of captured calls.
    pub replays: u64,
    /// Number of calls that bypassed the hooks, so that only this source recorded them.
    pub bypassed: u64,
    /// Number of calls that the hooks recorded and this source did not. Examples are a copy on one rank, an empty
    /// collective, and work that the library does not report.
    pub hooks_only: u64,
    /// Number of device records that belong to no call.
    pub without_call: u64,
    /// Drift of the host's clock relative to the device's, in ppm. Positive if the host's clock runs faster.
    pub drift_ppm: Figure<f64>,
    /// Upper bound of the error by which device times may be too late on the axis, in nanoseconds.
    pub widest_error_ns: Figure<i64>,
    /// Median of that error, in nanoseconds.
    pub median_error_ns: Figure<i64>,
    /// Number of spans of 30 s in which the bounds of the clock contradict each other.
    pub contradictions: u64,
}

/// Activity of one rank's devices, as CUPTI reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceActivity {
    /// Index into [`Session::ranks`].
    pub rank: u32,
    /// Version of CUPTI.
    pub cupti: String,
    /// Reason why recording ended early or did not start; `null` if it was complete.
    pub reason: Option<String>,
    /// Streams on which work ran.
    pub streams: Vec<DeviceStream>,
    /// Number of compute kernels.
    pub kernels: u64,
    /// Number of communication kernels.
    pub communication_kernels: u64,
    /// Number of memory copies.
    pub copies: u64,
    /// Number of memory sets.
    pub sets: u64,
    /// Number of graphs.
    pub graphs: u64,
    /// Number of works that could not be recorded, over all causes (see [`Session::losses`]).
    pub lost: u64,
    /// Number of works whose launch was recorded.
    pub with_launch: u64,
    /// Number of recorded launches without recorded work. The work was not delivered when the log ended, or there was
    /// none.
    pub launches_without_work: u64,
    /// Number of communication calls that put work on a stream, but for which neither a kernel nor any other time was
    /// recorded.
    #[serde(default)]
    pub calls_without_kernel: u64,
    /// Number of communication kernels that belong to no known call.
    pub without_call: u64,
    /// Number of communication kernels whose call is known only by their order on the stream.
    #[serde(default)]
    pub by_order: u64,
    /// Time in which all activity was recorded, in nanoseconds.
    pub covered_ns: i64,
    /// Time in which only communication activity was recorded, in nanoseconds.
    pub covered_communication_ns: i64,
    /// Time in which another profiler had taken over CUPTI's activity records, in nanoseconds.
    pub yielded_ns: i64,
    /// Part of `covered_ns` in which the recorder (CUPTI) worked for itself on some thread of the rank, in nanoseconds.
    /// It is the union of spans of kind `recorder`: simultaneous spans of several threads count once. Time of the
    /// driver is not included.
    #[serde(default = "overhead_not_asked_for")]
    pub recorder_ns: Figure<i64>,
    /// Time until which activity was delivered, in nanoseconds on the axis. Later activity of the device is unknown.
    pub delivered_until_ns: Option<i64>,
    /// Upper bound of the error by which device times may be too early on the axis: the shortest time from a launch to
    /// its work, in nanoseconds.
    pub shortest_launch_ns: Figure<i64>,
    /// Upper bound of the error by which device times may be too late: the shortest time from the end of a work to the
    /// return of the call that waited for it, in nanoseconds.
    pub shortest_wait_ns: Figure<i64>,
    /// Window of the parts (METRICS.md, section 5): the time in which everything was recorded, as whole steps if there
    /// are any.
    pub window: String,
    /// Duration of the window, in nanoseconds.
    pub window_ns: i64,
    /// Compute without communication, in nanoseconds.
    pub compute_only_ns: i64,
    /// Compute and communication at the same time, in nanoseconds.
    pub overlapped_ns: i64,
    /// Communication without compute, waiting for peers included, in nanoseconds.
    pub exposed_communication_ns: i64,
    /// Part of the exposed communication that is waiting for peers, in nanoseconds. The rest is transfer.
    pub exposed_wait_ns: i64,
    /// Memory copies and sets without compute and communication, in nanoseconds.
    pub exposed_memory_ns: i64,
    /// Idle time, in nanoseconds.
    pub idle_ns: i64,
    /// Overlap: the share of communication during which the device also computed. Both numbers are in nanoseconds. A
    /// missing value, displayed as "–", has a reason.
    pub overlap: Figure<Ratio>,
    /// Idle gaps of streams per cause, over all streams.
    pub idle_by_cause: Vec<IdleSum>,
    /// Stalls: intervals of at least 1 ms without compute.
    #[serde(default)]
    pub device_stalls: DeviceStalls,
    /// Recurring stalls (METRICS.md, section 6): intervals without compute, of any length, that recur at the same
    /// place. They occur in at least 20 % of the steps and take at least 1 % of each. The list has those with the most
    /// time.
    #[serde(default)]
    pub recurring_stalls: Vec<RecurringStall>,
    /// Kernels with the most time.
    pub top: Vec<KernelSum>,
    /// False if the parts do not add up to the window. This is a bug; it is reported, with exit code 3.
    pub adds_up: bool,
}

fn overhead_not_asked_for() -> Figure<i64> {
    Figure::unknown("the recorder's overhead was not recorded")
}

/// Stream of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceStream {
    /// Ordinal of the device in its process.
    pub device: u32,
    /// CUPTI's ID of the context.
    pub context: u32,
    /// CUPTI's ID of the stream.
    pub number: u32,
}

/// Idle gaps with one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdleSum {
    /// Cause: `host-wait`, `kernel-wait`, `other` or `unknown` (METRICS.md, section 6).
    pub cause: String,
    /// Number of gaps.
    pub count: u64,
    /// Duration of the gaps, in nanoseconds.
    pub ns: i64,
}

/// All executions of one kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelSum {
    /// Name of the kernel.
    pub name: String,
    /// Number of executions.
    pub count: u64,
    /// Total duration, in nanoseconds.
    pub ns: i64,
}

/// Stalls of one rank's devices (METRICS.md, section 6).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceStalls {
    /// Number of stalls.
    pub count: u64,
    /// Duration of the stalls, in nanoseconds.
    pub ns: i64,
    /// Stalls per cause ([`super::StallCause`]).
    pub by_cause: Vec<CauseSum>,
    /// Waiting in the stalls by the rank that was waited for; the list has those with the most time.
    pub by_late_rank: Vec<LateSum>,
}

/// Stalls with one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseSum {
    /// Cause of the stalls.
    pub cause: String,
    /// Number of stalls.
    pub count: u64,
    /// Duration of the stalls, in nanoseconds.
    pub ns: i64,
}

/// Waiting for one rank in stalls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LateSum {
    /// Rank that was waited for: index into [`Session::ranks`].
    pub rank: u32,
    /// Number of stalls in which that rank was waited for.
    pub count: u64,
    /// Waiting for that rank in these stalls, in nanoseconds.
    pub ns: i64,
}

/// Recurring stall: intervals without compute at one place of a step, which is the next kernel plus the cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecurringStall {
    /// Readable name of the kernel that ended the intervals.
    pub before: String,
    /// Cause, as far as one rank alone can determine it ([`super::StallCause`]).
    pub cause: String,
    /// Number of steps in which the intervals took at least 1 % of the step.
    pub steps: u64,
    /// Number of steps that were examined.
    pub of_steps: u64,
    /// Duration of the intervals in the counted `steps`, in nanoseconds.
    pub ns: i64,
}

/// Traffic of a rank's proxies to and from one peer of a communicator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeerTraffic {
    /// Index into [`Session::ranks`].
    pub rank: u32,
    /// Index into [`Session::communicators`]; `null` if unknown.
    pub communicator: Option<u32>,
    /// Number of the peer in that communicator.
    pub peer: u32,
    /// Peer as an index into [`Session::ranks`], if it was recorded.
    pub peer_rank: Option<u32>,
    /// Bytes on the wire to the peer.
    pub sent_bytes: u64,
    /// Bytes on the wire from the peer.
    pub received_bytes: u64,
    /// Number of work items of proxies for the peer: one per operation, channel and direction.
    pub works: u64,
    /// Time in which steps of the proxies waited for the device, in nanoseconds. Steps overlap.
    pub device_wait_ns: i64,
    /// Time in which steps waited for the peer to provide a buffer, in nanoseconds. Steps overlap.
    pub peer_wait_ns: i64,
    /// Time in which steps waited for the network, in nanoseconds. Steps overlap.
    pub network_wait_ns: i64,
}

/// Waits per rank and step, for display as a heat map. The table `steps` has the exact rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitMatrix {
    /// Ranks, one per row: indices into [`Session::ranks`].
    pub ranks: Vec<u32>,
    /// First step of each column.
    pub steps: Vec<u64>,
    /// Number of steps per column. Values are means over them.
    pub steps_per_column: u32,
    /// Exposed wait per step, in nanoseconds: one row per rank and one column per step (or group of steps). `null` if
    /// the rank lacks the step.
    pub exposed_wait_ns: Vec<Vec<Option<i64>>>,
    /// Exposed communication per step, in nanoseconds: exposed wait plus exposed transfer; same shape.
    #[serde(default)]
    pub exposed_communication_ns: Vec<Vec<Option<i64>>>,
    /// Own delay relative to the median of the peers, in nanoseconds per step (METRICS.md, section 8); same shape.
    pub own_delay_ns: Vec<Vec<Option<i64>>>,
    /// Step time, in nanoseconds; same shape.
    pub duration_ns: Vec<Vec<Option<i64>>>,
    /// Reason why the matrix is empty; `null` if it is not.
    pub reason: Option<String>,
}

/// Blame: waiting that each rank caused over the whole run, skew of the start-up included (METRICS.md, section 8).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Blame {
    /// Blame per rank, the costliest rank first.
    pub ranks: Vec<RankBlame>,
    /// Σ of all waiting from arrivals, in rank-nanoseconds: the sum of the ranks' `caused_rank_ns`.
    pub total_rank_ns: i64,
    /// Exposed part of `total_rank_ns`, in rank-nanoseconds.
    pub total_exposed_rank_ns: i64,
}

/// Blame of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankBlame {
    /// Index into [`Session::ranks`].
    pub rank: u32,
    /// Waiting that the rank caused, as Σ over the ranks that waited, in rank-nanoseconds.
    pub caused_rank_ns: i64,
    /// Part of `caused_rank_ns` in which the waiting program was blocked, in rank-nanoseconds.
    pub caused_exposed_rank_ns: i64,
    /// Time by which the job would have continued earlier without this rank: last minus second-last arrival, as a union
    /// over launches, in nanoseconds.
    pub job_lost_ns: i64,
    /// Part of `job_lost_ns` in which the second-last rank was blocked, in nanoseconds. This is the possible gain of
    /// the job.
    pub job_lost_exposed_ns: i64,
    /// Part of `caused_exposed_rank_ns` inside training steps, without start-up, in rank-nanoseconds; 0 without steps.
    pub caused_exposed_in_steps_rank_ns: i64,
    /// Part of `job_lost_exposed_ns` inside training steps, without start-up, in nanoseconds; 0 without steps.
    pub job_lost_exposed_in_steps_ns: i64,
    /// Number of launches in which the rank arrived last.
    pub last_arrivals: u64,
    /// Number of launches with at least two members in which the rank took part.
    pub launches: u64,
}

/// Finding about the run. `rankscope rules` prints the meaning of each kind, its condition, and when it stays silent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Rule that fired, such as `late-rank` or `small-buckets`. `rankscope rules` lists all of them.
    pub kind: String,
    /// Severity: `critical`, `warning` or `note`.
    pub severity: String,
    /// Subject for the first sentence of a report, such as `rank 3` or `host b`.
    #[serde(default)]
    pub subject: Option<String>,
    /// Title: one sentence with numbers and units.
    pub title: String,
    /// Evidence, one sentence each.
    pub evidence: Vec<String>,
    /// Probable cause; `null` if unknown.
    #[serde(default)]
    pub cause: Option<String>,
    /// Advice; `null` if there is none.
    pub advice: Option<String>,
    /// Conditions that were checked, in order. All of them hold.
    #[serde(default)]
    pub path: Vec<Condition>,
    /// Affected ranks: indices into [`Session::ranks`].
    pub ranks: Vec<u32>,
    /// Affected hosts: indices into [`Session::hosts`].
    #[serde(default)]
    pub hosts: Vec<u32>,
    /// Time spans to inspect in the trace, the most significant first; at most [`Finding::MAX_TO_LOOK_AT`].
    #[serde(default)]
    pub look_at: Vec<LookAt>,
    /// Cost in the job's time, in nanoseconds; unknown if it cannot be determined.
    pub cost_ns: Figure<i64>,
    /// Formula of the cost; `null` if the cost is unknown.
    #[serde(default)]
    pub cost_basis: Option<String>,
    /// Parts of the job's time that contain the cost: `waiting`, `transfer`, `host`, `device-idle` or `outside-steps`.
    #[serde(default)]
    pub lies_in: Vec<String>,
    /// Part of the cost that the findings of `shared_with` may contain too, in nanoseconds. Findings are ordered by the
    /// rest, so that no second counts twice.
    #[serde(default)]
    pub shared_ns: i64,
    /// Kinds of the findings that may contain the shared part too.
    #[serde(default)]
    pub shared_with: Vec<String>,
    /// Cost per step as a share of the median step, both in nanoseconds.
    pub cost_of_step: Figure<Ratio>,
    /// Cost as a share of the run, both in nanoseconds.
    #[serde(default = "no_cost")]
    pub cost_of_run: Figure<Ratio>,
    /// Details of a finding about lateness.
    pub lateness: Option<Lateness>,
}

fn no_cost() -> Figure<Ratio> {
    Figure::unknown(Finding::NO_COST)
}

impl Finding {
    /// Maximum number of time spans to inspect.
    pub const MAX_TO_LOOK_AT: usize = 3;
    /// Reason why most findings without a cost have none.
    pub const NO_COST: &str = "this finding has no cost of its own";

    /// Creates a finding with default values for everything else.
    pub fn new(kind: &str, severity: &str, title: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            severity: severity.to_owned(),
            subject: None,
            title: title.into(),
            evidence: Vec::new(),
            cause: None,
            advice: None,
            path: Vec::new(),
            ranks: Vec::new(),
            hosts: Vec::new(),
            look_at: Vec::new(),
            cost_ns: Figure::unknown(Self::NO_COST),
            cost_basis: None,
            lies_in: Vec::new(),
            shared_ns: 0,
            shared_with: Vec::new(),
            cost_of_step: Figure::unknown(Self::NO_COST),
            cost_of_run: Figure::unknown(Self::NO_COST),
            lateness: None,
        }
    }

    /// Returns the cost without the part that other findings may contain, in nanoseconds; 0 if the cost is unknown.
    pub fn own_cost_ns(&self) -> i64 {
        (self.cost_ns.value.unwrap_or(0) - self.shared_ns).max(0)
    }
}

/// Condition that was checked and holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// Checked quantity.
    pub what: String,
    /// Value of the quantity.
    pub value: f64,
    /// Comparison: `>=`, `>`, `<=`, `<` or `=`.
    pub is: String,
    /// Limit of the comparison.
    pub limit: f64,
    /// Unit of both numbers: `ns`, `%`, `bytes`, or empty for numbers without a unit.
    pub unit: String,
}

/// Time span to inspect in the trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LookAt {
    /// Short description of what happens there.
    pub what: String,
    /// Index into [`Session::ranks`], if a rank is concerned.
    pub rank: Option<u32>,
    /// Number of the instance in the table `instances`, if the time span is an instance.
    pub instance: Option<u64>,
    /// Step that contains the time span, if any.
    pub step: Option<u64>,
    /// Start, in nanoseconds on the axis.
    pub start_ns: i64,
    /// End, in nanoseconds on the axis.
    pub end_ns: i64,
}

/// Scorecard of a run (METRICS.md, section 9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scorecard {
    /// The four dimensions: `bandwidth`, `latency`, `balance` and `stability`.
    pub dimensions: Vec<Score>,
    /// Total by weights. If a dimension is unknown, the other weights are scaled to 100 %. A missing value, displayed
    /// as "–", has a reason.
    pub total: Figure<f64>,
    /// Total without the cap; unknown if it was not capped.
    pub uncapped: Figure<f64>,
    /// Kind of the finding that caps the total at 69. It does so while it costs more than 10 % of the run.
    pub capped_by: Option<String>,
    /// Grade: `excellent` (≥ 85), `good` (70–84) or `needs work` (< 70); `null` without a total.
    pub grade: Option<String>,
}

/// One dimension of a scorecard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// Name of the dimension.
    pub name: String,
    /// Score from 0 to 100. A missing value, displayed as "–", has a reason.
    pub score: Figure<f64>,
    /// Weight in METRICS.md, in percent.
    pub weight_percent: u32,
    /// Weight in this total, in percent; unknown if the dimension or the total is unknown.
    pub applied_percent: Figure<f64>,
    /// Numerator of the score's ratio, in `unit`; unknown if the score is unknown.
    pub numerator: Figure<f64>,
    /// Denominator of the score's ratio, in `unit`; unknown if the score is unknown.
    pub denominator: Figure<f64>,
    /// Unit of numerator and denominator: `ns` or `bytes`.
    pub unit: String,
    /// Definition of the ratio and of the score that follows from it, in one sentence with the figures.
    pub basis: String,
}

/// Lateness of a rank (METRICS.md, section 8).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lateness {
    /// Class: `persistent` (≥ 50 % of the steps), `recurrent` (≥ 5 % in ≥ 3 episodes), `transient` or `rotating`.
    pub class: String,
    /// Steps in which the rank was late, of all steps.
    pub late_steps: Ratio,
    /// Number of runs of consecutive late steps.
    pub episodes: u64,
    /// Median of the rank's own delay over the late steps, in nanoseconds.
    pub median_delay_ns: i64,
    /// Steps in which the rank was late and the latest, of those in which any rank was late.
    pub latest_of_late_steps: Ratio,
    /// Probability of at least this many such steps if all ranks were equal (binomial test).
    pub p_value: f64,
}

/// Results of matching the calls of the ranks (METRICS.md, section 1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matching {
    /// Number of instances whose members are all recorded and agree.
    pub complete: u64,
    /// Number of instances whose members are all recorded and agree, but whose completion was not recorded.
    pub enqueued: u64,
    /// Number of calls of one member alone: puts and signals.
    pub one_sided: u64,
    /// Number of calls that all members captured into a graph.
    pub templates: u64,
    /// Number of instances whose members disagree in operation, type, root or size.
    pub mismatched: u64,
    /// Number of instances that lack a member's record.
    pub incomplete: u64,
    /// Number of sends without a receive and of receives without a send.
    pub unmatched_messages: u64,
    /// Number of operations without a key (no communicator or no sequence number). They are not matched.
    pub without_key: u64,
    /// Number of complete instances whose shared launch has no figures. Its members grouped their calls differently, or
    /// a part of the launch never arrived.
    #[serde(default)]
    pub shared_without_figures: u64,
    /// Number of instances in which a member leaves before a member that it needs has entered. The axis is wrong there.
    pub causality_violations: u64,
    /// Reasons why instances are incomplete, with counts.
    pub incomplete_reasons: Vec<ReasonCount>,
    /// The first instances that did not match, at most [`Matching::MAX_LISTED`].
    pub listed: Vec<Unmatched>,
}

impl Matching {
    /// Maximum number of listed instances. The counts are always complete.
    pub const MAX_LISTED: usize = 200;
}

/// Reason, and how often it applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReasonCount {
    /// The reason.
    pub reason: String,
    /// Number of occurrences.
    pub count: u64,
}

/// Instance that did not match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unmatched {
    /// Kind: `mismatched`, `incomplete` or `unmatched-message`.
    pub kind: String,
    /// Index into [`Session::communicators`].
    pub communicator: u32,
    /// Operation that the first member called.
    pub operation: String,
    /// Tag of the operation.
    pub tag: u32,
    /// n-th use of operation and tag.
    pub sequence: u32,
    /// Time at which the first member entered, in nanoseconds on the axis.
    pub start_ns: i64,
    /// Members whose records were found: indices into [`Session::ranks`].
    pub ranks: Vec<u32>,
    /// Members whose records are missing, by their number in the communicator.
    pub missing_members: Vec<u32>,
    /// Reason why the instance did not match.
    pub reason: String,
}

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
        let text = fs::read_to_string(&path).map_err(|source| SummaryError::Io {
            path: name.clone(),
            source,
        })?;
        let head: Head = serde_json::from_str(&text).map_err(|source| SummaryError::Format {
            path: name.clone(),
            source,
        })?;
        if head.version > SESSION_VERSION {
            return Err(SummaryError::Version {
                path: name,
                found: head.version,
            });
        }
        serde_json::from_str(&text).map_err(|source| SummaryError::Format { path: name, source })
    }

    /// Writes `session.json` into a session directory. The file appears completely or not at all.
    pub fn write(&self, session: &Path) -> io::Result<()> {
        let path = session.join(super::SUMMARY_FILE);
        let unfinished = session.join(format!("{}.unfinished", super::SUMMARY_FILE));
        fs::write(&unfinished, super::layout::to_text(self)?)?;
        fs::rename(&unfinished, &path)
    }
}
