//! Launches: the calls of a group on one communicator, which run as one unit on the device (METRICS.md, section 1).
//!
//! NCCL creates kernels per communicator, so two communicators in one group are two launches. NCCL orders all streams
//! of a communicator's calls around one of them, so these calls are one launch.

use crate::model::log_communicator::LogCommunicator;
use crate::rank::event::Enqueue;
use rankscope_ranklog::{Operation, Pattern};
use std::num::NonZeroU32;

/// Number of a launch of one log. Numbers of finished launches are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaunchNumber(NonZeroU32);

impl LaunchNumber {
    fn of_slot(slot: usize) -> Option<Self> {
        NonZeroU32::new(slot as u32 + 1).map(Self)
    }

    fn slot(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Maximum number of (group, communicator) pairs that are open at once. Each thread has one group. On overflow the
/// older half is closed, because the ends of these groups were not recorded.
const MAX_OPEN: usize = 1024;
/// Maximum number of stored launches. Captured calls count too, because their replays may occur at any time.
const MOST: usize = 1 << 20;

/// A launch, based on the calls that were read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Sequence number of its first collective on the communicator; 0 if it has none.
    pub first: u32,
    /// Number of its calls.
    pub operations: u16,
    /// Number of collectives among them that have a sequence number.
    pub collectives: u16,
    /// Start, in nanoseconds; `None` until it is known.
    pub began_ns: Option<i64>,
    /// Number of calls that are still held.
    pub held: u32,
    /// True until one of its calls is emitted.
    pub is_untouched: bool,
    is_template: bool,
    is_open: bool,
}

/// A launch of a group that did not end yet.
struct Open {
    group: u32,
    communicator: LogCommunicator,
    number: LaunchNumber,
}

/// The launches of one log.
#[derive(Default)]
pub struct Launches {
    slots: Vec<Launch>,
    free: Vec<LaunchNumber>,
    open: Vec<Open>,
}

impl Launches {
    /// Records a call and returns the number of its launch. Returns `None` if the call is a launch by itself.
    pub fn called(&mut self, call: &Enqueue) -> Option<LaunchNumber> {
        let number = self.number_of(call.group?.get(), call.fields.communicator)?;
        let launch = &mut self.slots[number.slot()];
        launch.held += 1;
        launch.is_template |= call.fields.is_captured();
        launch.operations = launch.operations.saturating_add(1);
        let pattern = call.fields.known_operation().map(Operation::pattern);
        let is_collective = !matches!(
            pattern,
            None | Some(Pattern::PointToPoint | Pattern::OneSided | Pattern::Unknown)
        );
        if is_collective && call.fields.has_sequence() {
            if launch.collectives == 0 {
                launch.first = call.fields.sequence;
            }
            launch.collectives = launch.collectives.saturating_add(1);
        }
        Some(number)
    }

    /// Returns the launch of a communicator in a group, a new one if needed.
    fn number_of(&mut self, group: u32, communicator: LogCommunicator) -> Option<LaunchNumber> {
        let is_it = |open: &&Open| open.group == group && open.communicator == communicator;
        if let Some(known) = self.open.iter().rev().find(is_it) {
            return Some(known.number);
        }
        let number = self.make()?;
        if self.open.len() >= MAX_OPEN {
            for open in self.open.drain(..MAX_OPEN / 2) {
                close(&mut self.slots, &mut self.free, open.number);
            }
        }
        self.open.push(Open {
            group,
            communicator,
            number,
        });
        Some(number)
    }

    fn make(&mut self) -> Option<LaunchNumber> {
        let fresh = Launch {
            is_untouched: true,
            is_open: true,
            ..Launch::default()
        };
        if let Some(number) = self.free.pop() {
            self.slots[number.slot()] = fresh;
            return Some(number);
        }
        if self.slots.len() >= MOST {
            return None;
        }
        self.slots.push(fresh);
        LaunchNumber::of_slot(self.slots.len() - 1)
    }

    /// Closes the launches of a group that ended.
    pub fn ended(&mut self, group: u32) {
        let (slots, free) = (&mut self.slots, &mut self.free);
        self.open.retain(|open| {
            let stays = open.group != group;
            if !stays {
                close(slots, free, open.number);
            }
            stays
        });
    }

    /// Returns a launch.
    pub fn of(&self, number: LaunchNumber) -> Option<Launch> {
        self.slots.get(number.slot()).copied()
    }

    /// Adds the launch of captured calls of an earlier part of the log: its first sequence number, its calls, and its collectives.
    pub fn of_earlier(&mut self, (first, operations, collectives): (u32, u16, u16)) -> Option<LaunchNumber> {
        let number = self.make()?;
        self.slots[number.slot()] = Launch {
            first,
            operations,
            collectives,
            is_template: true,
            ..Launch::default()
        };
        Some(number)
    }

    /// Records the start of a launch.
    pub fn began(&mut self, number: LaunchNumber, began_ns: i64) {
        if let Some(launch) = self.slots.get_mut(number.slot()) {
            launch.began_ns = Some(began_ns);
        }
    }

    /// Records that one of its calls is emitted.
    pub fn released(&mut self, number: LaunchNumber) {
        let Some(launch) = self.slots.get_mut(number.slot()) else {
            return;
        };
        launch.is_untouched = false;
        launch.held = launch.held.saturating_sub(1);
        if launch.held == 0 && !launch.is_template && !launch.is_open {
            self.free.push(number);
        }
    }
}

fn close(slots: &mut [Launch], free: &mut Vec<LaunchNumber>, number: LaunchNumber) {
    let launch = &mut slots[number.slot()];
    launch.is_open = false;
    if launch.held == 0 && !launch.is_template {
        free.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_ranklog::record::{Enqueued, FLAG_CAPTURED, Record, RecordKind};

    fn call(operation: Operation, sequence: u32, communicator: u32, group: u32) -> Enqueue {
        let enqueued = Enqueued {
            group,
            ..Enqueued::default()
        };
        Enqueue::of(&Record {
            operation: operation as u8,
            sequence,
            communicator,
            aux: enqueued.to_aux(),
            ..Record::new(RecordKind::Enqueue)
        })
    }

    #[test]
    fn calls_of_one_group_on_one_communicator_are_one_launch() {
        let mut launches = Launches::default();
        let reduce =
            |sequence, communicator, group| call(Operation::AllReduce, sequence, communicator, group);
        assert_eq!(launches.called(&reduce(0, 7, 0)), None);
        let first = launches
            .called(&call(Operation::Send, 0, 7, 1))
            .expect("a launch");
        assert_eq!(launches.called(&call(Operation::Put, 3, 7, 1)), Some(first));
        assert_eq!(launches.called(&reduce(5, 7, 1)), Some(first));
        let other = launches.called(&reduce(6, 8, 1)).expect("a launch");
        assert_ne!(other, first, "another communicator");
        assert_eq!(launches.called(&reduce(7, 7, 1)), Some(first));
        launches.ended(1);
        let launch = launches.of(first).expect("known");
        assert_eq!((launch.first, launch.operations, launch.collectives), (5, 4, 2));
        for _ in 0..4 {
            assert!(launches.of(first).is_some());
            launches.released(first);
        }
        launches.released(other);
        // Their slots are reused, but not those of a template.
        let mut captured = reduce(8, 7, 2);
        captured.fields.flags = FLAG_CAPTURED;
        let template = launches.called(&captured).expect("a launch");
        assert!([first, other].contains(&template));
        launches.ended(2);
        launches.released(template);
        let next = launches.called(&reduce(9, 7, 3)).expect("a launch");
        assert_ne!(next, template);
        assert_eq!(launches.of(template).map(|launch| launch.first), Some(8));
        // A launch whose calls were emitted before its group ended is freed at the end of the group.
        launches.released(next);
        launches.ended(3);
        assert_eq!(launches.called(&reduce(10, 7, 4)), Some(next));
        assert_eq!(launches.slots.len(), 2);
    }
}
