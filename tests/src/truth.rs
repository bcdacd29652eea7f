//! What a program says it did, line by line (`tests/programs/truth.h`, `tests/programs/torch/rank.py`).

use rankscope_ranklog::Operation;
use rankscope_ranklog::record::NO_PEER;
use serde_json::Value;

/// The operation that the programs call by this name.
///
/// # Panics
/// If none does.
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

/// True for a send or a receive.
pub fn is_message(line: &Value) -> bool {
    matches!(line["op"].as_str(), Some("send" | "recv"))
}

/// A number that the line must have.
///
/// # Panics
/// If it has none.
pub fn number(line: &Value, field: &str) -> u64 {
    line[field]
        .as_u64()
        .unwrap_or_else(|| panic!("no {field}: {line}"))
}

/// Root or peer; [`NO_PEER`] where the operation has none.
pub fn member(line: &Value, field: &str) -> i32 {
    line[field]
        .as_i64()
        .and_then(|value| value.try_into().ok())
        .unwrap_or(NO_PEER)
}

/// The communicator, as the program calls it.
pub fn communicator(line: &Value) -> String {
    line["communicator"].as_str().unwrap_or_default().to_owned()
}

/// Bytes to or from each member, where counts were told.
pub fn bytes_per_member(line: &Value, field: &str) -> Vec<u64> {
    let counts = line.get(field).and_then(Value::as_array);
    let element = number(line, "element_size");
    counts
        .into_iter()
        .flatten()
        .map(|count| count.as_u64().unwrap_or_default() * element)
        .collect()
}

/// The messages among these lines, as [`crate::recorded::Recorded::messages`] gives them.
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
