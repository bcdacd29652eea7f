//! What is known of one rank's process once its trace has been read, whichever profiler wrote it.

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

/// Lane of what devices did and of the calls that launched it; threads of the program have the lanes behind it.
pub const DEVICE_LANE: u32 = 0;

/// Number of the first text. Those of what runs on devices begin here in every log: a session's table of names has no others.
pub const FIRST_TEXT: u32 = 1 << 16;

/// A process group, as a trace describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name, the same on all members.
    pub name: String,
    /// Global ranks of its members, in order.
    pub ranks: Vec<u32>,
}

/// A process group's operation on this rank.
#[derive(Clone, Debug)]
pub struct Call {
    /// Thread on which the library was called.
    pub thread: u32,
    /// Begin of the call, or of its execution, ns since the trace's base.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// Where it was queued: thread, begin, end.
    pub issue: Option<(u32, i64, i64)>,
    /// Which library did it.
    pub library: Library,
    /// Which operation.
    pub operation: Operation,
    /// Position in [`Trace::groups`], `None` where the trace does not tell.
    pub group: Option<usize>,
    /// Members that the trace tells of without naming the group.
    pub group_size: Option<u32>,
    /// Number of the group whose end launched it ([`Trace::launch_groups`]), 0 if none.
    pub launch_group: u32,
    /// Elements given and got.
    pub elements: (Option<u64>, Option<u64>),
    /// Elements to each member, where they differ.
    pub split: Vec<u64>,
    /// Bytes of an element.
    pub element_bytes: Option<u8>,
    /// Peer in the group's numbering.
    pub peer: Option<i32>,
    /// Global rank of the peer.
    pub peer_rank: Option<u32>,
    /// The group's own number of it.
    pub sequence: Option<u32>,
}

/// Calls of NCCL between the begin and the end of a group: what they ask for is launched when it ends.
#[derive(Clone, Copy, Debug)]
pub struct LaunchGroup {
    /// Thread.
    pub thread: u32,
    /// When it was begun, ns since the trace's base.
    pub begun_ns: i64,
    /// Begin and end of the call that ended it.
    pub end: (i64, i64),
    /// Calls in it.
    pub calls: u32,
}

/// A trace, read.
pub struct Trace {
    /// The profiler that wrote it: `kineto`, `nsys`.
    pub source: &'static str,
    /// Its file.
    pub path: PathBuf,
    /// Its rank, as PyTorch says.
    pub rank: Option<u32>,
    /// Size of its world, as PyTorch says.
    pub world: Option<u32>,
    /// Name of its host; traces before 2025 have none.
    pub host: Option<String>,
    /// System id of its process.
    pub process: u32,
    /// Name of its process.
    pub process_name: Option<String>,
    /// Version of NCCL.
    pub nccl_version: Option<String>,
    /// Models of the host's devices, by their ordinals.
    pub device_models: BTreeMap<u32, String>,
    /// What its times count from, ns since 1970.
    pub base_ns: i64,
    /// For how long it was recorded, ns since the base.
    pub window: Option<(i64, i64)>,
    /// First and last moment of any event.
    pub span: Option<(i64, i64)>,
    /// Process groups.
    pub groups: Vec<Group>,
    /// What process groups did, in the order in which it was asked for.
    pub calls: Vec<Call>,
    /// Number and begin of each step that PyTorch's scheduler marked.
    pub steps: Vec<(u64, i64)>,
    /// Correlations of communication kernels.
    pub communication: FxHashSet<u32>,
    /// Works of devices.
    pub works: u64,
    /// Times that the profiler or the driver took for itself.
    pub overheads: u64,
    /// The records, but for process groups' operations.
    pub spool: Spool,
    /// Texts that records refer to, by their number.
    pub texts: Vec<String>,
    /// Streams that records refer to, by their number.
    pub streams: Vec<Stream>,
    /// Threads of the program by lane; lane 0 is none's.
    pub threads: Vec<(u32, Option<String>)>,
    lanes: FxHashMap<u32, u32>,
    text_numbers: FxHashMap<Box<str>, u32>,
    stream_numbers: FxHashMap<(u32, u32, u32), u32>,
    /// Groups of calls, by their number less one.
    pub launch_groups: Vec<LaunchGroup>,
    /// What Holistic Trace Analysis needs to know of it.
    pub hta: Option<HtaTrace>,
    /// Events that were read.
    pub events: u64,
    /// Length of the unpacked file, as far as it was read.
    pub bytes: u64,
    /// What could not be read of it.
    pub problems: Vec<ProblemSummary>,
    /// What the trace says and an import cannot tell.
    pub notes: Vec<String>,
}

impl Trace {
    /// Nothing is known yet. Records that do not fit in memory go to files in `directory`.
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

    /// Lane of a thread of the program.
    pub fn lane_for(&mut self, thread: u32) -> u32 {
        let next = self.threads.len() as u32;
        let lane = *self.lanes.entry(thread).or_insert(next);
        if lane == next {
            self.threads.push((thread, None));
        }
        lane
    }

    /// Number of a text that records refer to.
    pub fn text(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.text_numbers.get(text) {
            return number;
        }
        let number = FIRST_TEXT + self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.text_numbers.insert(text.into(), number);
        number
    }

    /// Number of a stream by its device, its context and its own number there.
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

    /// A range of the program. A number at its end is told apart from the text: programs count.
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

    /// Something could not be read, at this offset of the file if that means something.
    pub fn problem(&mut self, offset_bytes: Option<u64>, what: String) {
        self.problems.push(ProblemSummary {
            rank: None,
            file: Some(self.path.display().to_string()),
            offset_bytes,
            what,
        });
    }

    /// Something happened then.
    pub fn saw(&mut self, start: i64, end: i64) {
        let span = self.span.get_or_insert((start, end));
        *span = (span.0.min(start), span.1.max(end));
    }
}
