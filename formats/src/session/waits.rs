//! Waits between ranks, blame and lateness (METRICS.md, sections 3 and 8).

#[cfg(doc)]
use super::Session;
use super::figure::Ratio;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
