//! Communicators whose operations are no part of training: an asynchronous checkpoint, or a coordination of processes, has a
//! process group of its own. Its operations run on another thread, so they are between different operations of a step.

use crate::steps::events::{Event, is_of_all_members};
use rankscope_formats::ids::CommunicatorId;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum share of all bytes that such a communicator carries, in percent.
const MAX_BYTES_PERCENT: u64 = 1;

/// What a communicator carries.
#[derive(Clone, Copy, Default)]
struct Load {
    bytes: u64,
    /// True if it reduces, or has messages, as pipelines have.
    trains: bool,
}

/// The communicators that are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SideCommunicators(BTreeSet<CommunicatorId>);

impl SideCommunicators {
    /// Finds the communicators that reduce nothing, have no messages, and carry next to nothing. If no communicator
    /// reduces or has messages, none is left out.
    pub fn of(events: &[Event]) -> Self {
        let mut loads: BTreeMap<CommunicatorId, Load> = BTreeMap::new();
        for event in events {
            let Some(key) = event.key else { continue };
            let load = loads.entry(key.communicator).or_default();
            load.bytes = load.bytes.saturating_add(event.bytes);
            load.trains |= event.reduced_bytes > 0 || !is_of_all_members(key);
        }
        if !loads.values().any(|load| load.trains) {
            return Self::default();
        }
        let all = loads
            .values()
            .fold(0u64, |sum, load| sum.saturating_add(load.bytes));
        let is_side = |load: &Load| {
            !load.trains && load.bytes.saturating_mul(100) <= all.saturating_mul(MAX_BYTES_PERCENT)
        };
        Self(
            loads
                .iter()
                .filter(|(_, load)| is_side(load))
                .map(|(&communicator, _)| communicator)
                .collect(),
        )
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the event is left out. It may be a later one than those that were examined: what reduces or is a
    /// message is training.
    pub fn has(&self, event: &Event) -> bool {
        event.key.is_some_and(|key| {
            self.0.contains(&key.communicator) && event.reduced_bytes == 0 && is_of_all_members(key)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::anchors::Key;
    use rankscope_ranklog::Operation;

    fn event(communicator: u32, operation: Operation, bytes: u64) -> Event {
        let reduces = operation == Operation::AllReduce;
        Event {
            start_ns: 0,
            end_ns: 0,
            symbol: 1,
            sized: 1,
            positioned: 1,
            collectives: 1,
            width: 2,
            bytes,
            reduced_bytes: if reduces { bytes } else { 0 },
            opens: !reduces,
            key: Some(Key {
                communicator: CommunicatorId(communicator),
                operation,
                peer: if operation == Operation::Send { 1 } else { -1 },
                tag: 0,
                sequence: 0,
            }),
            is_replay: false,
        }
    }

    #[test]
    fn a_checkpoint_is_left_out_and_what_trains_is_not() {
        let training = event(0, Operation::AllReduce, 1 << 20);
        let parameters = event(1, Operation::AllGather, 1 << 20);
        let norm = event(2, Operation::AllReduce, 4);
        let stage = event(3, Operation::Send, 4);
        let checkpoint = event(4, Operation::Gather, 100);
        // 0.9 % and 2 % of the bytes of all.
        let small = event(5, Operation::AllGather, 20_000);
        let large = event(6, Operation::AllGather, 45_000);
        let seven = [training, parameters, norm, stage, checkpoint, small, large];
        let aside = SideCommunicators::of(&seven);
        assert_eq!(
            aside,
            SideCommunicators(BTreeSet::from([CommunicatorId(4), CommunicatorId(5)]))
        );
        // Later than those that were examined: what reduces, or is a message, is training.
        assert!(!aside.has(&event(4, Operation::AllReduce, 4)));
        assert!(!aside.has(&event(4, Operation::Send, 4)));
        let all = [training, parameters, norm, stage, checkpoint];
        let aside = SideCommunicators::of(&all);
        assert_eq!(aside, SideCommunicators(BTreeSet::from([CommunicatorId(4)])));
        assert_eq!(
            all.map(|event| aside.has(&event)),
            [false, false, false, false, true]
        );
    }

    #[test]
    fn nothing_is_left_out_if_nothing_is_reduced() {
        let gathers = [
            event(0, Operation::AllGather, 1 << 20),
            event(1, Operation::AllGather, 8),
        ];
        assert_eq!(SideCommunicators::of(&gathers), SideCommunicators::default());
    }
}
