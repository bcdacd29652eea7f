//! Errors of the writer.

use std::io;

/// Error of the writer. Except after [`Error::Io`] the trace is intact: only the rejected item is missing, and writing
/// may continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The output failed. The trace ends somewhere in its last 64 KiB, and every later call fails.
    #[error("writing the trace: {0}")]
    Io(#[from] io::Error),
    /// Call after [`Error::Io`].
    #[error("the trace's output has failed before")]
    Failed,
    /// Empty name of a slice, track, process, thread, counter or argument.
    #[error("empty name of a {0}")]
    EmptyName(&'static str),
    /// A timestamp, or the end of a slice, is 2^63 ns or more.
    #[error("timestamp {0} ns (plus duration) is beyond 2^63")]
    TimeRange(u64),
    /// A slice starts before its predecessor on the same track.
    #[error("track {track}: slice starts at {start_ns} ns, after one that started at {previous_ns} ns")]
    OutOfOrder {
        /// Name of the track.
        track: String,
        /// Start of the rejected slice, in nanoseconds.
        start_ns: u64,
        /// Start of the latest slice of the track, in nanoseconds.
        previous_ns: u64,
    },
    /// A slice starts inside an open one and ends after it, so that it is neither nested nor disjoint. Also: two slices
    /// have an equal start, and the shorter one came first.
    #[error(
        "track {track}: slice {start_ns}..{end_ns} ns sticks out of the open one, which ends at {open_end_ns} ns"
    )]
    Overlap {
        /// Name of the track.
        track: String,
        /// Start of the rejected slice, in nanoseconds.
        start_ns: u64,
        /// End of the rejected slice, in nanoseconds.
        end_ns: u64,
        /// End of the innermost open slice, in nanoseconds.
        open_end_ns: u64,
    },
    /// Slices are nested deeper than the engine supports.
    #[error("track {track}: more than {limit} slices inside each other at {start_ns} ns")]
    TooDeep {
        /// Name of the track.
        track: String,
        /// Start of the rejected slice, in nanoseconds.
        start_ns: u64,
        /// Maximum nesting depth.
        limit: usize,
    },
    /// A pid or tid is 0. The engine takes it for the idle task.
    #[error("{0} 0 belongs to the idle task")]
    ZeroId(&'static str),
    /// Number of a host or shard is above the maximum.
    #[error("{what} {number} is beyond {limit}")]
    NumberRange {
        /// Numbered item.
        what: &'static str,
        /// The number.
        number: u64,
        /// Maximum number.
        limit: u64,
    },
    /// Value of a counter is NaN or infinite.
    #[error("counter {track}: {value} at {time_ns} ns is no number")]
    NotFinite {
        /// Name of the counter.
        track: String,
        /// Time of the sample, in nanoseconds.
        time_ns: u64,
        /// The value.
        value: f64,
    },
    /// The sink of a flow precedes its source in the order of the trace. The engine would not draw the flow.
    #[error(
        "flow {flow}: its end at {end_ns} ns precedes its source at {source_ns} ns (or the file's order at equal times)"
    )]
    FlowOrder {
        /// ID of the flow.
        flow: u64,
        /// Start of the slice in which the flow ends, in nanoseconds.
        end_ns: u64,
        /// Start of the flow's source slice, in nanoseconds.
        source_ns: u64,
    },
    /// A flow connects processes of two machines ([`Hosts::Machines`](super::Hosts::Machines)).
    #[error("flow {0} touches two machines: the engine draws no such flow")]
    FlowAcrossMachines(u64),
    /// Number of flows that end without a source, found when the trace was finished.
    #[error("{0} flows end that have no source")]
    FlowWithoutSource(usize),
    /// A track that is not a process was used as the parent of a thread.
    #[error("track {0} is no process")]
    NotAProcess(String),
}
