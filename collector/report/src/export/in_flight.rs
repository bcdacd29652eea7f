//! Counters of the operations in flight on one rank, and of their bytes.

use rankscope_formats::perfetto::{CounterId, CounterUnit, CounterValue, Error, TraceWriter, TrackId};
use rankscope_formats::whole_file::WholeFile;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Maximum number of changes that are sorted ahead.
const CHANGES_AHEAD: usize = 1 << 14;

/// Counters with the changes that are not written yet.
pub struct InFlight {
    operations: CounterId,
    bytes: CounterId,
    /// Time in the trace, and changes of the two counters. The earliest change comes first.
    changes: BinaryHeap<Reverse<(u64, i64, i64)>>,
    /// Values of the two counters.
    values: (i64, i64),
}

impl InFlight {
    /// Creates the counters of a process.
    pub fn new(writer: &mut TraceWriter<WholeFile>, process: TrackId) -> Result<Self, Error> {
        Ok(Self {
            operations: writer.counter(Some(process), "operations in flight", CounterUnit::Count)?,
            bytes: writer.counter(Some(process), "bytes in flight", CounterUnit::Bytes)?,
            changes: BinaryHeap::new(),
            values: (0, 0),
        })
    }

    /// Adds an operation that is in flight during this interval of the trace.
    pub fn add(
        &mut self,
        writer: &mut TraceWriter<WholeFile>,
        (start_ns, end_ns): (u64, u64),
        bytes: i64,
    ) -> Result<(), Error> {
        self.changes.push(Reverse((start_ns, 1, bytes)));
        self.changes.push(Reverse((end_ns.max(start_ns), -1, -bytes)));
        while self.changes.len() > CHANGES_AHEAD {
            self.write_earliest(writer)?;
        }
        Ok(())
    }

    /// Writes all changes.
    pub fn finish(&mut self, writer: &mut TraceWriter<WholeFile>) -> Result<(), Error> {
        while self.write_earliest(writer)? {}
        Ok(())
    }

    /// Writes the earliest change. Returns false if there is none.
    fn write_earliest(&mut self, writer: &mut TraceWriter<WholeFile>) -> Result<bool, Error> {
        let Some(Reverse((time_ns, operations, bytes))) = self.changes.pop() else {
            return Ok(false);
        };
        self.values.0 += operations;
        self.values.1 += bytes;
        writer.counter_value(self.operations, time_ns, CounterValue::Int(self.values.0))?;
        writer.counter_value(self.bytes, time_ns, CounterValue::Int(self.values.1))?;
        Ok(true)
    }
}
