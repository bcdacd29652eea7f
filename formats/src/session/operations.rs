//! Sums of operations by class (METRICS.md, sections 2 and 3).

#[cfg(doc)]
use super::CommunicatorSummary;
use super::figure::{Figure, Quantiles};
use super::findings::LookAt;
use super::ranks::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Reach of the communicators.
    pub scope: Scope,
    /// Number of members of the communicators.
    pub members: u32,
    /// True for launches of several of these operations (METRICS.md, section 1). Sizes are then the sum over the
    /// operations of a launch.
    #[serde(default)]
    pub launches: bool,
    /// Number of calls over all ranks, or of launches if `launches` is true.
    pub operations: u64,
    /// Operations that the program requested of c10d, where the library ran this one instead. The one with most calls is
    /// first. Calls that ran as requested are not counted.
    #[serde(default)]
    pub requested: Vec<RequestedOperation>,
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

/// Calls for which the library ran another operation than the program requested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestedOperation {
    /// Name of the operation that the program requested, such as `reduce-scatter`.
    pub operation: String,
    /// Number of calls over all ranks.
    pub calls: u64,
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
    /// Reach of the communicators.
    pub scope: Scope,
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
