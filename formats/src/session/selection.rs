//! A selected window of time: what `rankscope report --range --json` prints, and what the viewer's panels show.
//!
//! Whatever is counted belongs to one window alone: of windows side by side the counts and sums add up to those of the
//! whole. Parts of a rank's time are cut at the window's ends; an instance belongs to the window in which its first member
//! enters, a stall to the one in which it begins, both with all of their time.

use super::summary::{CauseSum, ClassCounts, Figure, Quantiles};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happened in a window of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Selection {
    /// First moment, ns on the axis.
    pub from_ns: i64,
    /// First moment beyond, ns on the axis.
    pub to_ns: i64,
    /// The ranks that were asked for: positions in [`super::Session::ranks`]; `null` if all are meant. Of operations those on
    /// communicators count of which one of these ranks is a member.
    pub of_ranks: Option<Vec<u32>>,
    /// Sums over all operations in the window.
    pub totals: SelectionTotals,
    /// Where the ranks' time went: of each rank its host's, and its devices', whichever was recorded.
    pub parts: Vec<RankParts>,
    /// Operations by kind, size and scope, the most time first.
    pub operations: Vec<SelectedOperations>,
    /// Stretches without compute that begin in the window; unknown where the work of no device was recorded.
    pub stalls: Figure<SelectedStalls>,
    /// Who was last and who waited, one entry per rank.
    pub lateness: Vec<RankLateness>,
}

impl Selection {
    /// Stalls listed at most.
    pub const MAX_STALLS: usize = 50;

    /// False if the parts of a rank do not add up to its window: a bug, shown and exit code 3.
    pub fn adds_up(&self) -> bool {
        let known = self.parts.iter().filter_map(|entry| entry.parts.value.as_ref());
        known.into_iter().all(|parts| parts.adds_up)
    }
}

/// Sums over all operations in a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelectionTotals {
    /// Instances, communicator building and templates of graphs excluded.
    pub instances: u64,
    /// Complete ones among them.
    pub complete: u64,
    /// Σ S of METRICS.md, section 2, of those of which it is known, bytes; unknown if it is of none.
    pub size_bytes: Figure<u64>,
    /// Σ exposed wait of the complete ones, rank-ns; unknown if there are none among the others.
    pub exposed_wait_rank_ns: Figure<i64>,
    /// Σ hidden wait of the complete ones, rank-ns; unknown if there are none among the others.
    pub hidden_wait_rank_ns: Figure<i64>,
}

/// Where the time of a rank went in the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankParts {
    /// Position in [`super::Session::ranks`].
    pub rank: u32,
    /// Whose time: `device` (all of its devices together) or `host` (the training thread that was blocked most).
    pub level: String,
    /// The parts, or why there are none.
    pub parts: Figure<Parts>,
}

/// The parts of a window (METRICS.md, section 5). They add up to `window_ns`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parts {
    /// Begin of the window as far as something was recorded, ns on the axis.
    pub from_ns: i64,
    /// Its end, ns on the axis.
    pub to_ns: i64,
    /// Time between the two, ns.
    pub window_ns: i64,
    /// Of a device compute only; of a host its own time in which nothing was communicated, ns.
    pub own_ns: i64,
    /// Of a device compute and communication at once; of a host its own time while communication ran, ns.
    pub overlapped_ns: i64,
    /// Communication that nothing hides, moving data, ns; all of it where `exposed_wait_ns` is not known.
    pub exposed_transfer_ns: i64,
    /// Communication that nothing hides, waiting for peers, ns; unknown where nothing is known of waiting.
    pub exposed_wait_ns: Figure<i64>,
    /// Memory work that nothing hides, ns; of devices.
    pub exposed_memory_ns: Figure<i64>,
    /// Nothing, ns; of devices.
    pub idle_ns: Figure<i64>,
    /// Blocked for communication while none ran, ns; of hosts.
    pub other_blocked_ns: Figure<i64>,
    /// False if the parts do not add up to the window: a bug, shown and exit code 3.
    pub adds_up: bool,
}

/// Operations of one kind, size class and scope that begin in the window, by their instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelectedOperations {
    /// Library that was called: `gloo`, `nccl`, `mpi`.
    pub library: String,
    /// Operation, `all-reduce`.
    pub operation: String,
    /// Smallest payload c·e of the class, bytes (of operations with a count per member S); `null` where S is not known: of
    /// barriers, and of what is not complete, has one member or shares its launch.
    pub size_from_bytes: Option<u64>,
    /// First payload beyond the class, bytes; `null` where `size_from_bytes` is.
    pub size_below_bytes: Option<u64>,
    /// Role of the communicators: see [`super::CommunicatorSummary::role`].
    pub role: String,
    /// Scope of the communicators: see [`super::CommunicatorSummary::scope`].
    pub scope: String,
    /// Members of the communicators.
    pub members: u32,
    /// True for launches of several operations at once, told by the first of them, with all of their bytes (METRICS.md,
    /// section 1). Each of the operations stands besides in the class of those that share their launch.
    pub launches: bool,
    /// Instances; of launches: launches.
    pub instances: u64,
    /// Complete ones among them.
    pub complete: u64,
    /// Those of which it was not recorded when they were done.
    pub enqueued: u64,
    /// Incomplete, mismatched and unmatched ones.
    pub not_matched: u64,
    /// Complete ones whose times and figures are those of the launch that they share.
    pub shared: u64,
    /// Σ S of METRICS.md, section 2, bytes.
    pub size_bytes: Figure<u64>,
    /// Σ exposed wait over ranks, ns.
    pub exposed_wait_rank_ns: Figure<i64>,
    /// Σ hidden wait over ranks, ns.
    pub hidden_wait_rank_ns: Figure<i64>,
    /// Transfer time of an instance, ns.
    pub transfer_ns: Figure<Quantiles>,
    /// First enter → last leave of an instance, ns.
    pub duration_ns: Figure<Quantiles>,
    /// Algorithm bandwidth S / t of launches with a wait share ≤ 20 %, bytes/s.
    pub algorithm_bytes_per_s: Figure<Quantiles>,
    /// Bus bandwidth of the same launches, bytes/s.
    pub bus_bytes_per_s: Figure<Quantiles>,
    /// S over the duration of all complete instances, bytes/s.
    pub effective_bytes_per_s: Figure<Quantiles>,
    /// Launches bound by their transfer that have none, t ≤ 0: left out of the bandwidth.
    pub bandwidth_invalid: u64,
    /// What the complete ones were bound by.
    pub classes: ClassCounts,
    /// How their times are distributed; unknown where no time is known.
    pub histogram: Figure<TimeHistogram>,
    /// The one that took longest to transfer; `null` without any.
    pub slowest: Option<SlowestInstance>,
}

/// How times are distributed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeHistogram {
    /// Of what: `transfer`, or `duration` where no transfer is known.
    pub of: String,
    /// The bins in which something lies, the shortest times first; each is a quarter of its power of two.
    pub bins: Vec<TimeBin>,
}

/// Times from one limit to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeBin {
    /// Shortest time, ns.
    pub from_ns: i64,
    /// First time beyond, ns.
    pub below_ns: i64,
    /// How many.
    pub count: u64,
}

/// An instance to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowestInstance {
    /// Its number in the table `instances`.
    pub instance: u64,
    /// First enter, ns on the axis.
    pub start_ns: i64,
    /// Last leave, ns on the axis.
    pub end_ns: i64,
    /// Its transfer, ns.
    pub transfer_ns: i64,
}

/// Stalls (METRICS.md, section 6) that begin in the window, with all of their time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelectedStalls {
    /// Ranks whose devices' work was recorded.
    pub of_ranks: u64,
    /// How many.
    pub count: u64,
    /// Their time, ns.
    pub ns: i64,
    /// By cause ([`super::StallCause`]), the most time first.
    pub by_cause: Vec<CauseSum>,
    /// The longest, at most [`Selection::MAX_STALLS`].
    pub longest: Vec<SelectedStall>,
}

/// One stall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SelectedStall {
    /// Position in [`super::Session::ranks`].
    pub rank: u32,
    /// Begin, ns on the axis.
    pub start_ns: i64,
    /// End, ns on the axis; it may lie beyond the window.
    pub end_ns: i64,
    /// Why ([`super::StallCause`]).
    pub cause: String,
    /// Waiting for peers in it, ns.
    pub wait_ns: i64,
    /// Who was waited for most: position in [`super::Session::ranks`]; `null` if nobody was.
    pub late_rank: Option<u32>,
    /// Step it begins in; `null` outside of steps.
    pub step: Option<u32>,
}

/// How often a rank was last, and what it waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankLateness {
    /// Position in [`super::Session::ranks`].
    pub rank: u32,
    /// Launches in the window in which it arrived last.
    pub last_arrivals: u64,
    /// Launches in the window that it took part in, with at least two members; unknown where messages between members of a
    /// larger communicator do not tell whose they were.
    pub launches: Figure<u64>,
    /// Exposed wait of all members in the launches in which it arrived last, rank-ns. It is not the blame of METRICS.md,
    /// section 8, which shares a wait among all who were missing.
    pub exposed_wait_where_last_rank_ns: i64,
    /// What it waited itself in the window: the exposed wait among its parts, ns.
    pub exposed_wait_ns: Figure<i64>,
}
