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
