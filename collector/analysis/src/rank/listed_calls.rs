//! Calls that a log lists as in progress, and that have completed.
//!
//! The list in segments is up to a second old. The list of a live area is read before the records.

use rankscope_ranklog::reader::{InFlight, RankLog};
use rankscope_ranklog::record::Record;
use rustc_hash::FxHashSet;

/// Lane, time of enter in ticks, kind, operation, sequence number and object of a call: what is known at its enter, and
/// does not change. Imported calls that were launched together have the same time.
type Key = (u32, u64, u8, u8, u32, u64);

/// Calls that the segments list, and those of them whose records were read.
pub struct ListedCalls {
    /// Bits of a time that segments keep.
    mask: u64,
    open: FxHashSet<Key>,
    completed: FxHashSet<Key>,
}

impl ListedCalls {
    /// Returns the listed calls of a log. A call leaves the list after its record was committed, so it may be in both.
    pub fn of(log: &RankLog) -> Self {
        let quantum = log.properties.get("clock.quantum_ticks");
        let quantum = quantum.and_then(|text| text.parse::<u64>().ok());
        let mask = !(quantum.filter(|quantum| quantum.is_power_of_two()).unwrap_or(1) - 1);
        let mut listed = Self {
            mask,
            open: FxHashSet::default(),
            completed: FxHashSet::default(),
        };
        listed.open = log
            .in_flight
            .iter()
            .map(|call| listed.key(call.lane, &call.record))
            .collect();
        listed
    }

    fn key(&self, lane: u32, record: &Record) -> Key {
        (
            lane,
            record.enter_ticks & self.mask,
            record.kind,
            record.operation,
            record.sequence,
            record.object,
        )
    }

    /// Adds a record that was read.
    #[inline]
    pub fn completed(&mut self, lane: u32, record: &Record) {
        if self.open.is_empty() {
            return;
        }
        let key = self.key(lane, record);
        if self.open.remove(&key) {
            self.completed.insert(key);
        }
    }

    /// Returns true if the record of a call was read.
    pub fn has_completed(&self, call: &InFlight) -> bool {
        self.completed.contains(&self.key(call.lane, &call.record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_ranklog::Operation;
    use rankscope_ranklog::clock::Counter;
    use rankscope_ranklog::record::RecordKind;
    use rankscope_ranklog::writer::LogWriter;

    /// A call of a closed log is both listed and recorded if its thread was interrupted between the two.
    #[test]
    fn only_the_listed_call_that_has_a_record_has_completed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rank.rslog");
        let file = std::fs::File::create(&path).expect("a file");
        let call = |sequence| Record {
            operation: Operation::AllReduce as u8,
            enter_ticks: 100,
            sequence,
            ..Record::new(RecordKind::Call)
        };
        let mut log = LogWriter::new(file, Counter::MonotonicRaw, 7, 9).expect("a header");
        log.in_flight(&[(0, 1, call(1)), (0, 1, call(2))])
            .expect("written");
        log.end().expect("written");
        let log = RankLog::open(&path).expect("a log");
        let mut listed = ListedCalls::of(&log);
        let record = Record {
            leave_ticks: 200,
            communicator: 3,
            ..call(1)
        };
        listed.completed(0, &record);
        let completed: Vec<bool> = log
            .in_flight
            .iter()
            .map(|call| listed.has_completed(call))
            .collect();
        assert_eq!(completed, [true, false]);
    }
}
