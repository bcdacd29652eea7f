//! Explanations of the headings, in the words of METRICS.md.

/// Returns the explanation of a heading by its machine-readable name. Sums over ranks have separate names.
pub fn meaning(name: &str) -> &'static str {
    match name {
        "rank" => "Name of the rank. Click a row and keys and panels refer to it",
        "group" => "Ranks that are summed up",
        "level" => {
            "Whose time: of the rank's devices together, or of the thread of its host that was blocked most for communication"
        }
        "ranks" => "Ranks in the sum",
        "window_ns" | "window_rank_ns" => {
            "Time between the begin and the end of what was recorded, cut at the selection's ends. The parts beside it add up to it"
        }
        "own_ns" | "own_rank_ns" => {
            "Of a device: kernels computed, and nothing was communicated. Of a host: the thread was not blocked, and nothing was communicated"
        }
        "overlapped_ns" | "overlapped_rank_ns" => {
            "Of a device: it computed and communicated at once. Of a host: the thread was not blocked while communication ran"
        }
        "exposed_transfer_ns" | "exposed_transfer_rank_ns" => {
            "Exposed transfer: communication moved data, and nothing was computed meanwhile"
        }
        "exposed_wait_ns" | "exposed_wait_rank_ns" => {
            "Exposed wait: communication waited for other ranks to arrive, and nothing was computed meanwhile. This is the time lost to waiting"
        }
        "exposed_memory_ns" | "exposed_memory_rank_ns" => {
            "Exposed memory: copies and sets of memory ran, and nothing was computed or communicated meanwhile. Only devices have it"
        }
        "idle_ns" | "idle_rank_ns" => "Nothing ran on the device. Only devices have it",
        "other_blocked_ns" | "other_blocked_rank_ns" => {
            "The thread was blocked for communication while none ran: in a queue, or waiting for another thread. Only hosts have it"
        }
        "parts" => "The parts of the time beside each other, as shares of what was recorded",
        "operation" => {
            "What was called. Launches of several: calls of one group that run as one, with all of their bytes. Click a row to see how its times are distributed"
        }
        "role" => {
            "What the communicator is for: tensor, pipeline, data, expert or context parallel, as far as that was learnt"
        }
        "scope" => "Whether the communicator's members are inside one host, each on another, or mixed",
        "library" => "The library that was called",
        "size_from_bytes" => {
            "Payload of the call: its own count times the size of an element, in classes of powers of two. Of all-to-all and others with a count per member the bytes of all"
        }
        "members" => "Members of the communicator",
        "instances" => {
            "Instances that begin in the selection: the matching calls of all members count as one"
        }
        "size_bytes" => {
            "S of the bandwidth, summed up: of all-reduce, broadcast and messages the payload; of all-gather, reduce-scatter and all-to-all that times the members"
        }
        "exposed_wait_where_last_rank_ns" => {
            "Exposed wait of all members in the launches in which it arrived last. It is not its blame: that shares a wait among all who were missing"
        }
        "transfer_p50_ns" => {
            "Median time of a transfer: from the last arrival that was needed to the last leave, after clock correction"
        }
        "transfer_p99_ns" => "99 % of the transfers took at most this long",
        "bus_p50_bytes_per_s" => {
            "Bus bandwidth, median: algorithm bandwidth times the factor of the operation, 2(n − 1)/n of all-reduce, as nccl-tests has it. Of launches with a wait share of at most 20 %"
        }
        "algorithm_p50_bytes_per_s" => {
            "Algorithm bandwidth, median: S over the transfer time. Of launches with a wait share of at most 20 %"
        }
        "effective_p50_bytes_per_s" => {
            "S over the whole duration with its waiting, median: what a program sees. Of all complete instances"
        }
        "duration_p50_ns" => "From the first enter to the last leave, median",
        "hidden_wait_rank_ns" => {
            "Hidden wait, summed over ranks: waiting for peers while the program computed"
        }
        "shared" => {
            "Instances whose times are those of the launch that they share with others; bandwidth is told of the launch"
        }
        "not_matched" => {
            "Incomplete, mismatched or unmatched: a member's call was not seen, or does not agree. They give no times"
        }
        "enqueued" => "It was recorded that they were enqueued, and not when they were done",
        "bandwidth_invalid" => {
            "Launches bound by their transfer with t ≤ 0: the clocks cannot tell it. They are left out of the bandwidth"
        }
        "cause" => "Why nothing was computed, as far as it can be told",
        "count" => "Stalls that begin in the selection: stretches of at least 1 ms without compute",
        "ns" => "Their time, also beyond the end of the selection",
        "late_rank" => "The rank that was waited for most in it",
        "start_ns" => "Begin, on the time axis of the session. Click a row to look at it",
        "duration_ns" => "From begin to end; the end may lie beyond the selection",
        "wait_ns" => "Waiting for peers in it",
        "step" => "The step in which it begins",
        "last_arrivals" => "Launches in the selection in which it arrived last",
        "launches" => "Launches in the selection that it took part in, with at least two members",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::selection;
    use super::super::rows::{Rows, Shape};
    use super::*;

    #[test]
    fn every_heading_says_what_it_means() {
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
