//! Host of each rank, and which communicators have members on several hosts.

use crate::clocks::clock::{ClockError, Clocks};
use crate::identity::Identities;
use crate::model::operation::RankOperation;
use rankscope_formats::ids::{CommunicatorId, RankIndex};

/// Hosts of ranks and communicators, with their clocks.
pub struct Hosts<'a> {
    clocks: &'a Clocks,
    /// Host of each rank.
    host_of: Vec<usize>,
    /// Whether each communicator has members with logs on several hosts.
    spans_hosts: Vec<bool>,
}

impl<'a> Hosts<'a> {
    /// Determines the hosts of all ranks and communicators.
    pub fn new(identities: &Identities, clocks: &'a Clocks) -> Self {
        let host_of: Vec<usize> = identities
            .ranks
            .iter()
            .map(|rank| clocks.host_of[rank.log])
            .collect();
        let spans_hosts = identities
            .communicators
            .iter()
            .map(|communicator| communicator.spans_hosts(&host_of))
            .collect();
        Self {
            clocks,
            host_of,
            spans_hosts,
        }
    }

    /// Returns the clocks.
    pub fn clocks(&self) -> &'a Clocks {
        self.clocks
    }

    /// Returns the host of a rank.
    pub fn of_rank(&self, rank: RankIndex) -> usize {
        self.host_of[rank.index()]
    }

    /// Returns true if a communicator has members with logs on several hosts.
    pub fn spans_hosts(&self, communicator: CommunicatorId) -> bool {
        self.spans_hosts.get(communicator.index()) == Some(&true)
    }

    /// Returns the maximum clock error of the distance from the first member's timestamp to the second's.
    pub fn clock_error(&self, first: &RankOperation, second: &RankOperation) -> ClockError {
        let (from, to) = (self.of_rank(first.rank), self.of_rank(second.rank));
        self.clocks.error_at(from, to, second.enter_ns)
    }
}
