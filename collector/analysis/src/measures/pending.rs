//! Operations that were enqueued on a device, and that had not completed when the log ended.
//!
//! A hang on NCCL often leaves no call in progress: the host has enqueued the operation, and waits for the device in a
//! function of CUDA. Only that the operation never completed shows the hang.

use crate::model::operation::{NO_TIME, RankOperation};
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use rankscope_formats::session::OperationState;
use rankscope_ranklog::Operation;
use rustc_hash::FxHashMap;

/// Operation that had not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Index of its communicator in the session.
    pub communicator: CommunicatorId,
    /// Kind of operation.
    pub operation: Operation,
    /// Its sequence number.
    pub sequence: u32,
    /// Time at which it was requested, in nanoseconds on the axis.
    pub requested_ns: i64,
    /// Number of operations after it on its communicator, which had not completed either.
    pub later: u64,
}

/// Operations of one rank on one communicator.
#[derive(Default)]
struct OnStream {
    /// Request of the last operation that completed, in nanoseconds.
    completed_ns: Option<i64>,
    pending: Option<Pending>,
}

/// Pending operations of all ranks.
pub struct PendingOperations {
    of_ranks: Vec<FxHashMap<CommunicatorId, OnStream>>,
}

impl PendingOperations {
    /// Creates the state for this number of ranks.
    pub fn new(ranks: usize) -> Self {
        Self {
            of_ranks: std::iter::repeat_with(FxHashMap::default).take(ranks).collect(),
        }
    }

    /// Adds an operation. On each rank and communicator they come in the order of their requests, or nearly so.
    pub fn add(&mut self, operation: &RankOperation) {
        // Without a stream, a call in progress shows that the operation is pending.
        if operation.returned_ns == NO_TIME {
            return;
        }
        let requested_ns = operation.begin_ns();
        let state = operation.state;
        if !matches!(state, OperationState::Completed | OperationState::Enqueued) {
            return;
        }
        let Some(of_rank) = self.of_ranks.get_mut(operation.rank.index()) else {
            return;
        };
        let known = of_rank.entry(operation.communicator).or_default();
        if state == OperationState::Completed {
            known.completed_ns = known.completed_ns.max(Some(requested_ns));
            // A stream runs its operations in order, so earlier ones have completed, too: their times are only unknown.
            known.pending = known
                .pending
                .filter(|pending| pending.requested_ns > requested_ns);
        } else if known
            .completed_ns
            .is_none_or(|completed_ns| requested_ns > completed_ns)
        {
            match &mut known.pending {
                Some(pending) => pending.later += 1,
                None => {
                    known.pending = Some(Pending {
                        communicator: operation.communicator,
                        operation: operation.operation,
                        sequence: operation.sequence,
                        requested_ns,
                        later: 0,
                    });
                }
            }
        }
    }

    /// Returns the oldest pending operation of a rank, among the communicators whose earlier operations are known to have
    /// completed. Without these, completion is not recorded.
    pub fn oldest(&self, rank: RankIndex) -> Option<Pending> {
        let pending = self
            .of_ranks
            .get(rank.index())?
            .values()
            .filter(|known| known.completed_ns.is_some())
            .filter_map(|known| known.pending);
        pending.min_by_key(|pending| (pending.requested_ns, pending.communicator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(sequence: u32, state: OperationState) -> RankOperation {
        RankOperation {
            communicator: CommunicatorId(0),
            operation: Operation::AllReduce,
            state,
            sequence,
            enter_ns: 100 * i64::from(sequence),
            returned_ns: 100 * i64::from(sequence) + 5,
            ..RankOperation::nothing()
        }
    }

    fn oldest(states: &[OperationState]) -> Option<(u32, u64)> {
        let mut all = PendingOperations::new(1);
        for (sequence, &state) in states.iter().enumerate() {
            all.add(&operation(sequence as u32, state));
        }
        all.oldest(RankIndex(0))
            .map(|pending| (pending.sequence, pending.later))
    }

    #[test]
    fn operations_after_the_last_completed_one_are_pending() {
        use OperationState::{Completed, Enqueued, Failed};
        assert_eq!(oldest(&[Completed, Completed]), None);
        assert_eq!(oldest(&[Completed, Enqueued, Enqueued, Enqueued]), Some((1, 2)));
        assert_eq!(oldest(&[Completed, Failed, Enqueued]), Some((2, 0)));
        // The times of the second one are unknown.
        assert_eq!(oldest(&[Completed, Enqueued, Completed]), None);
        assert_eq!(oldest(&[Completed, Enqueued, Completed, Enqueued]), Some((3, 0)));
    }

    #[test]
    fn nothing_is_known_without_completions() {
        assert_eq!(
            oldest(&[OperationState::Enqueued, OperationState::Enqueued]),
            None
        );
        let mut without_stream = operation(1, OperationState::Enqueued);
        without_stream.returned_ns = NO_TIME;
        let mut all = PendingOperations::new(1);
        all.add(&operation(0, OperationState::Completed));
        all.add(&without_stream);
        assert_eq!(all.oldest(RankIndex(0)), None);
    }
}
