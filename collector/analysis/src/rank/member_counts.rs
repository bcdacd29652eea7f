//! Counts per member of a call, which precede its record in separate records of the same lane.

use super::context::LogContext;
use crate::model::log_communicator::LogCommunicator;
use crate::model::operation::RankOperation;

/// Counts whose call was not read yet.
#[derive(Default)]
pub struct MemberCounts {
    by_lane: Vec<Vec<u64>>,
}

impl MemberCounts {
    /// Adds counts of the lane's next call.
    pub fn add(&mut self, lane: u32, counts: impl IntoIterator<Item = u64>) {
        let lane = lane as usize;
        if self.by_lane.len() <= lane {
            self.by_lane.resize_with(lane + 1, Vec::new);
        }
        self.by_lane[lane].extend(counts);
    }

    /// Moves the counts of the lane to its call. `communicator` is the number of its communicator in the log.
    #[inline]
    pub fn take(
        &mut self,
        operation: &mut RankOperation,
        lane: u32,
        communicator: LogCommunicator,
        context: &LogContext<'_>,
    ) {
        if let Some(counts) = self.by_lane.get_mut(lane as usize)
            && !counts.is_empty()
        {
            let size = context.members(communicator) as usize;
            if operation.operation.is_variable() && counts.len() >= size {
                operation.counts = counts[..size].into();
            }
            counts.clear();
        }
    }
}
