//! What the operations of a job show about its clocks.

use super::network::Network;
use std::collections::BTreeMap;

/// What was learnt of a pair of hosts beside its intervals.
#[derive(Clone, Copy, Debug, Default)]
pub struct PairCounts {
    /// Instances and messages that bound it.
    pub sightings: u64,
    /// Those that were left out because they contradict their neighbours or, alone, all others.
    pub left_out: u64,
}

/// What the messages of a job say about its clocks.
pub struct Learnt {
    /// All clocks.
    pub network: Network,
    /// Pairs that have sightings.
    pub pairs: BTreeMap<(usize, usize), PairCounts>,
    /// Instances between hosts that were not fitted, and those of them in which somebody left before one that it needed
    /// had entered, by the wall clocks.
    pub held_out: u64,
    /// See [`Learnt::held_out`].
    pub violations_before: u64,
    /// Messages inside collectives of which both ends were found.
    pub messages: u64,
}
