//! Results that the operations of a job give about its clocks.

use super::network::Network;
use std::collections::BTreeMap;

/// Evidence counts of a pair of hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct PairCounts {
    /// Instances and messages that bound its offset.
    pub sightings: u64,
    /// Sightings that were excluded because they contradict their neighbours, and bounds that alone contradict all
    /// others.
    pub left_out: u64,
}

/// Clocks of all hosts, derived from the communication of a job.
pub struct ClockSolution {
    /// Bounds and estimates of all clocks.
    pub network: Network,
    /// Pairs of hosts with sightings.
    pub pairs: BTreeMap<(usize, usize), PairCounts>,
    /// Number of instances between hosts that were not fitted.
    pub held_out: u64,
    /// Number of these instances that violate causality by the wall clocks: a member left before one that it depends on
    /// had entered.
    pub violations_before: u64,
    /// Number of messages inside collectives with both ends recorded.
    pub messages: u64,
}
