//! The time axis of the session, and the evidence for its error (METRICS.md, section 4).

#[cfg(doc)]
use super::Session;
use super::figure::Figure;
use crate::vocabulary::vocabulary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

vocabulary! {
    /// Method that aligned the clocks of the hosts.
    AxisMethod {
        /// There is one host, so nothing was aligned.
        OneHost = "one-host",
        /// Only by the hosts' wall clocks.
        Realtime = "realtime",
        /// By what the job's operations prove about the clocks.
        Messages = "messages",
        /// A method that this version does not know.
        #[serde(other)]
        Unknown = "unknown",
    }
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
    /// Method that aligned the hosts.
    pub method: AxisMethod,
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
