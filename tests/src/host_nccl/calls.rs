//! Calls, as the program reports them and as they were recorded.

use rankscope_ranklog::Operation;
use rankscope_ranklog::record::{Enqueued, FLAG_CAPTURED, Record, RecordKind};
use serde_json::Value;

use crate::job::Finished;
use crate::recorded::Recorded;
use crate::truth::{self, member, number};

/// One call, as the program reports it and as it was recorded.
#[derive(Debug, PartialEq)]
pub struct Asked {
    /// Operation.
    pub operation: Operation,
    /// Bytes by count and type.
    pub bytes: u64,
    /// Root or peer; -1 if there is none.
    pub peer: i32,
    /// True inside a group.
    pub is_in_group: bool,
    /// True while the stream is captured.
    pub is_captured: bool,
    /// What NCCL returned.
    pub result: u32,
}

/// Returns the call that a program reports.
pub fn reported(line: &Value) -> Asked {
    let root_or_peer = if member(line, "peer") >= 0 { "peer" } else { "root" };
    Asked {
        operation: truth::operation(line),
        bytes: number(line, "bytes"),
        peer: member(line, root_or_peer),
        is_in_group: number(line, "group") > 0,
        is_captured: number(line, "captured") == 1,
        result: number(line, "result") as u32,
    }
}

/// Returns a recorded call.
///
/// # Panics
/// If the operation is unknown.
pub fn recorded(record: &Record) -> Asked {
    Asked {
        operation: Operation::from_u8(record.operation).expect("a known operation"),
        bytes: record.bytes,
        peer: record.peer,
        is_in_group: Enqueued::from_aux(record.aux).group > 0,
        is_captured: record.flags & FLAG_CAPTURED != 0,
        result: record.tag,
    }
}

/// Returns the operations that a rank reports.
pub fn operations(finished: &Finished, rank: usize) -> Vec<Value> {
    let mut lines = finished.truth(rank);
    lines.retain(|line| line["op"].is_string());
    lines
}

/// Returns the recorded calls in order.
pub fn calls(recorded: &Recorded) -> Vec<&Record> {
    let mut calls: Vec<&Record> = recorded.of_kind(RecordKind::Enqueue).collect();
    calls.sort_by_key(|record| record.enter_ticks);
    calls
}

/// Returns the reports of a rank without the fields that depend on time. These are streams, and whether a call on a
/// non-blocking communicator is still in progress.
pub fn comparable(finished: &Finished, rank: usize) -> Vec<Value> {
    const IN_PROGRESS: u64 = 7;
    let mut lines = finished.truth(rank);
    for line in &mut lines {
        let Some(fields) = line.as_object_mut() else {
            continue;
        };
        fields.remove("stream");
        if fields.get("result").and_then(Value::as_u64) == Some(IN_PROGRESS) {
            fields.insert("result".to_owned(), Value::from(0));
        }
    }
    lines
}

/// Asserts that a call was recorded as the program reports it.
///
/// # Panics
/// If it was not.
pub fn expect_as_reported(record: &Record, line: &Value, context: &str) {
    let mut expected = reported(line);
    if number(line, "element_size") == 0 {
        // The library refuses a type that it does not know. A later version may have it.
        expected.bytes = record.bytes;
    }
    assert_eq!(recorded(record), expected, "{context}: {line}");
}
