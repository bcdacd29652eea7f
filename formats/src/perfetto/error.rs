//! What the writer refuses, and why.

use std::io;

/// Why the writer did not write something. Except after [`Error::Io`] the trace is intact: the
/// refused item is missing from it, nothing else, and writing may go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The output failed; the trace ends somewhere in its last 64 KiB, and every later call fails.
    #[error("writing the trace: {0}")]
    Io(#[from] io::Error),
    /// A call after [`Error::Io`].
    #[error("the trace's output has failed before")]
    Failed,
    /// A name is empty: of a slice, a track, a process, a thread, a counter, an argument.
    #[error("empty name of a {0}")]
    EmptyName(&'static str),
    /// A timestamp or the end of a slice, in ns, is 2^63 or more.
    #[error("timestamp {0} ns (plus duration) is beyond 2^63")]
    TimeRange(u64),
    /// A slice starts before its predecessor on the same track.
    #[error("track {track}: slice starts at {start_ns} ns, after one that started at {previous_ns} ns")]
    OutOfOrder {
        /// Name of the track.
        track: String,
        /// Start of the refused slice, ns.
        start_ns: u64,
        /// Start of the latest slice of the track, ns.
        previous_ns: u64,
    },
    /// A slice begins inside an open one and ends after it: neither nested nor disjoint. Also two
    /// slices with equal start of which the shorter came first.
    #[error(
        "track {track}: slice {start_ns}..{end_ns} ns sticks out of the open one, which ends at {open_end_ns} ns"
    )]
    Overlap {
        /// Name of the track.
        track: String,
        /// Start of the refused slice, ns.
        start_ns: u64,
        /// End of the refused slice, ns.
        end_ns: u64,
        /// End of the innermost open slice, ns.
        open_end_ns: u64,
    },
    /// More slices inside each other than the engine keeps.
    #[error("track {track}: more than {limit} slices inside each other at {start_ns} ns")]
    TooDeep {
        /// Name of the track.
        track: String,
        /// Start of the refused slice, ns.
        start_ns: u64,
        /// The deepest nesting that is written.
        limit: usize,
    },
    /// A pid or tid is 0, which the engine takes for the idle task.
    #[error("{0} 0 belongs to the idle task")]
    ZeroId(&'static str),
    /// A number of a host or a shard is beyond what fits.
    #[error("{what} {number} is beyond {limit}")]
    NumberRange {
        /// What is numbered.
        what: &'static str,
        /// The number.
        number: u64,
        /// The highest that fits.
        limit: u64,
    },
    /// A counter's value is NaN or infinite.
    #[error("counter {track}: {value} at {time_ns} ns is no number")]
    NotFinite {
        /// Name of the counter.
        track: String,
        /// Time of the sample, ns.
        time_ns: u64,
        /// The value.
        value: f64,
    },
    /// A flow's sink precedes its source in the trace's order: the engine would draw nothing.
    #[error(
        "flow {flow}: its end at {end_ns} ns precedes its source at {source_ns} ns (or the file's order at equal times)"
    )]
    FlowOrder {
        /// The flow's id.
        flow: u64,
        /// Start of the slice in which the flow ends, ns.
        end_ns: u64,
        /// Start of the slice from which it comes, ns.
        source_ns: u64,
    },
    /// A flow touches processes of two machines ([`Hosts::Machines`](super::Hosts::Machines)).
    #[error("flow {0} touches two machines: the engine draws no such flow")]
    FlowAcrossMachines(u64),
    /// Flows that ended without a source, found when the trace was finished.
    #[error("{0} flows end that have no source")]
    FlowWithoutSource(usize),
    /// A track was used as something that it is not: a parent of threads that is no process.
    #[error("track {0} is no process")]
    NotAProcess(String),
}
