//! A selected time window: the output of `rankscope report --range --json`, and the data of the viewer's panels.
//!
//! Everything is counted in exactly one window, so the counts and sums of adjacent windows add up to those of the
//! whole. The parts of a rank's time are cut at the ends of the window. An instance belongs to the window in which its
//! first member enters, and a stall to the window in which it starts. Both count with all of their time.

use super::devices::CauseSum;
use super::figure::{Figure, Quantiles};
use super::operations::ClassCounts;
use super::ranks::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Figures of a time window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Selection {
    /// Start of the window, in nanoseconds on the axis.
    pub from_ns: i64,
    /// End of the window (exclusive), in nanoseconds on the axis.
    pub to_ns: i64,
    /// Selected ranks: indices into [`super::Session::ranks`]; `null` for all ranks. Operations count if at least one
    /// of these ranks is a member of their communicator.
    pub of_ranks: Option<Vec<u32>>,
    /// Sums over all operations in the window.
    pub totals: SelectionTotals,
    /// Breakdown of the ranks' time. Each rank has an entry for its host, and one for its devices if they were
    /// recorded.
    pub parts: Vec<RankParts>,
    /// Operations by kind, size class and scope, those with the most time first.
    pub operations: Vec<SelectedOperations>,
    /// Stalls that start in the window; unknown if device work was not recorded.
    pub stalls: Figure<SelectedStalls>,
    /// Last arrivals and waits, one entry per rank.
    pub lateness: Vec<RankLateness>,
    /// Counters, by rank and name.
    pub counters: Vec<SelectedCounter>,
}

impl Selection {
    /// Maximum number of listed stalls.
    pub const MAX_STALLS: usize = 50;

    /// Returns false if the parts of a rank do not add up to its window. This is a bug; it is reported, with exit code
    /// 3.
    pub fn adds_up(&self) -> bool {
        let known = self.parts.iter().filter_map(|entry| entry.parts.value.as_ref());
        known.into_iter().all(|parts| parts.adds_up)
    }
}

/// Sums over all operations in a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelectionTotals {
    /// Number of instances, without templates of graphs and without the building of communicators.
    pub instances: u64,
    /// Number of complete instances.
    pub complete: u64,
    /// Σ S (METRICS.md, section 2) of the instances whose S is known, in bytes; unknown if no S is known.
    pub size_bytes: Figure<u64>,
    /// Σ exposed wait of the complete instances, in rank-nanoseconds. Unknown if there are instances but none is
    /// complete.
    pub exposed_wait_rank_ns: Figure<i64>,
    /// Σ hidden wait of the complete instances, in rank-nanoseconds. Unknown if there are instances but none is
    /// complete.
    pub hidden_wait_rank_ns: Figure<i64>,
}

/// Breakdown of a rank's time in the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankParts {
    /// Index into [`super::Session::ranks`].
    pub rank: u32,
    /// Kind of the breakdown: `device` (all devices of the rank together) or `host` (the training thread that was
    /// blocked most).
    pub level: String,
    /// The parts, or the reason why they are unknown.
    pub parts: Figure<Parts>,
}

/// Parts of a window (METRICS.md, section 5). They add up to `window_ns`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parts {
    /// Start of the recorded part of the window, in nanoseconds on the axis.
    pub from_ns: i64,
    /// End of the recorded part of the window, in nanoseconds on the axis.
    pub to_ns: i64,
    /// Duration from `from_ns` to `to_ns`, in nanoseconds.
    pub window_ns: i64,
    /// For a device: compute only. For a host: host time in which no operation ran. In nanoseconds.
    pub own_ns: i64,
    /// For a device: compute and communication at the same time. For a host: host time while operations ran. In
    /// nanoseconds.
    pub overlapped_ns: i64,
    /// Exposed transfer, in nanoseconds: exposed communication that moves data. If `exposed_wait_ns` is unknown, all
    /// exposed communication.
    pub exposed_transfer_ns: i64,
    /// Exposed wait, in nanoseconds: exposed communication that waits for peers. Unknown if no waits are known.
    pub exposed_wait_ns: Figure<i64>,
    /// Exposed memory work, in nanoseconds; only for devices.
    pub exposed_memory_ns: Figure<i64>,
    /// Idle time, in nanoseconds; only for devices.
    pub idle_ns: Figure<i64>,
    /// Time in which the thread was blocked for communication while no operation ran, in nanoseconds; only for hosts.
    pub other_blocked_ns: Figure<i64>,
    /// False if the parts do not add up to the window. This is a bug; it is reported, with exit code 3.
    pub adds_up: bool,
}

/// Operations of one kind, size class and scope that start in the window, counted in instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelectedOperations {
    /// Library that was called: `gloo`, `nccl` or `mpi`.
    pub library: String,
    /// Name of the operation, such as `all-reduce`.
    pub operation: String,
    /// Smallest payload c·e of the class, in bytes. For operations with a count per member it is S. `null` if S is
    /// unknown: for barriers, and for instances that are not complete, have one member or share a launch.
    pub size_from_bytes: Option<u64>,
    /// First payload above the class, in bytes; `null` if `size_from_bytes` is `null`.
    pub size_below_bytes: Option<u64>,
    /// Role of the communicators: see [`super::CommunicatorSummary::role`].
    pub role: String,
    /// Reach of the communicators.
    pub scope: Scope,
    /// Number of members of the communicators.
    pub members: u32,
    /// True for launches of several operations (METRICS.md, section 1). A launch is listed under its first operation
    /// and has the bytes of all of them. Each operation is also counted in the class of operations that share a launch.
    pub launches: bool,
    /// Number of instances, or of launches if `launches` is true.
    pub instances: u64,
    /// Number of complete instances.
    pub complete: u64,
    /// Number of instances whose completion was not recorded.
    pub enqueued: u64,
    /// Number of incomplete, mismatched and unmatched instances.
    pub not_matched: u64,
    /// Number of complete instances that share a launch. Their times and figures are those of the launch.
    pub shared: u64,
    /// Σ S (METRICS.md, section 2), in bytes.
    pub size_bytes: Figure<u64>,
    /// Σ exposed wait over ranks, in rank-nanoseconds.
    pub exposed_wait_rank_ns: Figure<i64>,
    /// Σ hidden wait over ranks, in rank-nanoseconds.
    pub hidden_wait_rank_ns: Figure<i64>,
    /// Transfer time of an instance, in nanoseconds.
    pub transfer_ns: Figure<Quantiles>,
    /// Duration of an instance, from the first enter to the last leave, in nanoseconds.
    pub duration_ns: Figure<Quantiles>,
    /// Algorithm bandwidth S / t of launches with a wait share ≤ 20 %, in bytes/s.
    pub algorithm_bytes_per_s: Figure<Quantiles>,
    /// Bus bandwidth of the same launches, in bytes/s.
    pub bus_bytes_per_s: Figure<Quantiles>,
    /// Effective bandwidth of all complete instances: S over the whole duration, in bytes/s.
    pub effective_bytes_per_s: Figure<Quantiles>,
    /// Number of transfer-bound launches with t ≤ 0. They have no bandwidth and are excluded from it.
    pub bandwidth_invalid: u64,
    /// Number of complete instances per wait class.
    pub classes: ClassCounts,
    /// Distribution of the times; unknown if no time is known.
    pub histogram: Figure<TimeHistogram>,
    /// Instance with the longest transfer; `null` if no transfer is known.
    pub slowest: Option<SlowestInstance>,
}

/// Distribution of times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeHistogram {
    /// Distributed quantity: `transfer`, or `duration` if no transfer is known.
    pub of: String,
    /// Bins that are not empty, the shortest times first. Each bin is a quarter of its power of two.
    pub bins: Vec<TimeBin>,
}

/// Bin of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeBin {
    /// Shortest time of the bin, in nanoseconds.
    pub from_ns: i64,
    /// First time above the bin, in nanoseconds.
    pub below_ns: i64,
    /// Number of times in the bin.
    pub count: u64,
}

/// Instance with the longest transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowestInstance {
    /// Number of the instance in the table `instances`.
    pub instance: u64,
    /// First enter, in nanoseconds on the axis.
    pub start_ns: i64,
    /// Last leave, in nanoseconds on the axis.
    pub end_ns: i64,
    /// Transfer time, in nanoseconds.
    pub transfer_ns: i64,
}

/// Stalls (METRICS.md, section 6) that start in the window, with all of their time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelectedStalls {
    /// Number of ranks whose device work was recorded.
    pub of_ranks: u64,
    /// Number of stalls.
    pub count: u64,
    /// Duration of the stalls, in nanoseconds.
    pub ns: i64,
    /// Stalls by cause ([`super::StallCause`]), those with the most time first.
    pub by_cause: Vec<CauseSum>,
    /// Longest stalls, at most [`Selection::MAX_STALLS`].
    pub longest: Vec<SelectedStall>,
}

/// One stall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SelectedStall {
    /// Index into [`super::Session::ranks`].
    pub rank: u32,
    /// Start, in nanoseconds on the axis.
    pub start_ns: i64,
    /// End, in nanoseconds on the axis. It may be after the end of the window.
    pub end_ns: i64,
    /// Cause of the stall ([`super::StallCause`]).
    pub cause: String,
    /// Time in the stall spent waiting for peers, in nanoseconds.
    pub wait_ns: i64,
    /// Rank that was waited for most: index into [`super::Session::ranks`]; `null` if there was no wait.
    pub late_rank: Option<u32>,
    /// Step in which the stall starts; `null` outside of steps.
    pub step: Option<u32>,
}

/// Last arrivals and waits of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankLateness {
    /// Index into [`super::Session::ranks`].
    pub rank: u32,
    /// Number of launches in the window in which the rank arrived last.
    pub last_arrivals: u64,
    /// Number of launches in the window with at least two members in which the rank took part. Unknown if messages
    /// inside a larger communicator do not identify their two members.
    pub launches: Figure<u64>,
    /// Exposed wait of all members in launches in which this rank arrived last, in rank-nanoseconds. This is not the
    /// blame of METRICS.md, section 8, which divides a wait among all missing ranks.
    pub exposed_wait_where_last_rank_ns: i64,
    /// Exposed wait of this rank in the window, in nanoseconds; the same as in its parts.
    pub exposed_wait_ns: Figure<i64>,
}

/// A counter of one rank in the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelectedCounter {
    /// Index into [`super::Session::ranks`].
    pub rank: u32,
    /// Name. Its end names the unit ([`super::counter_unit`]).
    pub name: String,
    /// Figures of its values, or the reason why they are unknown.
    pub figures: Figure<CounterFigures>,
}

/// Figures of the values of a counter that hold in the window (METRICS.md, section 6). A value holds from its sample
/// until the next one. The value at the start of the window may have its sample before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CounterFigures {
    /// Number of samples in the window.
    pub samples: u64,
    /// Smallest value; missing if no value is a finite number.
    pub min: Option<f64>,
    /// Mean, weighted by the time for which each value holds. Values that are not finite numbers do not count. Missing
    /// if no other value holds for any time.
    pub mean: Option<f64>,
    /// Largest value; missing if no value is a finite number.
    pub max: Option<f64>,
    /// First value; missing if it is not a finite number.
    pub first: Option<f64>,
    /// Last value; missing if it is not a finite number.
    pub last: Option<f64>,
}
