//! Reader of the files of NCCL's Inspector, a profiler plugin that NCCL 2.28 and newer ship.
//!
//! The format is known from `plugins/profiler/inspector/inspector_json.cc` of NCCL 2.30, and from
//! `ext-profiler/inspector/inspector.cc` of NCCL 2.28 and 2.29. All write version `v4.0`: one JSON object a line, one
//! line per operation that ended. A process writes one file, for all its communicators.

use crate::problem::Problem;
use serde::Deserialize;
use std::io::{self, BufRead, Read};

/// Maximum length of a line, in bytes. An operation with events on 64 channels needs 16 kB.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Maximum number of problems that are listed. Further problems are only counted.
const MAX_PROBLEMS: usize = 20;

/// Communicator of an operation.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Header {
    /// NCCL's hash of the communicator, the same on all members: `0x7f8c496ae9f661`.
    pub id: String,
    /// Name from the program, or `unknown`. NCCL before 2.30 writes none.
    #[serde(default)]
    pub comm_name: Option<String>,
    /// Number of this member.
    pub rank: u32,
    /// Number of members.
    pub n_ranks: u32,
}

/// Process that wrote a line.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Metadata {
    /// Version of the format.
    #[serde(default)]
    pub inspector_output_format_version: Option<String>,
    /// Time at which the line was written, in microseconds since 1970. The operation ended before.
    pub dump_timestamp_us: u64,
    /// Name of the host.
    pub hostname: String,
    /// Process id.
    pub pid: u32,
}

/// Operation.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Perf {
    /// NCCL's name of the operation: `AllReduce`, `Send`.
    #[serde(alias = "coll", alias = "p2p")]
    pub operation: String,
    /// Number of the collective among those of the same operation on this communicator, or of the message among all
    /// messages of this communicator and rank.
    #[serde(alias = "coll_sn", alias = "p2p_sn")]
    pub number: u64,
    /// Other end of a message.
    #[serde(default, alias = "p2p_peer")]
    pub peer: Option<i32>,
    /// Number of elements in the call times their size, in bytes.
    #[serde(alias = "coll_msg_size_bytes", alias = "p2p_msg_size_bytes")]
    pub bytes: u64,
    /// Duration, in microseconds.
    #[serde(alias = "coll_exec_time_us", alias = "p2p_exec_time_us")]
    pub duration_us: u64,
    /// Source of the duration: `kernel_gpu`, `kernel_cpu` or `collective_cpu`.
    #[serde(default, alias = "coll_timing_source", alias = "p2p_timing_source")]
    pub timing_source: Option<String>,
    /// Times, if the plugin was verbose.
    #[serde(default, rename = "event_trace_ts")]
    pub times: Option<Times>,
}

/// Times of an operation, in microseconds since 1970 by the host's clock.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Times {
    /// Start of the call.
    #[serde(default, alias = "coll_start_ts", alias = "p2p_start_ts")]
    pub called_us: u64,
    /// End of the call.
    #[serde(default, alias = "coll_stop_ts", alias = "p2p_stop_ts")]
    pub returned_us: u64,
    /// Kernel on each channel.
    #[serde(default)]
    pub kernel_events: Vec<Channel>,
}

/// Kernel on one channel. The times are those at which NCCL's thread noticed the events.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Channel {
    /// Start, in microseconds since 1970. 0 if it was not seen.
    #[serde(default)]
    pub kernel_start_ts: u64,
    /// End, in microseconds since 1970. 0 if it was not seen.
    #[serde(default)]
    pub kernel_stop_ts: u64,
}

/// One line.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Line {
    /// Communicator of the operation.
    pub header: Header,
    /// Process that wrote the line.
    pub metadata: Metadata,
    /// Collective.
    #[serde(default)]
    pub coll_perf: Option<Perf>,
    /// Message.
    #[serde(default)]
    pub p2p_perf: Option<Perf>,
}

/// Result of reading a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of lines that were read.
    pub lines: u64,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// Lines that could not be read, in order.
    pub problems: Vec<Problem>,
    /// Number of problems beyond the listed ones.
    pub more_problems: u64,
}

/// Reads a file and calls `visit` for each line. A line that cannot be read is a problem, and the next ones are read.
///
/// # Errors
///
/// If the input itself cannot be read.
pub fn read(mut input: impl BufRead, visit: &mut dyn FnMut(Line)) -> io::Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? as u64;
        if read == 0 {
            return Ok(outcome);
        }
        let offset = outcome.bytes;
        outcome.bytes += read;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice::<Line>(&line) {
            Ok(line) => {
                outcome.lines += 1;
                visit(line);
            }
            Err(_) if outcome.problems.len() >= MAX_PROBLEMS => outcome.more_problems += 1,
            Err(error) => outcome.problems.push(Problem {
                offset: offset + error.column().saturating_sub(1) as u64,
                what: format!("a line that is not in the Inspector's format was left out: {error}"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"header":{"id":"0xe6","rank":4,"n_ranks":8,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":1752867229276385,"hostname":"node0","pid":438776},"coll_perf":{"coll":"ReduceScatter","coll_sn":1231,"coll_msg_size_bytes":2147483648,"coll_exec_time_us":41057,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":418.4,"coll_busbw_gbs":366.1,"event_trace_ts":{"coll_start_ts":1752867229235059,"coll_stop_ts":1752867229235064,"kernel_events":[{"channel_id":0,"kernel_start_ts":1752867229235181,"kernel_stop_ts":1752867229275811,"kernel_record_ts":1752867229275811}]}}}"#;

    #[test]
    fn a_verbose_line_is_read_and_a_damaged_one_is_a_problem() {
        let file = format!("{LINE}\n{{\"header\":\n\n{LINE}\n{}", &LINE[..200]);
        let mut seen = Vec::new();
        let outcome = read(file.as_bytes(), &mut |line| seen.push(line)).expect("memory");
        assert_eq!((outcome.lines, outcome.problems.len()), (2, 2));
        assert!(outcome.problems[0].offset >= LINE.len() as u64);
        let perf = seen[0].coll_perf.as_ref().expect("a collective");
        assert_eq!((perf.operation.as_str(), perf.number), ("ReduceScatter", 1231));
        let times = perf.times.as_ref().expect("verbose");
        assert_eq!(times.kernel_events[0].kernel_stop_ts, 1_752_867_229_275_811);
    }
}
