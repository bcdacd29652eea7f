//! What runs as one on the device: the calls of a group on one stream of one communicator (METRICS.md, section 1). NCCL
//! makes kernels for each communicator, so two of them in one group are two launches.

use rankscope_formats::Operation;
use rankscope_formats::ranklog::record::{FLAG_CAPTURED, Record};

/// Of a call that is in no group.
pub const ALONE: u32 = u32::MAX;

/// Groups that are open at once: one per thread. Of more, the oldest end was not recorded.
const MOST_OPEN: usize = 1024;
/// Launches that are remembered, with those of captured calls, whose replays may come at any time.
const MOST: usize = 1 << 20;

/// A launch, as far as its calls were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Number of its first collective on the communicator; 0 if it has none.
    pub first: u32,
    /// Its calls.
    pub operations: u16,
    /// Collectives among them.
    pub collectives: u16,
    /// Calls that are still held.
    held: u32,
    is_template: bool,
}

/// A group's stream.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    group: u32,
    stream: u64,
    communicator: u32,
}

/// The launches of one log.
#[derive(Default)]
pub struct Launches {
    slots: Vec<Launch>,
    free: Vec<u32>,
    open: Vec<(Place, u32)>,
}

impl Launches {
    /// A call was read; the number of its launch.
    pub fn called(&mut self, record: &Record, group: u32) -> u32 {
        if group == 0 {
            return ALONE;
        }
        let place = Place {
            group,
            stream: record.object,
            communicator: record.communicator,
        };
        let known = self.open.iter().rev().find(|(known, _)| *known == place);
        let number = match known {
            Some(&(_, number)) => number,
            None => {
                let Some(number) = self.make() else { return ALONE };
                if self.open.len() >= MOST_OPEN {
                    self.open.drain(..MOST_OPEN / 2);
                }
                self.open.push((place, number));
                number
            }
        };
        let launch = &mut self.slots[number as usize];
        launch.held += 1;
        launch.is_template |= record.flags & FLAG_CAPTURED != 0;
        launch.operations = launch.operations.saturating_add(1);
        let is_message =
            record.operation == Operation::Send as u8 || record.operation == Operation::Receive as u8;
        if !is_message {
            if launch.collectives == 0 {
                launch.first = record.sequence;
            }
            launch.collectives = launch.collectives.saturating_add(1);
        }
        number
    }

    fn make(&mut self) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            self.slots[number as usize] = Launch::default();
            return Some(number);
        }
        if self.slots.len() >= MOST {
            return None;
        }
        self.slots.push(Launch::default());
        Some(self.slots.len() as u32 - 1)
    }

    /// A group has ended: its launches grow no more.
    pub fn ended(&mut self, group: u32) {
        self.open.retain(|(place, _)| place.group != group);
    }

    /// What is known of a launch.
    pub fn of(&self, number: u32) -> Option<Launch> {
        self.slots.get(number as usize).copied()
    }

    /// One of its calls is handed on.
    pub fn released(&mut self, number: u32) {
        let Some(launch) = self.slots.get_mut(number as usize) else {
            return;
        };
        launch.held = launch.held.saturating_sub(1);
        let is_open = self.open.iter().any(|&(_, open)| open == number);
        if launch.held == 0 && !launch.is_template && !is_open {
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_formats::ranklog::record::RecordKind;

    fn call(operation: Operation, sequence: u32, stream: u64) -> Record {
        Record {
            operation: operation as u8,
            sequence,
            object: stream,
            communicator: 3,
            ..Record::new(RecordKind::Enqueue)
        }
    }

    #[test]
    fn calls_of_one_group_on_one_stream_are_one_launch() {
        let mut launches = Launches::default();
        let reduce = |sequence, stream| call(Operation::AllReduce, sequence, stream);
        assert_eq!(launches.called(&reduce(0, 7), 0), ALONE);
        let first = launches.called(&call(Operation::Send, 0, 7), 1);
        assert_eq!(launches.called(&reduce(5, 7), 1), first);
        let other = launches.called(&reduce(6, 8), 1);
        assert_ne!(other, first, "another stream");
        assert_eq!(launches.called(&reduce(7, 7), 1), first);
        launches.ended(1);
        let launch = launches.of(first).expect("known");
        assert_eq!((launch.first, launch.operations, launch.collectives), (5, 3, 2));
        for _ in 0..3 {
            assert!(launches.of(first).is_some());
            launches.released(first);
        }
        launches.released(other);
        // Their places are used again, but not a template's.
        let captured = Record {
            flags: FLAG_CAPTURED,
            ..reduce(8, 7)
        };
        let template = launches.called(&captured, 2);
        assert!([first, other].contains(&template));
        launches.ended(2);
        launches.released(template);
        let next = launches.called(&reduce(9, 7), 3);
        assert_ne!(next, template);
        assert_eq!(launches.of(template).map(|launch| launch.first), Some(8));
        assert_eq!(launches.slots.len(), 2);
    }
}
