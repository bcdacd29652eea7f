//! Explanations of the headings, in the words of METRICS.md.

/// Returns the explanation of a heading by its machine-readable name. Sums over ranks have separate names.
pub fn meaning(name: &str) -> &'static str {
    match name {
        "rank" => "Name of the rank. Click a row to select the rank for keys and panels",
        "group" => "Group of ranks in the sum",
        "level" => {
            "Device: time of all devices of the rank. Host: time of the thread that was blocked most for communication"
        }
        "ranks" => "Number of ranks in the sum",
        "window_ns" | "window_rank_ns" => "Recorded time inside the selection. The parts add up to it",
        "own_ns" | "own_rank_ns" => {
            "Device: only computation ran, no communication. Host: the thread was not blocked, and no communication ran"
        }
        "overlapped_ns" | "overlapped_rank_ns" => {
            "Device: computation and communication ran at the same time. Host: the thread was not blocked while communication ran"
        }
        "exposed_transfer_ns" | "exposed_transfer_rank_ns" => {
            "Exposed transfer: communication moves data, nothing computes"
        }
        "exposed_wait_ns" | "exposed_wait_rank_ns" => {
            "Exposed wait: communication waits for other ranks, nothing computes. This is the time lost to waiting"
        }
        "exposed_memory_ns" | "exposed_memory_rank_ns" => {
            "Exposed memory: memory is copied or set, without computation or communication. Devices only"
        }
        "idle_ns" | "idle_rank_ns" => "Nothing runs on the device. Devices only",
        "other_blocked_ns" | "other_blocked_rank_ns" => {
            "The thread is blocked for communication, but none runs: it is queued, or waits for another thread. Hosts only"
        }
        "parts" => "Parts of the time, as shares of the recorded time",
        "operation" => {
            "Operation that was called. Calls of one group that run together are one launch, with the sum of their bytes. Click a row for the distribution of its times"
        }
        "role" => "Role of the communicator: tensor, pipeline, data, expert or context parallel, if known",
        "scope" => "Reach of the communicator: inside one host, across hosts with one member each, or mixed",
        "library" => "Library that was called",
        "size_from_bytes" => {
            "Payload of the call: its count times the element size, in classes of powers of two. Operations with a count per member, such as all-to-all: sum over all members"
        }
        "members" => "Number of members of the communicator",
        "instances" => {
            "Instances that start in the selection. The matching calls of all members count as one"
        }
        "size_bytes" => {
            "Sum of the size S of the bandwidth. All-reduce, broadcast and messages: the payload. All-gather, reduce-scatter and all-to-all: the payload times the members"
        }
        "exposed_wait_where_last_rank_ns" => {
            "Exposed wait of all members in the launches in which it arrived last. It is not the blame, which is shared among all ranks that had not arrived"
        }
        "transfer_p50_ns" => {
            "Median transfer time: from the last needed arrival to the last leave, after clock correction"
        }
        "transfer_p99_ns" => "99th percentile of the transfer times",
        "bus_p50_bytes_per_s" => {
            "Median bus bandwidth: algorithm bandwidth times the factor of the operation, 2(n − 1)/n for all-reduce, as in nccl-tests. Only launches with a wait share of at most 20 %"
        }
        "algorithm_p50_bytes_per_s" => {
            "Median algorithm bandwidth: S divided by the transfer time. Only launches with a wait share of at most 20 %"
        }
        "effective_p50_bytes_per_s" => {
            "Median effective bandwidth: S divided by the whole duration, waits included. This is what the program sees. All complete instances"
        }
        "duration_p50_ns" => "Median time from the first enter to the last leave",
        "hidden_wait_rank_ns" => "Hidden wait: waiting for peers while the program computes. Sum over ranks",
        "shared" => {
            "Instances that share a launch with others. They have its times, and the launch has the bandwidth"
        }
        "not_matched" => {
            "Incomplete, mismatched or unmatched instances: the call of a member is missing or does not agree. They have no times"
        }
        "enqueued" => "Instances whose enqueue was recorded, but not their completion",
        "bandwidth_invalid" => {
            "Transfer-bound launches with t ≤ 0, which the clocks cannot resolve. The bandwidth excludes them"
        }
        "cause" => "Cause of the stall, if known",
        "count" => "Stalls that start in the selection: at least 1 ms without computation",
        "ns" => "Total time, including time after the end of the selection",
        "late_rank" => "Rank that was waited for most during the stall",
        "start_ns" => "Start on the time axis of the session. Click a row to show the stall",
        "duration_ns" => "Time from start to end. The end may be after the selection",
        "wait_ns" => "Waiting for peers during the stall",
        "step" => "Step in which the stall starts",
        "last_arrivals" => "Launches in the selection in which it arrived last",
        "counter" => "Name of the counter. Its end names the unit",
        "samples" => "Samples in the selection",
        "min" => "Smallest value that holds in the selection. A value holds until the next sample",
        "mean" => "Mean, weighted by the time for which each value holds",
        "max" => "Largest value that holds in the selection",
        "first" => "Value at the start of the selection, else the first sample",
        "last" => "Value at the end of the selection",
        "launches" => "Launches in the selection in which it took part, with at least two members",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::super::table_rows::tests::selection;
    use super::super::table_rows::{Rows, Shape};
    use super::*;

    #[test]
    fn every_heading_has_an_explanation() {
        let (selection, session) = selection();
        for shape in Shape::all() {
            let Some(rows) = Rows::new(&selection, &session, shape) else {
                continue;
            };
            for heading in &rows.table.headings {
                assert!(!meaning(heading.name).is_empty(), "{}", heading.name);
            }
        }
    }
}
