//! A program's own report of its operations, line by line (`tests/programs/truth.h`, `tests/programs/torch/rank.py`).

use rankscope_ranklog::Operation;
use rankscope_ranklog::record::NO_PEER;
use serde_json::Value;

/// Returns the operation that has this name in the programs.
///
/// # Panics
/// If there is none.
pub fn operation(line: &Value) -> Operation {
    match line["op"].as_str() {
        Some("allreduce") => Operation::AllReduce,
        Some("allgather") => Operation::AllGather,
        Some("allgatherv") => Operation::AllGatherV,
        Some("alltoall" | "alltoall_base") => Operation::AllToAll,
        Some("alltoallv") => Operation::AllToAllV,
        Some("barrier") => Operation::Barrier,
        Some("broadcast") => Operation::Broadcast,
        Some("gather") => Operation::Gather,
        Some("gatherv") => Operation::GatherV,
        Some("reduce") => Operation::Reduce,
        Some("reduce_scatter") => Operation::ReduceScatter,
        Some("scatter") => Operation::Scatter,
        Some("send") => Operation::Send,
        Some("recv") => Operation::Receive,
        Some("put") => Operation::Put,
        Some("signal") => Operation::Signal,
        Some("waitsignal") => Operation::WaitSignal,
        _ => panic!("no operation that is known: {line}"),
    }
}

/// Returns true for a send or a receive.
pub fn is_message(line: &Value) -> bool {
    matches!(line["op"].as_str(), Some("send" | "recv"))
}

/// Returns a number that the line must have.
///
/// # Panics
/// If it has none.
pub fn number(line: &Value, field: &str) -> u64 {
    line[field]
        .as_u64()
        .unwrap_or_else(|| panic!("no {field}: {line}"))
}

/// Returns the root or peer, or [`NO_PEER`] if the operation has none.
pub fn member(line: &Value, field: &str) -> i32 {
    line[field]
        .as_i64()
        .and_then(|value| value.try_into().ok())
        .unwrap_or(NO_PEER)
}

/// Returns the program's name of the communicator.
pub fn communicator(line: &Value) -> String {
    line["communicator"].as_str().unwrap_or_default().to_owned()
}

/// Returns the bytes to or from each member, if the line has counts.
pub fn bytes_per_member(line: &Value, field: &str) -> Vec<u64> {
    let counts = line.get(field).and_then(Value::as_array);
    let element = number(line, "element_size");
    counts
        .into_iter()
        .flatten()
        .map(|count| count.as_u64().unwrap_or_default() * element)
        .collect()
}

/// Returns the messages among these lines, in the form of [`crate::recorded::Recorded::messages`].
pub fn messages(lines: &[Value]) -> Vec<(Operation, u64, u64, i32)> {
    lines
        .iter()
        .filter(|line| is_message(line))
        .map(|line| {
            let slot = line["tag"].as_u64().unwrap_or_default();
            (operation(line), slot, number(line, "bytes"), member(line, "peer"))
        })
        .collect()
}
