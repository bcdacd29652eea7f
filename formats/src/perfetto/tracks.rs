//! What a track is: processes, threads, groups, counters, and what the writer remembers of each.

use super::nesting::OpenSlices;
use super::proto;

/// A track of one [`TraceWriter`](super::TraceWriter); meaningless for any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TrackId(pub(super) u32);

/// A counter of one [`TraceWriter`](super::TraceWriter); meaningless for any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CounterId(pub(super) TrackId);

/// A process as the trace shows it: one group of tracks, named and ordered.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessTrack<'a> {
    /// The process's number on its host, not 0. Replaced if it is taken on the engine's machine
    /// (the real one is then shown as a label).
    pub pid: u32,
    /// Shown as the process's name, for example "rank 3".
    pub name: &'a str,
    /// Shown beside the name: device, communicator roles. The host's name is put first by itself.
    pub labels: &'a [&'a str],
    /// Which host, as numbered with [`TraceWriter::host`](super::TraceWriter::host).
    pub host: u32,
    /// Where the process stands among all: low first (Perfetto 57 and later; older ones sort by name).
    pub rank: i32,
    /// When the process began, ns; `None`: at the clock's anchor.
    pub start_ns: Option<u64>,
}

/// A thread as the trace shows it: the track of what it does synchronously.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadTrack<'a> {
    /// The thread's number on its host, not 0; equal to the pid for the main thread. Replaced if
    /// it is taken.
    pub tid: u64,
    /// Shown as the thread's name.
    pub name: &'a str,
    /// Where the thread stands inside its process: low first (Perfetto 57 and later).
    pub rank: i32,
}

/// Any other track: a communicator, a stream, a group of tracks.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrackOptions<'a> {
    /// Shown as the track's name.
    pub name: &'a str,
    /// Shown when the reader asks what the track is; empty: nothing.
    pub description: &'a str,
    /// The order of the tracks under this one.
    pub child_order: ChildOrder,
    /// Where this track stands under its parent, if that orders by [`ChildOrder::Rank`]: low first.
    /// Tracks directly under a process are its siblings, and no rank orders these.
    pub rank: Option<i32>,
}

/// How the tracks under a track are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChildOrder {
    /// As the viewer likes.
    #[default]
    Any,
    /// By name.
    Name,
    /// By their first event.
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

/// The unit of a counter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CounterUnit<'a> {
    /// None.
    #[default]
    Plain,
    /// Nanoseconds, shown scaled.
    Nanoseconds,
    /// A number of things.
    Count,
    /// Bytes, shown scaled.
    Bytes,
    /// Any other, by its name ("GB/s").
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

/// What the writer remembers of a track.
pub(super) struct Track {
    /// Unique in the trace, not 0. Small, because every event carries it.
    pub(super) uuid: u64,
    /// The packet sequence of its machine, as an index.
    pub(super) sequence: usize,
    /// For messages.
    pub(super) name: String,
    pub(super) open: OpenSlices,
    /// If it is a process's: its real number and the one in the trace.
    pub(super) process: Option<ProcessNumbers>,
}

/// A process's number on its host and in the trace.
#[derive(Clone, Copy)]
pub(super) struct ProcessNumbers {
    pub(super) real: u32,
    pub(super) written: u32,
    /// Whether its main thread has been declared.
    pub(super) main_thread: bool,
}
