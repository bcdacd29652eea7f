//! Launches: the calls of a group on one communicator, which run as one unit on the device (METRICS.md, section 1).
//!
//! NCCL creates kernels per communicator, so two communicators in one group are two launches. NCCL orders all streams
//! of a communicator's calls around one of them, so these calls are one launch.

use rankscope_ranklog::record::{FLAG_CAPTURED, FLAG_SEQUENCE_UNKNOWN, Record};
use rankscope_ranklog::{Operation, Pattern};

/// Launch number of a call outside of any group.
pub const ALONE: u32 = u32::MAX;

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

/// A communicator in a group.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    group: u32,
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
    /// Records a call and returns the number of its launch.
    pub fn called(&mut self, record: &Record, group: u32) -> u32 {
        if group == 0 {
            return ALONE;
        }
        let place = Place {
            group,
            communicator: record.communicator,
        };
        let known = self.open.iter().rev().find(|(known, _)| *known == place);
        let number = match known {
            Some(&(_, number)) => number,
            None => {
                let Some(number) = self.make() else { return ALONE };
                if self.open.len() >= MAX_OPEN {
                    for (_, number) in self.open.drain(..MAX_OPEN / 2) {
                        close(&mut self.slots, &mut self.free, number);
                    }
                }
                self.open.push((place, number));
                number
            }
        };
        let launch = &mut self.slots[number as usize];
        launch.held += 1;
        launch.is_template |= record.flags & FLAG_CAPTURED != 0;
        launch.operations = launch.operations.saturating_add(1);
        let pattern = Operation::from_u8(record.operation).map(Operation::pattern);
        let is_collective = !matches!(
            pattern,
            None | Some(Pattern::PointToPoint | Pattern::OneSided | Pattern::Unknown)
        );
        if is_collective && record.flags & FLAG_SEQUENCE_UNKNOWN == 0 {
            if launch.collectives == 0 {
                launch.first = record.sequence;
            }
            launch.collectives = launch.collectives.saturating_add(1);
        }
        number
    }

    fn make(&mut self) -> Option<u32> {
        let fresh = Launch {
            is_untouched: true,
            is_open: true,
            ..Launch::default()
        };
        if let Some(number) = self.free.pop() {
            self.slots[number as usize] = fresh;
            return Some(number);
        }
        if self.slots.len() >= MOST {
            return None;
        }
        self.slots.push(fresh);
        Some(self.slots.len() as u32 - 1)
    }

    /// Closes the launches of a group that ended.
    pub fn ended(&mut self, group: u32) {
        let (slots, free) = (&mut self.slots, &mut self.free);
        self.open.retain(|&(place, number)| {
            let stays = place.group != group;
            if !stays {
                close(slots, free, number);
            }
            stays
        });
    }

    /// Returns a launch.
    pub fn of(&self, number: u32) -> Option<Launch> {
        self.slots.get(number as usize).copied()
    }

    /// Records the start of a launch.
    pub fn began(&mut self, number: u32, began_ns: i64) {
        if let Some(launch) = self.slots.get_mut(number as usize) {
            launch.began_ns = Some(began_ns);
        }
    }

    /// Records that one of its calls is emitted.
    pub fn released(&mut self, number: u32) {
        let Some(launch) = self.slots.get_mut(number as usize) else {
            return;
        };
        launch.is_untouched = false;
        launch.held = launch.held.saturating_sub(1);
        if launch.held == 0 && !launch.is_template && !launch.is_open {
            self.free.push(number);
        }
    }
}

fn close(slots: &mut [Launch], free: &mut Vec<u32>, number: u32) {
    let launch = &mut slots[number as usize];
    launch.is_open = false;
    if launch.held == 0 && !launch.is_template {
        free.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_ranklog::record::RecordKind;

    fn call(operation: Operation, sequence: u32, communicator: u32) -> Record {
        Record {
            operation: operation as u8,
            sequence,
            communicator,
            ..Record::new(RecordKind::Enqueue)
        }
    }

    #[test]
    fn calls_of_one_group_on_one_communicator_are_one_launch() {
        let mut launches = Launches::default();
        let reduce = |sequence, communicator| call(Operation::AllReduce, sequence, communicator);
        assert_eq!(launches.called(&reduce(0, 7), 0), ALONE);
        let first = launches.called(&call(Operation::Send, 0, 7), 1);
        assert_eq!(launches.called(&call(Operation::Put, 3, 7), 1), first);
        assert_eq!(launches.called(&reduce(5, 7), 1), first);
        let other = launches.called(&reduce(6, 8), 1);
        assert_ne!(other, first, "another communicator");
        assert_eq!(launches.called(&reduce(7, 7), 1), first);
        launches.ended(1);
        let launch = launches.of(first).expect("known");
        assert_eq!((launch.first, launch.operations, launch.collectives), (5, 4, 2));
        for _ in 0..4 {
            assert!(launches.of(first).is_some());
            launches.released(first);
        }
        launches.released(other);
        // Their slots are reused, but not those of a template.
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
        // A launch whose calls were emitted before its group ended is freed at the end of the group.
        launches.released(next);
        launches.ended(3);
        assert_eq!(launches.called(&reduce(10, 7), 4), next);
        assert_eq!(launches.slots.len(), 2);
    }
}
