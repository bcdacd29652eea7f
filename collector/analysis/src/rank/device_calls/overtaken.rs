//! Reports with the times of a later operation.
//!
//! The device writes the times of a channel's works into a ring of 64 entries. NCCL's proxy thread reads an entry once the
//! device has reached its work or a later one. If the thread is at least 64 works late, it reads the times of a later
//! work. This was seen with NCCL 2.28.9 and 2.30.7 (`tests/host-nccl`, case `many`), and the sources of 2.27 agree.
//!
//! A communicator executes its launches one after another, so their ends are in the order of the calls. A report that does
//! not end before a later operation has the times of another operation. Some reports before it may also have them.

use crate::model::log_communicator::LogCommunicator;
use rankscope_ranklog::Operation;
use rustc_hash::FxHashMap;
use std::num::NonZeroU32;

/// Number of operations before a late report whose times are doubtful: two rounds of the ring.
const DOUBTFUL: u32 = 128;
/// Maximum number of operations of a communicator that are compared with later ones.
const MAX_COMPARED: usize = 4096;
/// Maximum number of ranges and of communicators.
const MOST: usize = 1 << 16;

/// A collective that the library reported.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    /// Its communicator in the log.
    pub communicator: LogCommunicator,
    /// Ordinal of its call.
    pub sequence: u32,
    /// Group of its call. The calls of a group may run in any order.
    pub group: Option<NonZeroU32>,
    /// End on the device's clock, in nanoseconds.
    pub end_ns: u64,
}

/// Returns true for operations whose calls are numbered together.
pub fn is_numbered(operation: Option<Operation>) -> bool {
    matches!(
        operation,
        Some(
            Operation::AllReduce
                | Operation::AllGather
                | Operation::ReduceScatter
                | Operation::Broadcast
                | Operation::Reduce
        )
    )
}

/// The last reports of each communicator, whose ends are in order.
#[derive(Default)]
pub struct InOrder {
    reports: FxHashMap<LogCommunicator, Vec<Reported>>,
}

impl InOrder {
    /// Adds a report, and adds those to `overtaken` that it contradicts.
    pub fn reported(&mut self, report: Reported, overtaken: &mut Overtaken) {
        if self.reports.len() >= MOST && !self.reports.contains_key(&report.communicator) {
            return;
        }
        let reports = self.reports.entry(report.communicator).or_default();
        let is_contradicted = |earlier: &Reported| {
            earlier.end_ns >= report.end_ns && (earlier.group.is_none() || earlier.group != report.group)
        };
        if reports
            .last()
            .is_some_and(|last| last.sequence >= report.sequence)
        {
            // The log is only nearly ordered.
            return;
        }
        if let Some(last) = reports.last().filter(|last| is_contradicted(last)) {
            let to = last.sequence;
            let doubtful_from = report.sequence.saturating_sub(DOUBTFUL);
            let mut from = to;
            while let Some(earlier) =
                reports.pop_if(|earlier| earlier.sequence >= doubtful_from || is_contradicted(earlier))
            {
                from = earlier.sequence;
            }
            overtaken.add(report.communicator, from, to);
        }
        if reports.len() == MAX_COMPARED {
            reports.drain(..MAX_COMPARED / 2);
        }
        reports.push(report);
    }
}

/// Calls whose reports have the times of later operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overtaken {
    /// First and last ordinals, in order.
    ranges: FxHashMap<LogCommunicator, Vec<(u32, u32)>>,
    count: usize,
}

impl Overtaken {
    fn add(&mut self, communicator: LogCommunicator, from: u32, to: u32) {
        let ranges = self.ranges.entry(communicator).or_default();
        while ranges.pop_if(|range| range.0 >= from).is_some() {
            self.count -= 1;
        }
        match ranges.last_mut() {
            Some(range) if range.1.saturating_add(1) >= from => range.1 = range.1.max(to),
            _ if self.count < MOST => {
                ranges.push((from, to));
                self.count += 1;
            }
            _ => {}
        }
    }

    /// Returns true if the report of a call has doubtful times.
    pub fn contains(&self, communicator: LogCommunicator, sequence: u32) -> bool {
        let Some(ranges) = self.ranges.get(&communicator) else {
            return false;
        };
        let after = ranges.partition_point(|range| range.0 <= sequence);
        let before = after.checked_sub(1).and_then(|before| ranges.get(before));
        before.is_some_and(|range| sequence <= range.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: LogCommunicator = LogCommunicator(0);

    fn overtaken(ends: impl Iterator<Item = (u32, u64)>, group: Option<NonZeroU32>) -> Overtaken {
        let mut overtaken = Overtaken::default();
        let mut in_order = InOrder::default();
        for (sequence, end_ns) in ends {
            let report = Reported {
                communicator: ONE,
                sequence,
                group,
                end_ns,
            };
            in_order.reported(report, &mut overtaken);
        }
        overtaken
    }

    /// The ring of a channel: the proxy reads the times of 100 works only after 300 have run.
    #[test]
    fn works_whose_entry_was_overwritten_are_found() {
        let true_end = |sequence: u32| 1_000 + u64::from(sequence) * 10;
        let is_late = |sequence: u32| (100..200).contains(&sequence);
        let read = |sequence: u32| {
            let rounds = if is_late(sequence) {
                (300 - sequence) / 64
            } else {
                0
            };
            true_end(sequence + 64 * rounds)
        };
        let found = overtaken((0..600).map(|sequence| (sequence, read(sequence))), None);
        for sequence in 0..600 {
            let is_wrong = read(sequence) != true_end(sequence);
            assert!(!is_wrong || found.contains(ONE, sequence), "{sequence}");
        }
        // Other times are kept.
        assert!((300..600).all(|sequence| !found.contains(ONE, sequence)));
        assert!(!found.contains(LogCommunicator(1), 150));
    }

    #[test]
    fn ends_in_order_and_groups_are_kept() {
        let in_order = overtaken((0..600).map(|sequence| (sequence, u64::from(sequence))), None);
        assert_eq!(in_order, Overtaken::default());
        let in_group = overtaken((0..10).map(|sequence| (sequence, 100)), NonZeroU32::new(1));
        assert_eq!(in_group, Overtaken::default());
    }
}
