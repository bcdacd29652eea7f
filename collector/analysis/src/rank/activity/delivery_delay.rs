//! Determines in a first pass how late CUPTI delivered its records.

use crate::clocks::clock::Line;
use rankscope_ranklog::activity::{Activity, ActivityKind};
use rankscope_ranklog::reader::RankLog;
use rankscope_ranklog::record::{Record, RecordKind};

/// Properties of a log that a first pass determines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryDelay {
    /// Maximum time by which device work starts before the newest record when it arrives, in nanoseconds.
    pub reach_ns: i64,
    /// Number of work items in the log.
    pub works: u64,
    /// True if the log declares the times for which activity was recorded.
    pub is_covered: bool,
}

impl DeliveryDelay {
    /// Reads the whole log.
    pub fn learn(log: &RankLog, line: &Line) -> Self {
        let mut learnt = Self::default();
        let mut newest = i64::MIN;
        let mut stream = log.records();
        let mut batch = Vec::new();
        let mut moments = Moments::default();
        while stream.next_unordered(&mut batch) {
            moments.clear();
            for (place, entry) in batch.iter().enumerate() {
                if let Some(ns) = learnt.reached(&entry.record, line) {
                    moments.push((entry.record.leave_ticks, place), ns);
                }
            }
            moments.put_in_order(newest);
            let mut at = 0;
            for (place, entry) in batch.iter().enumerate() {
                let Some(start_ticks) = begun(&entry.record) else {
                    continue;
                };
                at = moments.before((entry.record.leave_ticks, place), at);
                let newest = at.checked_sub(1).map_or(newest, |last| moments.list[last].1);
                if newest != i64::MIN {
                    learnt.reach_ns = learnt.reach_ns.max(newest - line.ns(start_ticks));
                }
            }
            newest = moments.list.last().map_or(newest, |last| last.1);
        }
        learnt
    }

    /// Returns the time that the log has reached with this record, if it shows one. Counts work items.
    fn reached(&mut self, record: &Record, line: &Line) -> Option<i64> {
        if record.kind != RecordKind::Activity as u8 {
            return Some(line.ns(record.leave_ticks));
        }
        match ActivityKind::from_u8(record.operation)? {
            ActivityKind::Kernel | ActivityKind::Copy | ActivityKind::Set | ActivityKind::Graph => {
                self.works += 1;
                None
            }
            ActivityKind::Covered => {
                let Some(Activity::Covered { end_ticks, .. }) = Activity::of(record) else {
                    return None;
                };
                self.is_covered = true;
                Some(line.ns(end_ticks))
            }
            _ => None,
        }
    }
}

/// Returns the start of a record of activity in ticks, or `None` if no wait for it is needed.
fn begun(record: &Record) -> Option<u64> {
    match Activity::of(record)? {
        Activity::Kernel { work, .. }
        | Activity::Copy { work, .. }
        | Activity::Set { work, .. }
        | Activity::Graph { work, .. } => Some(work.start_ticks),
        Activity::Call { call, .. } => Some(call.start_ticks),
        Activity::Link { near_ticks, .. } => Some(near_ticks),
        Activity::Overhead { start_ticks, .. } => Some(start_ticks),
        Activity::Covered { .. } | Activity::Stream { .. } => None,
    }
}

/// The times that the log has reached in a batch. They are few compared with work items, so only they need to be sorted
/// by leave time. Each has the leave time of its record in ticks, its position in the batch, and its value.
#[derive(Default)]
struct Moments {
    list: Vec<((u64, usize), i64)>,
}

impl Moments {
    fn clear(&mut self) {
        self.list.clear();
    }

    fn push(&mut self, left: (u64, usize), ns: i64) {
        self.list.push((left, ns));
    }

    /// Sorts the times and replaces each by the maximum so far, including `before`.
    fn put_in_order(&mut self, before: i64) {
        self.list.sort_unstable();
        let mut newest = before;
        for (_, ns) in &mut self.list {
            newest = newest.max(*ns);
            *ns = newest;
        }
    }

    /// Returns the number of entries before a record. `at` is the result for the preceding record.
    fn before(&self, left: (u64, usize), at: usize) -> usize {
        let is_before = |moment: &((u64, usize), i64)| moment.0 < left;
        // Records are nearly in order, so usually the result is unchanged.
        let is_still = at.checked_sub(1).is_none_or(|last| is_before(&self.list[last]))
            && self.list.get(at).is_none_or(|next| !is_before(next));
        if is_still {
            at
        } else {
            self.list.partition_point(is_before)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The result equals sorting all records by leave time and examining them one by one.
        #[test]
        fn the_newest_time_before_a_record_is_found_without_sorting_records(
            records in proptest::collection::vec((0u64..30, any::<bool>(), -50i64..50), 0..80),
            before in -60i64..0,
        ) {
            let mut moments = Moments::default();
            for (place, &(left, has_time, ns)) in records.iter().enumerate() {
                if has_time {
                    moments.push((left, place), ns);
                }
            }
            moments.put_in_order(before);
            let mut at = 0;
            for (place, &(left, ..)) in records.iter().enumerate() {
                at = moments.before((left, place), at);
                let found = at.checked_sub(1).map_or(before, |last| moments.list[last].1);
                let earlier = records.iter().enumerate().filter(|&(other, record)| record.1 && (record.0, other) < (left, place));
                let newest = earlier.map(|(_, record)| record.2).fold(before, i64::max);
                prop_assert_eq!(found, newest);
            }
        }
    }
}
