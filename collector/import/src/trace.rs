//! Data of one rank's process from its trace, independent of the profiler.

use super::hta::HtaTrace;
use super::records::Records;
use rankscope_formats::session::ProblemSummary;
use rankscope_ranklog::{Library, Operation};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Largest plausible number of ranks. A larger world means that the trace is damaged.
pub const MAX_RANKS: u32 = 1 << 20;

/// Maximum number of unknown kinds of operations that are named.
const MAX_UNKNOWN: usize = 16;

/// Process group as described by a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Name, which is equal on all members.
    pub name: String,
    /// Displayed name, if it is not the name.
    pub description: Option<String>,
    /// Global ranks of the members, in order; empty if they are unknown.
    pub ranks: Vec<u32>,
    /// Number of this rank in the group and the number of members, if the trace states these and not the members.
    pub place: Option<Place>,
}

/// Place of a rank in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the rank.
    pub rank: u32,
    /// Number of members.
    pub size: u32,
}

/// Operation of a process group on this rank.
#[derive(Clone, Debug)]
pub struct Call {
    /// Thread that called the library.
    pub thread: u32,
    /// Start of the call, or of its execution, in nanoseconds since the trace's base.
    pub start_ns: i64,
    /// End of the call, or of its execution.
    pub end_ns: i64,
    /// Thread, start and end of the queueing.
    pub issue: Option<(u32, i64, i64)>,
    /// Library of the operation.
    pub library: Library,
    /// Type of the operation.
    pub operation: Operation,
    /// Position in [`Trace::groups`]; `None` if the trace does not record it.
    pub group: Option<usize>,
    /// Number of members, if the trace records it without naming the group.
    pub group_size: Option<u32>,
    /// Number of the launch group whose end launched it ([`Trace::launch_groups`]), 0 if none.
    pub launch_group: u32,
    /// Number of input and output elements.
    pub elements: (Option<u64>, Option<u64>),
    /// Payload in bytes, if the trace states it.
    pub bytes: Option<u64>,
    /// Number of elements for each member, if they differ.
    pub split: Vec<u64>,
    /// Size of an element, in bytes.
    pub element_bytes: Option<u8>,
    /// Peer in the group's numbering.
    pub peer: Option<i32>,
    /// Global rank of the peer.
    pub peer_rank: Option<u32>,
    /// Sequence number from the group.
    pub sequence: Option<u32>,
    /// What the trace knows of the operation after the call.
    pub progress: Progress,
}

impl Call {
    /// Returns true if the call only put its operation on a stream or in a queue.
    pub fn is_enqueue(&self) -> bool {
        self.library == Library::Nccl || self.progress != Progress::Unknown
    }
}

/// What a trace knows of an operation after the call that requested it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Nothing, or the times of the call are those of the operation.
    #[default]
    Unknown,
    /// It ended. The times are those at which the process found that it ran and that it had ended. They are later than
    /// its start and end.
    Ended {
        /// Time at which it was found to run.
        found_started_ns: i64,
        /// Time at which it was found to have ended.
        found_ended_ns: i64,
    },
    /// It ran this long from this time on, in nanoseconds.
    Ran {
        /// Start, or slightly later.
        start_ns: i64,
        /// Duration.
        duration_ns: u64,
        /// Number of channels.
        channels: u8,
    },
    /// It ran this long, at an unknown time.
    Lasted {
        /// Duration, in nanoseconds.
        duration_ns: u64,
    },
    /// The call only requested it. Nothing is known of its end.
    Requested,
    /// It did not end before the trace was written.
    Unfinished {
        /// Time at which it was found to run, if it was.
        found_started_ns: Option<i64>,
        /// Line of the program that requested it: `step at train.py:57`.
        caller: Option<String>,
    },
}

/// Calls of NCCL between the start and the end of a group. They are launched when the group ends.
#[derive(Clone, Copy, Debug)]
pub struct LaunchGroup {
    /// Thread.
    pub thread: u32,
    /// Start of the group, in nanoseconds since the trace's base.
    pub begun_ns: i64,
    /// Start and end of the call that ended it.
    pub end: (i64, i64),
    /// Number of calls in it.
    pub calls: u32,
}

/// Process that a trace describes.
#[derive(Default)]
pub struct TracedProcess {
    /// Process id.
    pub id: u32,
    /// Name of the process.
    pub name: Option<String>,
    /// Rank according to PyTorch.
    pub rank: Option<u32>,
    /// World size according to PyTorch.
    pub world: Option<u32>,
    /// Name of the host; traces before 2025 have none.
    pub host: Option<String>,
    /// Version of NCCL.
    pub nccl_version: Option<String>,
    /// Models of the host's devices, by their ordinals.
    pub device_models: BTreeMap<u32, String>,
}

/// Base of a trace's times, and when its events were.
#[derive(Default)]
pub struct TraceTimes {
    /// Base of its times, in nanoseconds since 1970.
    pub base_ns: i64,
    /// Window of the recording, in nanoseconds since the base.
    pub window: Option<(i64, i64)>,
    /// Start of the first and end of the last event.
    pub span: Option<(i64, i64)>,
}

impl TraceTimes {
    /// Extends the span by an event.
    pub fn extend_span(&mut self, start: i64, end: i64) {
        let span = self.span.get_or_insert((start, end));
        *span = (span.0.min(start), span.1.max(end));
    }
}

/// Activity of devices. Its records are among the [`Records`].
#[derive(Default)]
pub struct DeviceWork {
    /// Number of works of devices.
    pub works: u64,
    /// Number of overheads of the profiler or the driver.
    pub overheads: u64,
    /// Correlations of communication kernels.
    pub communication: FxHashSet<u32>,
}

/// Trace that was read.
pub struct Trace {
    /// Profiler that wrote it: `kineto`, `nsys`, `flight-recorder`, `inspector`.
    pub source: &'static str,
    /// File of the trace.
    pub path: PathBuf,
    /// Process that it describes.
    pub process: TracedProcess,
    /// When its events were.
    pub times: TraceTimes,
    /// Process groups.
    pub groups: Vec<Group>,
    /// Operations of process groups, in the order of their requests.
    pub calls: Vec<Call>,
    /// True if [`Call::sequence`] counts all collectives of its group, and is known for each of them.
    pub are_numbered: bool,
    /// Number of operations that the profiler recorded and overwrote before it wrote the trace.
    pub overwritten: u64,
    /// Further properties of the log: what its times mean.
    pub properties: Vec<(&'static str, String)>,
    /// Launch groups. The group with number N is at index N − 1.
    pub launch_groups: Vec<LaunchGroup>,
    /// Number and start of each step that PyTorch's scheduler marked.
    pub steps: Vec<(u64, i64)>,
    /// Activity of devices.
    pub devices: DeviceWork,
    /// Records, except operations of process groups.
    pub records: Records,
    /// Data for Holistic Trace Analysis.
    pub hta: Option<HtaTrace>,
    /// Number of events read.
    pub events: u64,
    /// Size of the unpacked file that was read, in bytes.
    pub bytes: u64,
    /// Problems of the file.
    pub problems: Vec<ProblemSummary>,
    /// Limits of the import for this trace.
    pub notes: Vec<String>,
}

impl Trace {
    /// Creates an empty trace. Records that do not fit in memory go to files in `directory`.
    pub fn new(source: &'static str, path: &Path, directory: &Path) -> Self {
        Self {
            source,
            path: path.to_path_buf(),
            process: TracedProcess::default(),
            times: TraceTimes::default(),
            groups: Vec::new(),
            calls: Vec::new(),
            are_numbered: false,
            overwritten: 0,
            properties: Vec::new(),
            launch_groups: Vec::new(),
            steps: Vec::new(),
            devices: DeviceWork::default(),
            records: Records::new(directory.to_path_buf()),
            hta: None,
            events: 0,
            bytes: 0,
            problems: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds notes about operations that were left out, by the tool's name of the operation.
    pub fn note_unknown(&mut self, counts: &BTreeMap<String, u64>) {
        for (name, count) in counts.iter().take(MAX_UNKNOWN) {
            self.notes.push(format!(
                "{count} operations {name} are of an unknown kind; they were left out"
            ));
        }
        let more: u64 = counts.values().skip(MAX_UNKNOWN).sum();
        if more > 0 {
            self.notes
                .push(format!("{more} operations of other unknown kinds were left out"));
        }
    }

    /// Adds a problem, with its offset in the file if known.
    pub fn problem(&mut self, offset_bytes: Option<u64>, what: String) {
        self.problems.push(ProblemSummary {
            rank: None,
            file: Some(self.path.display().to_string()),
            offset_bytes,
            what,
        });
    }
}
