//! `session.json`: everything the summary and the report print.
//!
//! Every figure is named with its unit. A [`Figure`] that could not be computed has no value and says why; it is
//! never 0 or NaN. Lists that could grow without bound are cut, and stand beside their totals.

use super::imported::Imported;
use super::part::Part;
use super::pauses::{Counted, NamedTimes};
use super::structure::WorldStructure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// Version of this layout; a reader refuses what is newer.
pub const SESSION_VERSION: u32 = 1;

/// A number, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure<T> {
    /// The number; `null` if it could not be computed.
    pub value: Option<T>,
    /// Why there is no number; `null` if there is one.
    pub reason: Option<String>,
}

impl<T> Figure<T> {
    /// A number.
    pub fn known(value: T) -> Self {
        Self {
            value: Some(value),
            reason: None,
        }
    }

    /// No number, and why.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self {
            value: None,
            reason: Some(reason.into()),
        }
    }

    /// The number, or the reason.
    pub fn get(&self) -> Result<&T, &str> {
        self.value
            .as_ref()
            .ok_or_else(|| self.reason.as_deref().unwrap_or("not computed"))
    }
}

/// A percentage with what it was computed from; the share is `numerator / denominator`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// Above the line, in the unit that the field holding this ratio names.
    pub numerator: i64,
    /// Below the line, in the same unit; above 0.
    pub denominator: i64,
}

impl Ratio {
    /// The ratio, or the reason why there is none.
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

    /// The share, 0 to 1 where the numerator is a part of the denominator.
    pub fn share(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

/// Quantiles from a sketch, in the unit that the field holding them names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// How many values.
    pub count: u64,
    /// Smallest, exact.
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
    /// Largest, exact.
    pub max: f64,
    /// Sum, exact.
    pub sum: f64,
    /// Largest relative error of the percentiles, 0.01 for one percent.
    pub relative_error: f64,
}

/// A session's summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// [`SESSION_VERSION`].
    pub version: u32,
    /// Name and version of the program that wrote it.
    pub tool: Tool,
    /// When it was written, ns since 1970.
    pub written_unix_ns: i64,
    /// Run directories it was made from, as given.
    pub directories: Vec<String>,
    /// Where the run comes from, if another profiler recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// Which part of the run this is; absent if it is all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// The time axis.
    pub axis: Axis,
    /// Who was seen: the first line of every summary.
    pub coverage: Coverage,
    /// Incarnations of the job in order of time.
    pub attempts: Vec<Attempt>,
    /// Worlds: sets of ranks numbered by one communicator.
    pub worlds: Vec<World>,
    /// Hosts.
    pub hosts: Vec<Host>,
    /// What the ranks ran on and with: hardware, versions, and the environment that steers communication.
    #[serde(default)]
    pub surroundings: Vec<Surrounding>,
    /// Ranks; their position is the `rank` of all tables and lists.
    pub ranks: Vec<Rank>,
    /// Communicators; their position is the `communicator` of all tables and lists.
    pub communicators: Vec<CommunicatorSummary>,
    /// What the communicators are for, who is whose peer, and pipelines; one entry per world.
    #[serde(default)]
    pub structure: Vec<WorldStructure>,
    /// Sums over the session.
    pub totals: Totals,
    /// Operations by kind, size and scope, the most time first. Communicator building is not among them.
    pub operations: Vec<OperationClass>,
    /// Time spent building communicators; `null` fields if none was seen.
    pub connect: Connect,
    /// Steps.
    pub steps: Steps,
    /// Where each rank's time went, one entry per rank.
    pub breakdown: Vec<RankBreakdown>,
    /// Input, checkpoints, evaluation and other named parts of the hosts' own time.
    #[serde(default)]
    pub named_times: NamedTimes,
    /// What libraries told of the work on devices; one entry per rank of which one did.
    #[serde(default)]
    pub devices: Vec<DeviceSource>,
    /// What the devices did, one entry per rank where that was recorded or asked for.
    #[serde(default)]
    pub activity: Vec<DeviceActivity>,
    /// Traffic between ranks as measured by the library's proxies, where it was asked for.
    #[serde(default)]
    pub traffic: Vec<PeerTraffic>,
    /// Waits per rank and step.
    pub waits: WaitMatrix,
    /// Who caused waiting.
    pub blame: Blame,
    /// What a person should know, the costliest first.
    pub findings: Vec<Finding>,
    /// How good the run was, 0 to 100 (METRICS.md, section 9), by what was stated when this was written.
    #[serde(default)]
    pub scorecard: Option<Scorecard>,
    /// Launches of at most 64 KiB, by scope: what latency is judged by.
    #[serde(default)]
    pub small_launches: Vec<SmallLaunches>,
    /// How well calls could be matched.
    pub matching: Matching,
    /// What could not be recorded.
    pub losses: Vec<LossSummary>,
    /// What was not as it should be.
    pub problems: Problems,
    /// The tables beside this file.
    pub tables: Vec<TableInfo>,
}

/// The program that wrote a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The session's time axis: nanoseconds since its first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// Wall-clock time of the axis's zero, ns since 1970, as the reference host told it.
    pub origin_unix_ns: i64,
    /// Time of the first record, ns on the axis.
    pub start_ns: i64,
    /// Time of the last record, ns on the axis.
    pub end_ns: i64,
    /// Largest clock error between any two hosts, ± ns; 0 with one host; unknown with an unsynchronised clock.
    pub error_between_hosts_ns: Figure<i64>,
    /// Largest error of the conversion inside a host, ± ns.
    pub error_inside_host_ns: i64,
    /// How hosts were brought onto one axis: `one-host`, `realtime` (by their wall clocks alone) or `messages` (by what
    /// the job's own operations prove about their clocks).
    pub method: String,
    /// What they prove; absent with one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<AxisEvidence>,
}

/// What the operations of a job prove about the clocks of its hosts (METRICS.md, section 4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AxisEvidence {
    /// Host whose time the axis is, position in [`Session::hosts`]; those that nothing ties to it keep their own.
    pub root_host: u32,
    /// Pairs of hosts that there are.
    pub pairs_total: u64,
    /// Those among them whose clocks nothing ties to each other, at least from one side and for some time.
    pub pairs_unbounded: u64,
    /// Pairs, those that are not bounded first, then the widest; at most [`AxisEvidence::MAX_LISTED`].
    pub pairs: Vec<ClockPair>,
    /// Messages inside collectives of which both ends were recorded, between hosts.
    pub messages: u64,
    /// Instances between hosts that the axis was not fitted to: about half.
    pub held_out_instances: u64,
    /// Of these, somebody left before one that it needed had entered, by the wall clocks.
    pub violations_before: u64,
    /// The same on the axis. Instances that were named as mismatched are not among them.
    pub violations_after: u64,
    /// Instances that no clocks could explain: their calls do not belong together. They are listed under
    /// [`Session::matching`].
    pub mismatched_instances: u64,
    /// Hosts whose wall clocks said that they were synchronised, and contradict the job's operations.
    pub wrong_wall_clocks: Vec<u32>,
    /// Stretches of time in which what pairs say cannot be put together.
    pub contradictory_stretches: u64,
}

impl AxisEvidence {
    /// Pairs listed.
    pub const MAX_LISTED: usize = 128;
    /// Segments listed of a pair.
    pub const MAX_SEGMENTS: usize = 64;
}

/// Two clocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockPair {
    /// Position in [`Session::hosts`].
    pub one: u32,
    /// Position in [`Session::hosts`].
    pub other: u32,
    /// How far a time between them may be off at most, ± ns; unknown where nothing bounds it.
    pub error_ns: Figure<i64>,
    /// Instances and messages that bound it directly.
    pub sightings: u64,
    /// Those of them that were left out because they contradict the others.
    pub left_out: u64,
    /// Stretches in which no clock jumped.
    pub segments: Vec<ClockSegment>,
}

/// A stretch of time in which no clock jumped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockSegment {
    /// Its begin, ns on the axis.
    pub start_ns: i64,
    /// Its end, ns on the axis.
    pub end_ns: i64,
    /// What the assumed offset rests on: `leaves-coincide` (operations that all leave together) or `wall-clocks`.
    pub assumed_from: String,
    /// The offset at some moments; straight in between.
    pub knots: Vec<ClockKnot>,
}

/// The second clock minus the first, both as set by their wall clocks, at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockKnot {
    /// The moment, ns on the axis.
    pub at_ns: i64,
    /// It is at least that, ns; `null`: nothing bounds it, see [`ClockPair::error_ns`] for the reason.
    pub low_ns: Option<i64>,
    /// It is at most that, ns.
    pub high_ns: Option<i64>,
    /// It is assumed to be that, ns: what the axis is drawn by.
    pub assumed_ns: i64,
}

/// Ranks seen of those that exist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Ranks whose logs were read, over all worlds.
    pub ranks_seen: u32,
    /// Ranks that the worlds have.
    pub ranks_expected: Figure<u32>,
    /// Missing ranks.
    pub missing: Vec<MissingRank>,
    /// What to do about them; `null` if none is missing.
    pub advice: Option<String>,
    /// Logs of processes that never communicated: they have no rank.
    pub logs_without_rank: u32,
    /// Ranks whose log ends before its process closed it.
    pub ranks_not_closed: u32,
}

/// A rank of which no log was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MissingRank {
    /// Its world.
    pub world: u32,
    /// Its number there.
    pub number: u32,
}

/// One incarnation of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Elastic run id (`TORCHELASTIC_RUN_ID`), `null` if the launcher set none.
    pub run_id: Option<String>,
    /// Restart count, 0 for the first.
    pub restart: u32,
    /// First record, ns on the axis.
    pub start_ns: i64,
    /// Last record, ns on the axis.
    pub end_ns: i64,
    /// Time between the end of the attempt before and this one's start, ns; `null` for the first.
    pub lost_before_ns: Option<i64>,
    /// Worlds in it.
    pub worlds: Vec<u32>,
}

/// A set of ranks that one communicator numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct World {
    /// Position in [`Session::attempts`].
    pub attempt: u32,
    /// Ranks it has.
    pub size: u32,
    /// Ranks of it that were seen: positions in [`Session::ranks`].
    pub ranks: Vec<u32>,
    /// The communicator that numbers it, `null` if its numbers come from the environment.
    pub communicator: Option<u32>,
    /// How numbers were learnt: `communicator`, `environment` or `order`.
    pub source: String,
}

/// One clock: a machine's kernel and time namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Name for people.
    pub name: String,
    /// Boot id of its kernel.
    pub boot_id: Option<String>,
    /// Time-namespace inode.
    pub time_namespace: Option<String>,
    /// Counter that stamps were read from: `tsc`, `monotonic-raw`, `cntvct`.
    pub counter: String,
    /// Frequency of the counter as calibrated, ticks per second; unknown with one calibration only.
    pub ticks_per_second: Figure<f64>,
    /// Calibrations used.
    pub calibrations: u32,
    /// Error of the conversion inside this host, ± ns.
    pub error_ns: i64,
    /// Error of this host's wall clock, ± ns; unknown while it is not synchronised.
    pub realtime_error_ns: Figure<i64>,
    /// The kernel stopped trusting the counter during the run.
    pub counter_distrusted: bool,
    /// Ranks on it.
    pub ranks: Vec<u32>,
}

/// One property of the processes, and on how many ranks it had this value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Surrounding {
    /// Which: `processors`, `processor_model`, `device_model`, `kernel`, `executable`, `rankscope_version`, `library.nccl.version`,
    /// `source.…`, or `env.NAME` of an environment variable.
    pub property: String,
    /// Its value; secrets redacted.
    pub value: String,
    /// Ranks of which it is the value.
    pub ranks: u32,
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rank {
    /// Position in [`Session::ranks`].
    pub index: u32,
    /// Position in [`Session::worlds`]; `null` if it belongs to none.
    pub world: Option<u32>,
    /// Position in [`Session::attempts`].
    pub attempt: u32,
    /// Its number in its world.
    pub number: Figure<u32>,
    /// Name for people, unique in the session: `rank 3`, with the world where there are several.
    pub name: String,
    /// Position in [`Session::hosts`].
    pub host: u32,
    /// Process id as its own namespace saw it.
    pub pid: u32,
    /// The rank log.
    pub log: String,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// How the log ended: `closed`, `live-area`, `torn`, `running`.
    pub ending: String,
    /// Rank that the environment stated when the first communicator was made.
    pub environment_rank: Option<u32>,
    /// False if environment and communicators disagree, which is a finding; `null` if there is nothing to compare.
    pub environment_agrees: Option<bool>,
    /// Command line, secrets redacted.
    pub command_line: Option<String>,
    /// First record, ns on the axis; unknown without records.
    pub start_ns: Figure<i64>,
    /// Last record, ns on the axis; unknown without records.
    pub end_ns: Figure<i64>,
    /// Records read.
    pub records: u64,
    /// Operations among them.
    pub operations: u64,
    /// Records lost (sum over causes; see [`Session::losses`]).
    pub lost: u64,
    /// Operations in progress when the log ended, as text: what a hang needs.
    pub in_flight: Vec<String>,
    /// How long the oldest of these has lasted, ns: up to the log's end, or up to when it was read if its process still ran.
    /// `null` if there are none.
    #[serde(default)]
    pub in_flight_for_ns: Option<i64>,
}

/// One communicator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommunicatorSummary {
    /// Position in [`Session::communicators`].
    pub index: u32,
    /// Library: `gloo`, `nccl`, `mpi`.
    pub library: String,
    /// Identity in hexadecimal, the same on all members.
    pub identity: String,
    /// How sure the identity is: `key-and-blob`, `partial`, `ordinal`, `unique-id`, `self-only`.
    pub identity_source: String,
    /// Number of members.
    pub size: u32,
    /// Seen members, by their number in the communicator: position in [`Session::ranks`], `null` if not seen.
    pub members: Vec<Option<u32>>,
    /// Name it was made under (store key), for people.
    pub name: String,
    /// What it is for: `world` (c10d's default group or the set that numbers the world), `self`, one of `tensor`,
    /// `pipeline`, `data`, `expert`, `context`, several of these joined by `+`, or `sub-group` where nothing tells.
    pub role: String,
    /// How that was learnt: `size`, `name` (of the group), `operations` (what it is used for beside the sets of members of
    /// the others), or `none`.
    #[serde(default)]
    pub role_source: String,
    /// Where it reaches: `inside-host`, `across-hosts`, `mixed`, or `unknown` with missing members.
    pub scope: String,
    /// World it belongs to.
    pub world: Option<u32>,
    /// When its first member made it, ns on the axis.
    pub created_ns: i64,
    /// Operations on it.
    pub operations: u64,
}

/// Sums over the session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Operations (calls of one rank), communicator building excluded.
    pub operations: u64,
    /// Instances (matched calls of all members).
    pub instances: u64,
    /// Payload of all operations, bytes.
    pub bytes: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Operations in progress when their log ended.
    pub in_flight: u64,
    /// Operations that were put on a device's stream, of which it was not recorded when they were done.
    pub enqueued: u64,
    /// Calls that were captured into graphs, which are no operations: what the replays do is not in these totals.
    pub captured: u64,
    /// Σ wait over ranks, exposed, ns.
    pub exposed_wait_rank_ns: i64,
    /// Σ wait over ranks, hidden behind computation, ns.
    pub hidden_wait_rank_ns: i64,
    /// Records read.
    pub records: u64,
    /// Records lost.
    pub lost: u64,
}

/// Operations of one kind, size class, library and scope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationClass {
    /// Library that was called: `gloo`, `nccl`, `mpi`.
    pub library: String,
    /// Operation, `all-reduce`.
    pub operation: String,
    /// Smallest payload c·e of the class, bytes; `null` where sizes are unknown.
    pub size_from_bytes: Option<u64>,
    /// First payload beyond the class, bytes; `null` where sizes are unknown.
    pub size_below_bytes: Option<u64>,
    /// Role of the communicators: see [`CommunicatorSummary::role`].
    pub role: String,
    /// Scope of the communicators: see [`CommunicatorSummary::scope`].
    pub scope: String,
    /// Members of the communicators.
    pub members: u32,
    /// True for launches of several of these operations at once, whose sizes are all of theirs together: METRICS.md,
    /// section 1.
    #[serde(default)]
    pub launches: bool,
    /// Calls, over all ranks; of launches: launches.
    pub operations: u64,
    /// Completed ones among them that share their launch with others. What they took, waited and carried is told of the launch.
    #[serde(default)]
    pub shared: u64,
    /// Complete instances whose figures are here; those of collectives that share their launch are the launch's.
    pub instances: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Payload over all calls, bytes; unknown where the library's structures could not be read.
    pub bytes: Figure<u64>,
    /// Duration enter → leave of a call, ns.
    pub duration_ns: Figure<Quantiles>,
    /// Time between issue and enter of a call, ns; unknown where no queue lies between.
    pub queue_ns: Figure<Quantiles>,
    /// Σ exposed wait over ranks, ns.
    pub exposed_wait_rank_ns: i64,
    /// Σ hidden wait over ranks, ns.
    pub hidden_wait_rank_ns: i64,
    /// True where counts were not recorded, so that waits are upper bounds.
    pub wait_is_upper_bound: bool,
    /// Transfer time of an instance, ns.
    pub transfer_ns: Figure<Quantiles>,
    /// Algorithm bandwidth S / t of launches with a wait share ≤ 20 %, bytes/s.
    pub algorithm_bytes_per_s: Figure<Quantiles>,
    /// Bus bandwidth of the same launches, bytes/s.
    pub bus_bytes_per_s: Figure<Quantiles>,
    /// S over the whole duration (first enter → last leave) of all complete instances, bytes/s.
    pub effective_bytes_per_s: Figure<Quantiles>,
    /// Launches whose t is the shortest member duration, because the clock interval exceeds 10 % of the transfer.
    pub shortest_duration_used: u64,
    /// Launches with t ≤ 0, left out of the bandwidth.
    pub bandwidth_invalid: u64,
    /// How the launches divide.
    pub classes: ClassCounts,
    /// Transfer-bound launches whose bandwidth counts: what the use of a peak is computed from.
    #[serde(default)]
    pub transfer_bound: TransferBound,
    /// The launch that took longest to transfer; `null` without any.
    #[serde(default)]
    pub slowest: Option<LookAt>,
    /// Of each three consecutive launches the shortest transfer, and of these the longest, ns: a limit below it was passed
    /// three times in a row. Unknown with fewer than three.
    #[serde(default = "fewer_than_three")]
    pub longest_three_in_a_row_ns: Figure<i64>,
}

fn fewer_than_three() -> Figure<i64> {
    Figure::unknown("fewer than three launches have a transfer")
}

/// Sums over launches with a bandwidth (METRICS.md, section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransferBound {
    /// How many.
    pub launches: u64,
    /// Σ S·f, bytes.
    pub bus_bytes: f64,
    /// Σ t, ns.
    pub transfer_ns: f64,
}

/// Transfers of launches of at most 64 KiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SmallLaunches {
    /// Scope of their communicators: see [`CommunicatorSummary::scope`].
    pub scope: String,
    /// Transfer time, ns.
    pub transfer_ns: Quantiles,
}

/// Launches by what bound them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassCounts {
    /// Wait share ≤ 20 %.
    pub transfer_bound: u64,
    /// Wait share ≥ 80 %.
    pub skew_bound: u64,
    /// Between.
    pub mixed: u64,
    /// The ends of the clock interval disagree.
    pub inconclusive: u64,
    /// One member, nothing to wait for, or not complete.
    pub none: u64,
}

/// Time spent building communicators, kept apart from operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Connect {
    /// Calls, over all ranks.
    pub calls: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Σ duration over ranks, ns.
    pub duration_rank_ns: i64,
    /// Longest call, ns.
    pub longest_ns: i64,
}

/// Steps of the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steps {
    /// Where steps come from: `marks`, `pattern`, `pattern-with-sizes`, `none`.
    pub source: String,
    /// The repeating sequence, for people.
    pub pattern: Option<String>,
    /// Share of the operations of the reference rank that the pattern explains; below 0.9 there are no steps.
    pub confidence: Figure<f64>,
    /// Operations explained and all, of which `confidence` is the ratio.
    pub explained_operations: Figure<Ratio>,
    /// Whole steps of training seen on all ranks of their world: what all figures of steps are of.
    pub count: u64,
    /// Whole steps that are mostly evaluation, or mostly writing or reading a checkpoint.
    #[serde(default)]
    pub other_kinds: u64,
    /// What the program counts in them, tokens or samples; empty if it counts nothing.
    #[serde(default)]
    pub counted: Vec<Counted>,
    /// Step time over all ranks and steps, ns.
    pub duration_ns: Figure<Quantiles>,
    /// Median step time, ns.
    pub median_ns: Figure<i64>,
    /// Steps that each entry of `list` stands for: 1 unless the run is long.
    pub steps_per_entry: u32,
    /// One entry per step, or per group of steps in a long run.
    pub list: Vec<StepSummary>,
}

/// One step over all ranks, or the means of a group of steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepSummary {
    /// World: position in [`Session::worlds`].
    pub world: u32,
    /// First step of the entry.
    pub step: u64,
    /// Steps in it.
    pub steps: u32,
    /// Earliest start over ranks of the first step, ns on the axis.
    pub start_ns: i64,
    /// Latest end over ranks of the last step, ns on the axis.
    pub end_ns: i64,
    /// Longest step time over ranks, mean over the entry's steps, ns.
    pub duration_ns: i64,
    /// Σ exposed wait over ranks, mean over the entry's steps, ns.
    pub exposed_wait_rank_ns: i64,
    /// Rank with the largest own delay, most often over the entry's steps.
    pub latest_rank: Option<u32>,
    /// Its own delay, mean over the entry's steps, ns.
    pub latest_delay_ns: Option<i64>,
}

/// Where one rank's time went (METRICS.md, section 5, host-only ranks). The three parts add up to the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankBreakdown {
    /// Position in [`Session::ranks`].
    pub rank: u32,
    /// What the window is: `steps` (all whole steps) or `run` (first to last record).
    pub window: String,
    /// Window, ns.
    pub window_ns: i64,
    /// Steps in the window.
    pub steps: u64,
    /// Time in which the training thread was not blocked for communication, ns.
    pub host_ns: i64,
    /// Blocked while communication ran, ns.
    pub exposed_communication_ns: i64,
    /// Blocked while none ran (queueing, bookkeeping), ns.
    pub other_blocked_ns: i64,
    /// Communication at library level, overlapped or not, ns.
    pub communication_ns: i64,
    /// Of the exposed communication, time spent waiting for peers, ns; the rest is transfer.
    pub exposed_wait_ns: i64,
    /// Waiting for peers that passed while the program computed, ns.
    pub hidden_wait_ns: i64,
    /// Time from issue to enter, union over operations, ns; unknown where nothing is queued.
    pub queued_ns: Figure<i64>,
    /// Communication behind which the program computed, of all communication, in ns; or the reason for "–".
    pub overlap: Figure<Ratio>,
    /// Operations that were put on a device's stream, of which it is not known when they were done: host time,
    /// communication and waiting are told as if they had not been.
    pub operations_without_times: u64,
    /// Operations that ran on a device, as the device tells. What they overlap with takes its other kernels to say: here
    /// too they are told as if they had not been.
    pub operations_on_device: u64,
    /// Completed operations with a wait or test seen on an issuing thread, of all completed ones.
    pub operations_with_wait_seen: Figure<Ratio>,
    /// Training threads: those that issued operations. With several, blocked time is that of the busiest.
    pub training_threads: u32,
    /// False if the parts do not add up to the window: a bug, shown and exit code 3.
    pub adds_up: bool,
}

impl RankBreakdown {
    /// True if there is communication that these parts leave out: what they say of communication is not the whole.
    pub fn leaves_out(&self) -> bool {
        self.operations_without_times + self.operations_on_device > 0
    }
}

/// What a library told of the work of one rank's device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceSource {
    /// Position in [`Session::ranks`].
    pub rank: u32,
    /// Who told: `NCCL profiler plugin, version 5`, `events around launches`, or both.
    pub source: String,
    /// Operations whose times are the device's, replays among them.
    pub operations: u64,
    /// Those among them whose times are of a pair of events around the whole launch: it began no earlier than the first,
    /// and by as much later as the host took to launch it.
    #[serde(default)]
    pub timed_by_events: u64,
    /// Replays of captured calls.
    pub replays: u64,
    /// Calls that bypassed the hooks, of which this source alone knows.
    pub bypassed: u64,
    /// Calls that the hooks saw and of which this source told nothing: a copy on one rank, an empty collective, or work
    /// that the library does not tell of.
    pub hooks_only: u64,
    /// Device records that belong to no call.
    pub without_call: u64,
    /// How much faster the host's clock runs, ppm.
    pub drift_ppm: Figure<f64>,
    /// How far the device's times may lie too late on the axis, at most, ns.
    pub widest_error_ns: Figure<i64>,
    /// The same in the middle, ns.
    pub median_error_ns: Figure<i64>,
    /// Stretches of 30 s in which the bounds of the clock contradict each other.
    pub contradictions: u64,
}

/// What one rank's devices did, as CUPTI tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceActivity {
    /// Position in [`Session::ranks`].
    pub rank: u32,
    /// CUPTI's version.
    pub cupti: String,
    /// Why it was not recorded to the end, or not at all; `null` if nothing came in its way.
    pub reason: Option<String>,
    /// Streams on which something ran.
    pub streams: Vec<DeviceStream>,
    /// Kernels of compute, of communication; copies, sets, graphs.
    pub kernels: u64,
    /// See `kernels`.
    pub communication_kernels: u64,
    /// See `kernels`.
    pub copies: u64,
    /// See `kernels`.
    pub sets: u64,
    /// See `kernels`.
    pub graphs: u64,
    /// Works that could not be recorded, by all causes (see [`Session::losses`]).
    pub lost: u64,
    /// Works of which it is known when they were launched.
    pub with_launch: u64,
    /// Launches that were recorded and of which no work was: it was not delivered when the log ended, or there was none.
    pub launches_without_work: u64,
    /// Calls of communication libraries that put something on a stream, and of which no kernel and no other time came.
    #[serde(default)]
    pub calls_without_kernel: u64,
    /// Communication kernels that belong to no call that is known.
    pub without_call: u64,
    /// Those whose call is known by their order on their stream only.
    #[serde(default)]
    pub by_order: u64,
    /// Time in which all activity was recorded, and in which only communication's, ns.
    pub covered_ns: i64,
    /// See `covered_ns`.
    pub covered_communication_ns: i64,
    /// Time in which another profiler had it, ns.
    pub yielded_ns: i64,
    /// Of `covered_ns`, the time in which the recorder (CUPTI) worked for itself on some thread of the rank, ns: spans of
    /// kind `recorder`, at once on several threads counted once. Time that the driver took is not part of it.
    #[serde(default = "overhead_not_asked_for")]
    pub recorder_ns: Figure<i64>,
    /// Until when activity was delivered: what the device did later is not known; ns on the axis.
    pub delivered_until_ns: Option<i64>,
    /// How early the device's times may lie on the axis at most: the shortest time from a launch to its work, ns.
    pub shortest_launch_ns: Figure<i64>,
    /// How late at most: the shortest time from the end of a work to the return of the call that waited for it, ns.
    pub shortest_wait_ns: Figure<i64>,
    /// The parts of the time in which all was recorded (METRICS.md, section 5), whole steps where there are any.
    pub window: String,
    /// The window, ns.
    pub window_ns: i64,
    /// Compute without communication, ns.
    pub compute_only_ns: i64,
    /// Compute and communication at once, ns.
    pub overlapped_ns: i64,
    /// Communication without compute, waiting for peers included, ns.
    pub exposed_communication_ns: i64,
    /// Of that, waiting for peers, ns; the rest is transfer.
    pub exposed_wait_ns: i64,
    /// Memory work alone, ns.
    pub exposed_memory_ns: i64,
    /// Nothing, ns.
    pub idle_ns: i64,
    /// Communication behind which the device computed, of all communication, in ns; or the reason for "–".
    pub overlap: Figure<Ratio>,
    /// Gaps between works of a stream by cause, over all streams.
    pub idle_by_cause: Vec<IdleSum>,
    /// Stretches of at least 1 ms without compute.
    #[serde(default)]
    pub device_stalls: DeviceStalls,
    /// Stretches without compute of any length that come again at the same place in at least a fifth of the steps, and
    /// take at least a hundredth of each (METRICS.md, section 6); those that took most time.
    #[serde(default)]
    pub recurring_stalls: Vec<RecurringStall>,
    /// The kernels that took most time.
    pub top: Vec<KernelSum>,
    /// False if the parts do not add up to the window: a bug, shown and exit code 3.
    pub adds_up: bool,
}

fn overhead_not_asked_for() -> Figure<i64> {
    Figure::unknown("what the recorder took for itself was not recorded")
}

/// A stream of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceStream {
    /// Ordinal of the device in its process.
    pub device: u32,
    /// CUPTI's number of the context.
    pub context: u32,
    /// CUPTI's number of the stream.
    pub number: u32,
}

/// Gaps of one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdleSum {
    /// `host-wait`, `kernel-wait`, `other`, `unknown` (METRICS.md, section 6).
    pub cause: String,
    /// How many.
    pub count: u64,
    /// Their time, ns.
    pub ns: i64,
}

/// All runs of one kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelSum {
    /// Its name.
    pub name: String,
    /// How often it ran.
    pub count: u64,
    /// For how long in sum, ns.
    pub ns: i64,
}

/// Stretches without compute of one rank's devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceStalls {
    /// How many.
    pub count: u64,
    /// Their time, ns.
    pub ns: i64,
    /// By cause ([`super::StallCause`]).
    pub by_cause: Vec<CauseSum>,
    /// Waiting in them by the rank that was waited for, those that took most time.
    pub by_late_rank: Vec<LateSum>,
}

/// Stalls of one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseSum {
    /// Which.
    pub cause: String,
    /// How many.
    pub count: u64,
    /// Their time, ns.
    pub ns: i64,
}

/// Waiting for one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LateSum {
    /// Position in [`Session::ranks`].
    pub rank: u32,
    /// Stalls in which it was waited for.
    pub count: u64,
    /// Waiting for it in those, ns.
    pub ns: i64,
}

/// Stretches without compute at one place of a step: before one kernel, for one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecurringStall {
    /// The kernel that ended them, as people write it.
    pub before: String,
    /// Why, as far as one rank alone can tell ([`super::StallCause`]).
    pub cause: String,
    /// Steps in which they took at least a hundredth.
    pub steps: u64,
    /// Of so many.
    pub of_steps: u64,
    /// Their time in those steps, ns.
    pub ns: i64,
}

/// What the proxies of a rank moved to and from one peer of a communicator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeerTraffic {
    /// Position in [`Session::ranks`].
    pub rank: u32,
    /// Position in [`Session::communicators`]; `null` if unknown.
    pub communicator: Option<u32>,
    /// The peer's number in that communicator.
    pub peer: u32,
    /// The peer's position in [`Session::ranks`], where it was seen.
    pub peer_rank: Option<u32>,
    /// On the wire to the peer, bytes.
    pub sent_bytes: u64,
    /// On the wire from the peer, bytes.
    pub received_bytes: u64,
    /// Works of proxies for it: one per operation, channel and direction.
    pub works: u64,
    /// Its steps waited for the device, ns; steps overlap.
    pub device_wait_ns: i64,
    /// Its steps waited for the peer to offer a buffer, ns.
    pub peer_wait_ns: i64,
    /// Its steps waited for the network, ns.
    pub network_wait_ns: i64,
}

/// Waits per rank and step, as a picture needs it; exact rows are in the table `steps`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitMatrix {
    /// Positions in [`Session::ranks`], one per row.
    pub ranks: Vec<u32>,
    /// First step of each column.
    pub steps: Vec<u64>,
    /// Steps per column; values are means over them.
    pub steps_per_column: u32,
    /// Exposed wait, ns per step: row per rank, column per step; `null` where the rank lacks the step.
    pub exposed_wait_ns: Vec<Vec<Option<i64>>>,
    /// Exposed communication, ns per step: the exposed wait and the exposed transfer; same shape.
    #[serde(default)]
    pub exposed_communication_ns: Vec<Vec<Option<i64>>>,
    /// Own delay against the median of the peers, ns per step (METRICS.md, section 8), same shape.
    pub own_delay_ns: Vec<Vec<Option<i64>>>,
    /// Step time, ns, same shape.
    pub duration_ns: Vec<Vec<Option<i64>>>,
    /// Why the matrix is empty; `null` if it is not.
    pub reason: Option<String>,
}

/// Who caused waiting (METRICS.md, section 8), over the whole run; the skew of start-up is in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Blame {
    /// One entry per rank, the costliest first.
    pub ranks: Vec<RankBlame>,
    /// Σ of all waiting from arrivals, rank-ns: what the ranks' `caused_rank_ns` add up to.
    pub total_rank_ns: i64,
    /// The exposed part of it, rank-ns.
    pub total_exposed_rank_ns: i64,
}

/// What one rank caused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankBlame {
    /// Position in [`Session::ranks`].
    pub rank: u32,
    /// Waiting it caused, Σ over the ranks that waited, rank-ns.
    pub caused_rank_ns: i64,
    /// The part of it in which the waiting program was blocked, rank-ns.
    pub caused_exposed_rank_ns: i64,
    /// Time by which the job would have gone on earlier (last minus second-last arrival, union over launches), ns.
    pub job_lost_ns: i64,
    /// The part of it in which the second-last rank was blocked, ns: what the job would win.
    pub job_lost_exposed_ns: i64,
    /// `caused_exposed_rank_ns` without start-up and what else lies outside steps; 0 without steps.
    pub caused_exposed_in_steps_rank_ns: i64,
    /// `job_lost_exposed_ns` without start-up and what else lies outside steps; 0 without steps.
    pub job_lost_exposed_in_steps_ns: i64,
    /// Launches in which it arrived last.
    pub last_arrivals: u64,
    /// Launches it took part in, with at least two members.
    pub launches: u64,
}

/// Something a person should know. `rankscope rules` prints what each kind means, when it fires and when it does not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Which rule fired: `late-rank`, `small-buckets`, …, all in `rankscope rules`.
    pub kind: String,
    /// `critical`, `warning` or `note`.
    pub severity: String,
    /// Who or what it is about, for the first sentence of a report: `rank 3`, `host b`.
    #[serde(default)]
    pub subject: Option<String>,
    /// One sentence for people, with numbers and units.
    pub title: String,
    /// What supports it, one sentence each.
    pub evidence: Vec<String>,
    /// What probably causes it; `null` if nothing can be said.
    #[serde(default)]
    pub cause: Option<String>,
    /// What to try; `null` if nothing can be said.
    pub advice: Option<String>,
    /// The conditions that were checked, in their order: all of them hold.
    #[serde(default)]
    pub path: Vec<Condition>,
    /// Ranks concerned: positions in [`Session::ranks`].
    pub ranks: Vec<u32>,
    /// Hosts concerned: positions in [`Session::hosts`].
    #[serde(default)]
    pub hosts: Vec<u32>,
    /// Moments to look at in the trace, the most telling first; at most [`Finding::MOST_TO_LOOK_AT`].
    #[serde(default)]
    pub look_at: Vec<LookAt>,
    /// What it cost the job, ns of its time; unknown where it cannot be told.
    pub cost_ns: Figure<i64>,
    /// How the cost was computed; `null` where it is unknown.
    #[serde(default)]
    pub cost_basis: Option<String>,
    /// In which parts of the job's time the cost lies: `waiting`, `transfer`, `host`, `device-idle`, `outside-steps`.
    #[serde(default)]
    pub lies_in: Vec<String>,
    /// So much of the cost may be the same seconds as in the findings of `shared_with`, ns. Findings are ranked by what is
    /// left, so that no second counts twice.
    #[serde(default)]
    pub shared_ns: i64,
    /// Kinds of the findings that tell these seconds, too.
    #[serde(default)]
    pub shared_with: Vec<String>,
    /// Cost per step as a share of the median step, both in ns.
    pub cost_of_step: Figure<Ratio>,
    /// Cost as a share of the run, both in ns.
    #[serde(default = "no_cost")]
    pub cost_of_run: Figure<Ratio>,
    /// Details where the finding is about lateness.
    pub lateness: Option<Lateness>,
}

fn no_cost() -> Figure<Ratio> {
    Figure::unknown(Finding::NO_COST)
}

impl Finding {
    /// Longest list of moments to look at.
    pub const MOST_TO_LOOK_AT: usize = 3;
    /// Why most findings without a cost have none.
    pub const NO_COST: &str = "this finding has no cost of its own";

    /// A finding of which no more is known.
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

    /// What it costs beside what other findings tell already, ns; 0 where no cost is known.
    pub fn own_cost_ns(&self) -> i64 {
        (self.cost_ns.value.unwrap_or(0) - self.shared_ns).max(0)
    }
}

/// A condition that was checked and holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// What was looked at.
    pub what: String,
    /// What it was.
    pub value: f64,
    /// How it was compared: `>=`, `>`, `<=`, `<`, `=`.
    pub is: String,
    /// With what.
    pub limit: f64,
    /// Unit of both: `ns`, `%`, `bytes`, or empty for numbers without one.
    pub unit: String,
}

/// A stretch of time to look at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LookAt {
    /// What happens there, in a few words.
    pub what: String,
    /// Position in [`Session::ranks`], where one is concerned.
    pub rank: Option<u32>,
    /// Its number in the table `instances`, where it is one.
    pub instance: Option<u64>,
    /// Step, where it lies in one.
    pub step: Option<u64>,
    /// Begin, ns on the axis.
    pub start_ns: i64,
    /// End, ns on the axis.
    pub end_ns: i64,
}

/// How good a run was (METRICS.md, section 9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scorecard {
    /// The four dimensions: `bandwidth`, `latency`, `balance`, `stability`.
    pub dimensions: Vec<Score>,
    /// All together, by weights that are made to add up again where a dimension is unknown; with the reason for "–".
    pub total: Figure<f64>,
    /// What the total would be without the cap; unknown where it was not capped.
    pub uncapped: Figure<f64>,
    /// Kind of the finding that caps the total at 69, as long as it costs more than a tenth of the run.
    pub capped_by: Option<String>,
    /// `excellent` (≥ 85), `good` (70–84) or `needs work` (< 70); `null` without a total.
    pub grade: Option<String>,
}

/// One dimension of a scorecard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// Which.
    pub name: String,
    /// 0 to 100, or the reason for "–".
    pub score: Figure<f64>,
    /// Weight in METRICS.md, percent.
    pub weight_percent: u32,
    /// Weight in this total, percent; unknown where the dimension or the total is.
    pub applied_percent: Figure<f64>,
    /// Above the line of the score's ratio, in `unit`; unknown where the score is.
    pub numerator: Figure<f64>,
    /// Below it.
    pub denominator: Figure<f64>,
    /// Unit of both: `ns`, `bytes`.
    pub unit: String,
    /// What the ratio is of, and how the score follows from it, in a sentence with the figures.
    pub basis: String,
}

/// How a rank is late.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lateness {
    /// `persistent` (≥ 50 % of the steps), `recurrent` (≥ 5 % in ≥ 3 episodes), `transient`, `rotating`.
    pub class: String,
    /// Steps in which it was late, of all steps.
    pub late_steps: Ratio,
    /// Runs of consecutive late steps.
    pub episodes: u64,
    /// Median of its own delay over the late steps, ns.
    pub median_delay_ns: i64,
    /// Steps in which it was late and the latest, of those in which any rank was late.
    pub latest_of_late_steps: Ratio,
    /// Probability of as many if all ranks were alike (binomial).
    pub p_value: f64,
}

/// How well calls could be matched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matching {
    /// Instances with all members' records, which agree.
    pub complete: u64,
    /// Instances with all members' calls, which agree, and of which it was not recorded when they were done.
    pub enqueued: u64,
    /// Calls of one member alone: puts and signals.
    pub one_sided: u64,
    /// Calls that all members captured into a graph.
    pub templates: u64,
    /// Instances whose members disagree in operation, type, root or size.
    pub mismatched: u64,
    /// Instances that lack a member's record.
    pub incomplete: u64,
    /// Sends without a receive, and receives without a send.
    pub unmatched_messages: u64,
    /// Operations without a key (no communicator, no sequence): not matched at all.
    pub without_key: u64,
    /// Complete instances that share a launch of which no figures can be told: its members grouped differently, or a part
    /// of it never came.
    #[serde(default)]
    pub shared_without_figures: u64,
    /// Instances in which a member leaves before another entered, though it needs it: the axis is wrong there.
    pub causality_violations: u64,
    /// Why instances are incomplete, with counts.
    pub incomplete_reasons: Vec<ReasonCount>,
    /// The first of those that did not match, at most [`Matching::MAX_LISTED`].
    pub listed: Vec<Unmatched>,
}

impl Matching {
    /// Longest list of unmatched instances; the counts are always whole.
    pub const MAX_LISTED: usize = 200;
}

/// A reason and how often it held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReasonCount {
    /// The reason.
    pub reason: String,
    /// How often.
    pub count: u64,
}

/// An instance that did not match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unmatched {
    /// `mismatched`, `incomplete` or `unmatched-message`.
    pub kind: String,
    /// Position in [`Session::communicators`].
    pub communicator: u32,
    /// Operation, as the first member called it.
    pub operation: String,
    /// Tag.
    pub tag: u32,
    /// n-th use of operation and tag.
    pub sequence: u32,
    /// When the first member entered, ns on the axis.
    pub start_ns: i64,
    /// Members whose records are there: positions in [`Session::ranks`].
    pub ranks: Vec<u32>,
    /// Members whose records are not, by their number in the communicator.
    pub missing_members: Vec<u32>,
    /// What is wrong.
    pub reason: String,
}

/// What one rank could not record, by cause and kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossSummary {
    /// Position in [`Session::ranks`]; `null` for a log without a rank.
    pub rank: Option<u32>,
    /// The log, where there is no rank, or `merge` for what the merge itself left out.
    pub source: String,
    /// Cause: `no-chunk`, `disk`, ….
    pub cause: String,
    /// Kind of record: `call`, `issue`, ….
    pub kind: String,
    /// How many.
    pub count: u64,
    /// First of them, ns on the axis.
    pub first_ns: i64,
    /// Last of them, ns on the axis.
    pub last_ns: i64,
    /// What to do about it.
    pub advice: String,
}

/// What was not as it should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problems {
    /// How many there are.
    pub total: u64,
    /// The first of them, at most [`Problems::MAX_LISTED`]; all are in the table `problems`.
    pub listed: Vec<ProblemSummary>,
}

impl Problems {
    /// Longest list; the total is always whole.
    pub const MAX_LISTED: usize = 200;
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemSummary {
    /// Position in [`Session::ranks`], where one is concerned.
    pub rank: Option<u32>,
    /// File, where one is concerned.
    pub file: Option<String>,
    /// Offset in it, bytes.
    pub offset_bytes: Option<u64>,
    /// What was expected, and what was kept.
    pub what: String,
}

/// One table of the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableInfo {
    /// Its name, which is its directory.
    pub name: String,
    /// Rows over all parts.
    pub rows: u64,
    /// Bytes over all parts.
    pub bytes: u64,
}

/// A summary could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    /// The operating system refused.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// It is not a session's summary.
    #[error("{path} is not a session summary: {source}")]
    Format {
        /// The file.
        path: String,
        /// Why.
        source: serde_json::Error,
    },
    /// A newer program wrote it.
    #[error("{path} has layout {found}; this program reads up to {SESSION_VERSION}")]
    Version {
        /// The file.
        path: String,
        /// Its layout.
        found: u32,
    },
}

impl Session {
    /// Operations of a rank that were put on a stream, of which it is not known when they were done, where nothing was recorded
    /// of its devices: what its host did meanwhile is not known to be without communication.
    pub fn operations_without_times(&self, rank: u32) -> u64 {
        // They stand in the order of the ranks, of which there may be thousands.
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

    /// Writes `session.json` into a session directory, whole or not at all.
    pub fn write(&self, session: &Path) -> io::Result<()> {
        let path = session.join(super::SUMMARY_FILE);
        let unfinished = session.join(format!("{}.unfinished", super::SUMMARY_FILE));
        fs::write(&unfinished, super::layout::to_text(self)?)?;
        fs::rename(&unfinished, &path)
    }
}
