//! Reports whose times were overwritten by a later operation.
//!
//! The device writes the times of a channel's works into a ring of 64 entries. NCCL's proxy thread reads an entry once the
//! device has reached its work or a later one. If the thread is at least 64 works late, it reads the times of a later
//! work. This was seen with NCCL 2.28.9 and 2.30.7 (`tests/host-nccl`, case `many`), and the sources of 2.27 agree.
//!
//! A communicator executes its launches one after another, so their ends are in the order of the calls. A report that ends
//! after a later operation has the times of another operation. Earlier reports may have such times too, without a
//! contradiction. But an entry is overwritten only if enough later calls were entered before its report.

use crate::model::log_communicator::LogCommunicator;
use rankscope_ranklog::Operation;
use rustc_hash::FxHashMap;
use std::num::NonZeroU32;

/// Number of later calls that can overwrite an entry, if each call makes two works on the channel.
const CALLS_IN_RING: u64 = 32;
/// Number of operations before a contradicted one whose times are doubtful if replays make the calls useless as a measure:
/// two rounds of the ring.
const DOUBTFUL: u32 = 128;
/// Maximum number of entries of a communicator that are compared with later ones.
const MAX_COMPARED: usize = 4_096;
/// Maximum number of entries of all communicators, of 32 bytes each.
const MAX_ENTRIES: usize = 1 << 18;
/// Maximum number of communicators.
const MAX_COMMUNICATORS: usize = 1 << 16;
/// Maximum number of ranges.
const MAX_RANGES: usize = 1 << 16;

/// Whether the entry of a work may have been overwritten before its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// Too few later calls were entered.
    None,
    /// The number of later works is unknown: replays of graphs make works without calls.
    Unknown,
    /// Enough later calls were entered.
    Possible,
}

impl Doubt {
    /// Returns the doubt about a report, by the number of later calls that were entered before it.
    pub fn after(later_calls: u64, has_replays: bool) -> Self {
        if has_replays {
            Self::Unknown
        } else if later_calls >= CALLS_IN_RING {
            Self::Possible
        } else {
            Self::None
        }
    }
}

/// A collective that the library reported.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    /// Ordinal of its call.
    pub sequence: u32,
    /// Group of its call. The calls of a group may run in any order.
    pub group: Option<NonZeroU32>,
    /// End on the device's clock, in nanoseconds.
    pub end_ns: u64,
    /// Whether the times may be those of a later operation.
    pub doubt: Doubt,
}

/// Returns true for collectives that NCCL does not build from messages. The end of a message is in no fixed order.
pub fn has_ordered_end(operation: Option<Operation>) -> bool {
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

/// A call, or the calls of a group.
#[derive(Clone, Copy, Debug)]
struct Entry {
    first: u32,
    last: u32,
    group: Option<NonZeroU32>,
    doubt: Doubt,
    /// Latest end.
    end_ns: u64,
}

/// The last reports of each communicator, in the order of their calls.
#[derive(Default)]
pub struct ReportOrder {
    entries: FxHashMap<LogCommunicator, Vec<Entry>>,
    count: usize,
}

impl ReportOrder {
    /// Adds a report, and adds those to `overwritten` that it contradicts.
    pub fn reported(
        &mut self,
        communicator: LogCommunicator,
        report: Reported,
        overwritten: &mut Overwritten,
    ) {
        let is_known = self.entries.contains_key(&communicator);
        if self.count >= MAX_ENTRIES || (!is_known && self.entries.len() >= MAX_COMMUNICATORS) {
            overwritten.not_compared += 1;
            return;
        }
        let entries = self.entries.entry(communicator).or_default();
        let before = entries.len();
        let mut entry = Entry {
            first: report.sequence,
            last: report.sequence,
            group: report.group,
            doubt: report.doubt,
            end_ns: report.end_ns,
        };
        match entries.last().copied() {
            // The log is only nearly ordered.
            Some(last) if last.last >= report.sequence => {
                overwritten.not_compared += 1;
                return;
            }
            Some(last) if last.group.is_some() && last.group == report.group => {
                entries.pop();
                entry.first = last.first;
                entry.doubt = entry.doubt.max(last.doubt);
                entry.end_ns = entry.end_ns.max(last.end_ns);
            }
            _ => {}
        }
        // A later end of the same group does not hide an early one.
        let is_contradicted = |earlier: &Entry| earlier.end_ns > report.end_ns;
        if let Some(last) = entries.last().copied().filter(is_contradicted) {
            let doubtful_from = report.sequence.saturating_sub(DOUBTFUL);
            let is_doubtful = |earlier: &mut Entry| match earlier.doubt {
                Doubt::Possible => true,
                Doubt::Unknown => earlier.last >= doubtful_from || is_contradicted(earlier),
                Doubt::None => is_contradicted(earlier),
            };
            let mut from = last.first;
            while let Some(earlier) = entries.pop_if(is_doubtful) {
                from = earlier.first;
            }
            overwritten.add(communicator, from, last.last);
        }
        if entries.len() >= MAX_COMPARED {
            // Only doubtful entries can be found wrong later.
            entries.retain(|earlier| earlier.doubt != Doubt::None);
            let excess = (entries.len() + MAX_COMPARED / 2).saturating_sub(MAX_COMPARED);
            overwritten.not_compared += entries.drain(..excess).count() as u64;
        }
        entries.push(entry);
        self.count = (self.count + entries.len()).saturating_sub(before);
    }
}

/// Calls whose reports have, or may have, the times of later operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overwritten {
    /// First and last ordinals, in order.
    ranges: FxHashMap<LogCommunicator, Vec<(u32, u32)>>,
    count: usize,
    /// Number of reports that were not compared with all later ones.
    pub not_compared: u64,
}

impl Overwritten {
    fn add(&mut self, communicator: LogCommunicator, from: u32, to: u32) {
        let has_room = self.count < MAX_RANGES;
        let ranges = self.ranges.entry(communicator).or_default();
        while ranges.pop_if(|range| range.0 >= from).is_some() {
            self.count -= 1;
        }
        match ranges.last_mut() {
            // Without room, the operations between both ranges are left out, too.
            Some(range) if range.1.saturating_add(1) >= from || !has_room => range.1 = range.1.max(to),
            None if !has_room => self.not_compared += u64::from(to - from) + 1,
            _ => {
                ranges.push((from, to));
                self.count += 1;
            }
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
    const RING: u64 = 64;

    /// Adds reports of calls, all of which were entered before the first report: sequence, group, end.
    fn overwritten(ends: impl IntoIterator<Item = (u32, u32, u64)>, calls: u64) -> Overwritten {
        let mut found = Overwritten::default();
        let mut order = ReportOrder::default();
        for (sequence, group, end_ns) in ends {
            let report = Reported {
                sequence,
                group: NonZeroU32::new(group),
                end_ns,
                doubt: Doubt::after(calls.saturating_sub(u64::from(sequence) + 1), false),
            };
            order.reported(ONE, report, &mut found);
        }
        found
    }

    fn true_end(work: u64) -> u64 {
        1_000 + work * 10
    }

    /// The device executes works at once, and a proxy that is slower by `rate` reads their entries.
    fn read_by_a_slow_proxy(work: u64, rate: f64, works: u64) -> u64 {
        let executed = ((work as f64 * rate) as u64).clamp(work, works - 1);
        true_end(work + (executed - work) / RING * RING)
    }

    #[test]
    fn no_overwritten_time_of_a_slow_proxy_is_kept() {
        const WORKS: u64 = 3_000;
        for rate in [1.2, 1.5, 2.0, 3.0] {
            let read = |work| read_by_a_slow_proxy(work, rate, WORKS);
            let found = overwritten((0..WORKS).map(|work| (work as u32, 0, read(work))), WORKS);
            let is_kept = |work: &u64| !found.contains(ONE, *work as u32);
            let wrong = (0..WORKS).filter(|&work| read(work) != true_end(work));
            assert!(wrong.clone().count() > 2_000, "{rate}");
            assert_eq!(wrong.filter(is_kept).count(), 0, "{rate}");
            // The calls at the end have too few later ones.
            assert!(
                (WORKS - CALLS_IN_RING..WORKS).all(|work| is_kept(&work)),
                "{rate}"
            );
        }
    }

    /// Adds reports with this doubt, of which number 300 ends too late. Returns the calls whose times are left out.
    fn left_out_around_300(doubt: Doubt) -> Vec<u32> {
        let mut found = Overwritten::default();
        let mut order = ReportOrder::default();
        for sequence in 0..600 {
            let report = Reported {
                sequence,
                group: None,
                end_ns: true_end(u64::from(sequence)) + if sequence == 300 { 25 } else { 0 },
                doubt,
            };
            order.reported(ONE, report, &mut found);
        }
        assert!(!found.contains(LogCommunicator(1), 300));
        (0..600)
            .filter(|&sequence| found.contains(ONE, sequence))
            .collect()
    }

    #[test]
    fn the_times_of_calls_that_were_entered_one_by_one_are_kept() {
        assert_eq!(left_out_around_300(Doubt::after(5, false)), [300]);
    }

    #[test]
    fn with_replays_the_operations_just_before_are_doubtful() {
        let expected = Vec::from_iter(301 - DOUBTFUL..=300);
        assert_eq!(left_out_around_300(Doubt::after(0, true)), expected);
    }

    #[test]
    fn equal_ends_and_groups_are_kept() {
        // The device's timer may be coarser than an operation.
        let coarse = overwritten(
            (0..600).map(|sequence| (sequence, 0, u64::from(sequence / 10))),
            600,
        );
        assert_eq!(coarse, Overwritten::default());
        let in_group = overwritten(
            (0..10).map(|sequence| (sequence, 1, 100 - u64::from(sequence))),
            10,
        );
        assert_eq!(in_group, Overwritten::default());
    }

    #[test]
    fn a_group_is_compared_with_what_precedes_it() {
        let found = overwritten([(0, 0, 500), (1, 7, 600), (2, 7, 100), (3, 0, 200)], 4);
        assert!(
            found.contains(ONE, 0),
            "it ends after the second call of the group"
        );
        assert!(
            found.contains(ONE, 1) && found.contains(ONE, 2),
            "one of them ends after call 3"
        );
        assert!(!found.contains(ONE, 3));
    }

    #[test]
    fn what_is_not_compared_is_counted() {
        // In reverse order, no report can be compared with an earlier one.
        let reversed = overwritten((0..10).rev().map(|sequence| (sequence, 0, 5)), 10);
        assert_eq!(reversed.not_compared, 9);
        let many = overwritten(
            (0..10_000).map(|sequence| (sequence, 0, u64::from(sequence))),
            1 << 20,
        );
        assert!(
            many.not_compared > 0 && many.not_compared < 10_000,
            "{}",
            many.not_compared
        );
        let certain = overwritten((0..10_000).map(|sequence| (sequence, 0, u64::from(sequence))), 0);
        assert_eq!(certain.not_compared, 0, "no later report can contradict them");
    }
}
