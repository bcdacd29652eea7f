//! Kinds of tracks (processes, threads, groups, counters), and the state that the writer keeps per track.

use super::nesting::OpenSlices;
use super::proto;

/// Track of one [`TraceWriter`](super::TraceWriter). It is not valid for any other writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TrackId(pub(super) u32);

/// Counter of one [`TraceWriter`](super::TraceWriter). It is not valid for any other writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CounterId(pub(super) TrackId);

/// Process in the trace: one group of tracks with a name and a position.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessTrack<'a> {
    /// Process ID on the host, not 0. It is replaced if it is already in use on the engine's machine; a label then
    /// shows the real one.
    pub pid: u32,
    /// Displayed name of the process, for example "rank 3".
    pub name: &'a str,
    /// Labels beside the name: device, communicator roles. The name of the host is added as the first label.
    pub labels: &'a [&'a str],
    /// Number of the host, as given to [`TraceWriter::host`](super::TraceWriter::host).
    pub host: u32,
    /// Position of the process among all processes; lower values come first. Perfetto 57 and later use it; older
    /// versions sort by name.
    pub rank: i32,
    /// Start of the process, in nanoseconds; `None` for the clock's anchor.
    pub start_ns: Option<u64>,
}

/// Thread in the trace: a track for its synchronous activity.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadTrack<'a> {
    /// Thread ID on the host, not 0; equal to the process ID for the main thread. It is replaced if it is already in
    /// use.
    pub tid: u64,
    /// Displayed name of the thread.
    pub name: &'a str,
    /// Position of the thread inside its process; lower values come first (Perfetto 57 and later).
    pub rank: i32,
}

/// Any other track: a communicator, a stream, or a group of tracks.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrackOptions<'a> {
    /// Displayed name of the track.
    pub name: &'a str,
    /// Description that the viewer shows on request; empty for none.
    pub description: &'a str,
    /// Order of the tracks under this one.
    pub child_order: ChildOrder,
    /// Position of the track under its parent, if the parent orders by [`ChildOrder::Rank`]; lower values come first.
    /// Tracks directly under a process are its siblings, and a rank does not order them.
    pub rank: Option<i32>,
}

/// Order of the tracks under a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChildOrder {
    /// Default order of the viewer.
    #[default]
    Any,
    /// By name.
    Name,
    /// By the time of their first event.
    Time,
    /// By [`TrackOptions::rank`].
    Rank,
}

impl ChildOrder {
    pub(super) fn proto(self) -> Option<i32> {
        match self {
            ChildOrder::Any => None,
            ChildOrder::Name => Some(proto::child_ordering::LEXICOGRAPHIC),
            ChildOrder::Time => Some(proto::child_ordering::CHRONOLOGICAL),
            ChildOrder::Rank => Some(proto::child_ordering::EXPLICIT),
        }
    }
}

/// Unit of a counter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CounterUnit<'a> {
    /// No unit.
    #[default]
    Plain,
    /// Nanoseconds, displayed with a suitable prefix.
    Nanoseconds,
    /// Count.
    Count,
    /// Bytes, displayed with a suitable prefix.
    Bytes,
    /// Any other unit, by its name ("GB/s").
    Named(&'a str),
}

impl CounterUnit<'_> {
    pub(super) fn proto(self) -> proto::CounterDescriptor {
        let (unit, unit_name) = match self {
            CounterUnit::Plain => (None, None),
            CounterUnit::Nanoseconds => (Some(proto::counter_unit::TIME_NS), None),
            CounterUnit::Count => (Some(proto::counter_unit::COUNT), None),
            CounterUnit::Bytes => (Some(proto::counter_unit::SIZE_BYTES), None),
            CounterUnit::Named(name) => (None, Some(name.to_owned())),
        };
        proto::CounterDescriptor { unit, unit_name }
    }
}

/// State that the writer keeps per track.
pub(super) struct Track {
    /// ID that is unique in the trace, not 0. It is small, because every event contains it.
    pub(super) uuid: u64,
    /// Index of the packet sequence of its machine.
    pub(super) sequence: usize,
    /// Name, for error messages.
    pub(super) name: String,
    pub(super) open: OpenSlices,
    /// Real and written process ID, if the track is a process.
    pub(super) process: Option<ProcessNumbers>,
}

/// Process ID on the host and in the trace.
#[derive(Clone, Copy)]
pub(super) struct ProcessNumbers {
    pub(super) real: u32,
    pub(super) written: u32,
    /// True once its main thread has been declared.
    pub(super) main_thread: bool,
}
