//! What the threads of the host did: when they issued operations, and when they were blocked.

use super::event::Stamp;
use super::lanes::Lanes;
use crate::intervals::overlap::Breakdown;

/// The threads of one rank.
#[derive(Default)]
pub struct HostThreads {
    /// Blocked intervals of each thread, for the operations that caused them.
    pub lanes: Lanes,
    /// Parts of the rank's time.
    pub breakdown: Breakdown,
}

impl HostThreads {
    /// Records that a thread issued an operation.
    #[inline]
    pub fn issued(&mut self, stamp: &Stamp) {
        self.lanes.known_until(stamp.lane, stamp.leave_ns);
        self.breakdown.trains(stamp.lane);
    }

    /// Records that a thread was blocked for the work object `work`, or for all if it is 0.
    pub fn blocked(&mut self, stamp: &Stamp, work: u64) {
        self.lanes.blocked(stamp.lane, stamp.interval(), work);
        self.lanes.known_until(stamp.lane, stamp.leave_ns);
        self.breakdown.blocked(stamp.lane, stamp.enter_ns, stamp.leave_ns);
    }
}
