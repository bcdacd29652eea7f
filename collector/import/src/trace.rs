//! Data of one rank's process from its trace, independent of the profiler.

use super::hta::HtaTrace;
use super::spool::Spool;
use rankscope_formats::session::ProblemSummary;
use rankscope_ranklog::definition::Stream;
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_ranklog::{Library, Operation};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Lane of device activity and of the calls that launched it. Threads of the program have the following lanes.
pub const DEVICE_LANE: u32 = 0;

/// Number of the first text. In every log the texts of device activity start here, because the table of names in a
/// session has no others.
pub const FIRST_TEXT: u32 = 1 << 16;

/// Process group as described by a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Name, which is equal on all members.
    pub name: String,
    /// Global ranks of the members, in order.
    pub ranks: Vec<u32>,
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

/// Trace that was read.
pub struct Trace {
    /// Profiler that wrote it: `kineto`, `nsys`.
    pub source: &'static str,
    /// File of the trace.
    pub path: PathBuf,
    /// Rank according to PyTorch.
    pub rank: Option<u32>,
    /// World size according to PyTorch.
    pub world: Option<u32>,
    /// Name of the host; traces before 2025 have none.
    pub host: Option<String>,
    /// Process id.
    pub process: u32,
    /// Name of the process.
    pub process_name: Option<String>,
    /// Version of NCCL.
    pub nccl_version: Option<String>,
    /// Models of the host's devices, by their ordinals.
    pub device_models: BTreeMap<u32, String>,
    /// Base of its times, in nanoseconds since 1970.
    pub base_ns: i64,
    /// Window of the recording, in nanoseconds since the base.
    pub window: Option<(i64, i64)>,
    /// Start of the first and end of the last event.
    pub span: Option<(i64, i64)>,
    /// Process groups.
    pub groups: Vec<Group>,
    /// Operations of process groups, in the order of their requests.
    pub calls: Vec<Call>,
    /// Number and start of each step that PyTorch's scheduler marked.
    pub steps: Vec<(u64, i64)>,
    /// Correlations of communication kernels.
    pub communication: FxHashSet<u32>,
    /// Number of works of devices.
    pub works: u64,
    /// Number of overheads of the profiler or the driver.
    pub overheads: u64,
    /// Records, except operations of process groups.
    pub spool: Spool,
    /// Texts of records, by number.
    pub texts: Vec<String>,
    /// Streams of records, by number.
    pub streams: Vec<Stream>,
    /// Threads of the program by lane; lane 0 has none.
    pub threads: Vec<(u32, Option<String>)>,
    lanes: FxHashMap<u32, u32>,
    text_numbers: FxHashMap<Box<str>, u32>,
    stream_numbers: FxHashMap<(u32, u32, u32), u32>,
    /// Launch groups. The group with number N is at index N − 1.
    pub launch_groups: Vec<LaunchGroup>,
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
            rank: None,
            world: None,
            host: None,
            process: 0,
            process_name: None,
            nccl_version: None,
            device_models: BTreeMap::new(),
            base_ns: 0,
            window: None,
            span: None,
            groups: Vec::new(),
            calls: Vec::new(),
            steps: Vec::new(),
            communication: FxHashSet::default(),
            works: 0,
            overheads: 0,
            spool: Spool::new(directory.to_path_buf()),
            texts: Vec::new(),
            streams: Vec::new(),
            threads: vec![(0, None)],
            lanes: FxHashMap::default(),
            text_numbers: FxHashMap::default(),
            stream_numbers: FxHashMap::default(),
            launch_groups: Vec::new(),
            hta: None,
            events: 0,
            bytes: 0,
            problems: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns the lane of a thread of the program.
    pub fn lane_for(&mut self, thread: u32) -> u32 {
        let next = self.threads.len() as u32;
        let lane = *self.lanes.entry(thread).or_insert(next);
        if lane == next {
            self.threads.push((thread, None));
        }
        lane
    }

    /// Returns the number of a text.
    pub fn text(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.text_numbers.get(text) {
            return number;
        }
        let number = FIRST_TEXT + self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.text_numbers.insert(text.into(), number);
        number
    }

    /// Returns the number of a stream, from its device, its context and its number there.
    pub fn stream(&mut self, key: (u32, u32, u32)) -> u32 {
        let next = self.streams.len() as u32;
        let index = *self.stream_numbers.entry(key).or_insert(next);
        if index == next {
            self.streams.push(Stream {
                index,
                device: key.0,
                context: key.1,
                number: key.2,
            });
        }
        index
    }

    /// Adds a range of the program. A number at the end of its name is separated from the text, because programs count.
    pub fn mark(&mut self, thread: u32, name: &str, start: i64, end: i64) -> io::Result<()> {
        let lane = self.lane_for(thread);
        let counted = name
            .rsplit_once('#')
            .and_then(|(what, number)| Some((&name[..=what.len()], number.parse::<u32>().ok()?)));
        let (text, number) = match counted {
            Some((text, number)) => (text, Some(number)),
            None => (name, None),
        };
        let record = Record {
            enter_ticks: start as u64,
            leave_ticks: end as u64,
            object: u64::from(self.text(text)),
            tag: u32::from(number.is_some()),
            sequence: number.unwrap_or(0),
            ..Record::new(RecordKind::Mark)
        };
        self.spool.push(lane, record)
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

    /// Extends the span by an event.
    pub fn saw(&mut self, start: i64, end: i64) {
        let span = self.span.get_or_insert((start, end));
        *span = (span.0.min(start), span.1.max(end));
    }
}
