//! Corrects ordinals for operations that never ran. If one rank only simulated a group, or its library refused one, the
//! ordinals of its later operations must not shift against other ranks.

use crate::model::log_communicator::LogCommunicator;
use crate::model::operation::RankOperation;
use rankscope_formats::ids::CommunicatorId;
use rankscope_ranklog::record::FLAG_SEQUENCE_UNKNOWN;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Identity of a counter: collectives of a communicator, its messages by direction and peer, its one-sided calls by
/// operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Counter {
    communicator: CommunicatorId,
    /// Number of the operation; 0 for all collectives.
    operation: u8,
    /// Peer of a message; −1 for all other operations.
    peer: i32,
}

/// Counters of an earlier part of a log that are ahead: communicator in the log, operation, peer, and number of operations.
pub type CarriedOrdinals = Vec<(LogCommunicator, u8, i32, u32)>;

/// How far each counter of one rank is ahead of the operations that ran.
#[derive(Clone, Default)]
pub struct Ordinals {
    ahead: FxHashMap<Counter, u32>,
}

impl Counter {
    fn of(operation: &RankOperation) -> Self {
        let is_message = operation.is_message();
        Self {
            communicator: operation.communicator,
            operation: if is_message || operation.is_one_sided() {
                operation.operation as u8
            } else {
                0
            },
            peer: if is_message { operation.peer } else { -1 },
        }
    }
}

impl Ordinals {
    /// Returns what a later part of the log needs. `numbers` are the log's numbers of communicators.
    pub fn carried(&self, numbers: &BTreeMap<CommunicatorId, LogCommunicator>) -> CarriedOrdinals {
        let count = |(counter, &ahead): (&Counter, &u32)| {
            let number = *numbers.get(&counter.communicator)?;
            Some((number, counter.operation, counter.peer, ahead))
        };
        let mut counts: Vec<_> = self.ahead.iter().filter_map(count).collect();
        counts.sort_unstable();
        counts
    }

    /// Goes on after an earlier part of the log. `index_of` returns the session's index of a communicator.
    pub fn resume(
        &mut self,
        carried: &CarriedOrdinals,
        index_of: impl Fn(LogCommunicator) -> CommunicatorId,
    ) {
        for &(number, operation, peer, ahead) in carried {
            let counter = Counter {
                communicator: index_of(number),
                operation,
                peer,
            };
            self.ahead.insert(counter, ahead);
        }
    }

    /// Records that the operation never ran.
    pub fn take_back(&mut self, operation: &mut RankOperation) {
        if operation.flags & FLAG_SEQUENCE_UNKNOWN == 0 {
            *self.ahead.entry(Counter::of(operation)).or_insert(0) += 1;
            operation.flags |= FLAG_SEQUENCE_UNKNOWN;
        }
    }

    /// Corrects the ordinal of an operation as if those had never been called.
    pub fn correct(&self, operation: &mut RankOperation) {
        if !self.ahead.is_empty()
            && let Some(ahead) = self.ahead.get(&Counter::of(operation))
        {
            operation.sequence = operation.sequence.wrapping_sub(*ahead);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_ranklog::Operation;

    fn operation(operation: Operation, peer: i32, sequence: u32) -> RankOperation {
        RankOperation {
            operation,
            peer,
            sequence,
            ..RankOperation::sample(0, 0, 1)
        }
    }

    #[test]
    fn an_operation_that_never_ran_shifts_only_the_sequence_it_is_counted_in() {
        let mut ordinals = Ordinals::default();
        ordinals.take_back(&mut operation(Operation::AllReduce, -1, 4));
        ordinals.take_back(&mut operation(Operation::Send, 3, 0));
        for (mut operation, expected) in [
            (operation(Operation::Broadcast, 2, 5), 4),
            (operation(Operation::Send, 3, 1), 0),
            (operation(Operation::Send, 2, 1), 1),
            (operation(Operation::Receive, 3, 1), 1),
        ] {
            ordinals.correct(&mut operation);
            assert_eq!(operation.sequence, expected, "{:?}", operation.operation);
        }
    }
}
