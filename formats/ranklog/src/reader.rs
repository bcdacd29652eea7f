//! Reader of rank logs. It always returns the data together with a list of problems.
//!
//! [`RankLog::open`] reads everything but the records. [`RankLog::records`] streams the records in the order in which
//! they were left, in memory that does not grow with the file.

use super::clock::{CALIBRATION_BYTES, Calibration, Counter};
use super::codec::{self, GroupHead};
use super::definition::{self, Communicator, Definition, Scanned, Stream};
use super::layout::LOSS_ENTRY_BYTES;
use super::little_endian::{u32_at, u64_at};
use super::live_area::LiveGroup;
use super::live_copy::{LiveCopy, read_up_to};
use super::log_index::LogIndex;
use super::loss::{Loss, LossCause};
use super::process;
use super::record::{RECORD_BYTES, Record, RecordKind};
use super::recorder::{FLIGHT_FROM_PROPERTY, FLIGHT_PROPERTY};
use super::segment::{
    END_COLLECTED, END_COPIED, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileHeader, FrameHeader, FrameKind,
    HeaderFault,
};
use super::tail::{Begin, End};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Unexpected condition in a log. Everything that could be read was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the file.
    pub path: PathBuf,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Expected content, and the part that was kept.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: at byte {}: {}",
            self.path.display(),
            self.offset,
            self.what
        )
    }
}

/// Error: the file is not readable as a rank log.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An operation on the file failed.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// The file header is invalid.
    #[error("{path}: at byte 0: {fault}")]
    Header {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        fault: HeaderFault,
    },
}

/// Call that was in progress when the log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Lane of the call.
    pub lane: u32,
    /// Thread ID.
    pub thread_id: u32,
    /// Record of the call, without a leave time.
    pub record: Record,
}

/// Thread that wrote records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Thread ID.
    pub id: u32,
    /// Name of the thread when it first recorded. It may be empty.
    pub name: String,
}

/// State in which a log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The process closed its log.
    Closed,
    /// The process died or was killed. Its live area was read.
    LiveArea,
    /// The process died or was killed, and its live area was not found. The last seconds are missing.
    Torn,
    /// The process is still running.
    Running,
}

#[derive(Clone, Copy)]
pub(super) struct FrameAt {
    pub(super) offset: u64,
    pub(super) header: FrameHeader,
}

/// Position of a watermark among the frames, and its tick.
#[derive(Clone, Copy)]
pub(super) struct Watermark {
    pub(super) frame: usize,
    pub(super) ticks: u64,
}

/// Returns the tick of a watermark; `None` if its checksum is wrong.
fn watermark_of(header: &FrameHeader, payload: &[u8]) -> Option<u64> {
    let bytes: [u8; 8] = payload.try_into().ok()?;
    let is_whole = header.payload_bytes as usize == bytes.len();
    (is_whole && crc32fast::hash(&bytes) == header.payload_check).then(|| u64::from_le_bytes(bytes))
}

/// Rank log without its records.
pub struct RankLog {
    /// Path of the segment file.
    pub path: PathBuf,
    /// Path of the live area, if it was found.
    pub live_path: Option<PathBuf>,
    /// Counter of the ticks.
    pub counter: Counter,
    /// Process ID in the process's own namespace.
    pub pid: u32,
    /// Nonce of the process.
    pub nonce: u64,
    /// Properties such as `host`, `boot_id` and `env.RANK` (RANKLOG.md).
    pub properties: BTreeMap<String, String>,
    /// Communicators by index.
    pub communicators: BTreeMap<u32, Communicator>,
    /// Times at which communicators were destroyed, in ticks, by index.
    pub communicator_ends: BTreeMap<u32, u64>,
    /// Second identities, by which other members know a communicator of this log.
    pub communicator_aliases: BTreeMap<[u8; 16], u32>,
    /// Strings by index.
    pub texts: BTreeMap<u32, String>,
    /// Device streams by index.
    pub streams: BTreeMap<u32, Stream>,
    /// Calibrations in order of ticks.
    pub calibrations: Vec<Calibration>,
    /// Losses at the end of the log.
    pub losses: Vec<Loss>,
    /// Calls in progress at the end of the log.
    pub in_flight: Vec<InFlight>,
    /// State in which the log ended.
    pub ending: Ending,
    /// True if the log was closed by a collector. The process was killed or crashed, and the content of its live area
    /// was added later.
    pub was_collected: bool,
    /// True if the log is a copy of one whose process still ran. Its live area belongs to that process.
    pub was_copied: bool,
    /// In flight mode: the tick before which records may have been dropped, 0 if none were. `None` in other modes.
    pub flight_from_ticks: Option<u64>,
    /// Unexpected conditions in the log.
    pub problems: Vec<Problem>,
    /// Size of the segment file, in bytes.
    pub segment_bytes: u64,
    /// The segment file, unless it was closed.
    file: Option<File>,
    pub(super) frames: Vec<FrameAt>,
    /// Watermarks whose checksum is right.
    pub(super) watermarks: Vec<Watermark>,
    /// Last tick of the log, once it was looked for.
    pub(super) last: OnceLock<u64>,
    pub(super) live: Vec<LiveGroup>,
    pub(super) live_definitions: Vec<u8>,
    /// Position at which its records start; `None` for the start of the log.
    pub(super) begin: Option<Begin>,
    /// Position at which its records end; `None` for the end of the log.
    pub(super) end: Option<End>,
    /// Last tick at which an index states that the process recorded; 0 without an index.
    pub(super) known_ticks: u64,
    /// Offsets of the frames without records that were read.
    pub(super) small_frames: Vec<u64>,
    /// Offset up to which the segment file has been scanned.
    whole_bytes: u64,
}

impl RankLog {
    /// Opens a segment file, and its live area if the header names one of the current boot of this machine.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let mut log = Self::open_segments(path)?;
        if log.ending == Ending::Torn {
            log.find_live_area();
        }
        Ok(log)
    }

    /// Opens a log as [`RankLog::open`] does. The frames before [`LogIndex::resume`] are not looked at, so that a log that has
    /// grown opens quickly. Their records can then not be read. An index of another log is ignored.
    pub fn open_with(path: &Path, index: &LogIndex) -> Result<Self, OpenError> {
        let mut log = match Self::open_indexed(path, index)? {
            Some(log) => log,
            None => Self::open_segments(path)?,
        };
        if log.ending == Ending::Torn {
            log.find_live_area();
        }
        Ok(log)
    }

    /// Opens a part of a log as [`RankLog::open_with`] does, without its live area: all records of the part are in the file. Returns
    /// `None` if the index is not that of the file.
    pub fn open_part(path: &Path, index: &LogIndex) -> Result<Option<Self>, OpenError> {
        Self::open_indexed(path, index)
    }

    /// Opens a segment file together with the given live area, or without one.
    pub fn open_with_live(path: &Path, live: Option<&Path>) -> Result<Self, OpenError> {
        let mut log = Self::open_segments(path)?;
        if let Some(live) = live {
            match LiveCopy::read(live) {
                Ok(copy) => log.take_live_area(live, &copy),
                Err(error) => log.live_problem(live, 0, format!("the live area cannot be read: {error}")),
            }
        }
        Ok(log)
    }

    fn open_segments(path: &Path) -> Result<Self, OpenError> {
        let mut log = Self::open_header(path)?;
        let scanned = log.scan_frames(FILE_HEADER_BYTES as u64);
        scanned.map_err(|source| OpenError::Io {
            path: path.to_path_buf(),
            source,
        })?;
        log.complete_scan();
        Ok(log)
    }

    /// Opens a segment file with an index. Returns `None` if the index is not that of the file.
    fn open_indexed(path: &Path, index: &LogIndex) -> Result<Option<Self>, OpenError> {
        let mut log = Self::open_header(path)?;
        let is_same = (log.nonce, log.pid) == (index.nonce, index.pid) && log.segment_bytes >= index.resume;
        let read = |log: &mut Self| -> io::Result<bool> {
            // In the order of the file: some frames replace earlier ones.
            let later = index
                .small_frames
                .partition_point(|&offset| offset < index.resume);
            let (before, after) = index.small_frames.split_at(later);
            for &offset in before {
                if !log.scan_small_frame(offset)? {
                    return Ok(false);
                }
            }
            let whole = log.segment_bytes;
            log.segment_bytes = whole.min(index.until);
            log.scan_frames(index.resume)?;
            log.segment_bytes = whole;
            for &offset in after {
                if !log.scan_small_frame(offset)? {
                    return Ok(false);
                }
            }
            log.known_ticks = index.last_ticks;
            Ok(true)
        };
        let is_read = is_same
            && read(&mut log).map_err(|source| OpenError::Io {
                path: path.to_path_buf(),
                source,
            })?;
        log.complete_scan();
        Ok(is_read.then_some(log))
    }

    fn complete_scan(&mut self) {
        self.calibrations.sort_by_key(|entry| entry.ticks);
        self.learn_flight();
    }

    /// Opens a segment file and reads its header.
    fn open_header(path: &Path) -> Result<Self, OpenError> {
        let io_error = |source| OpenError::Io {
            path: path.to_path_buf(),
            source,
        };
        let file = File::open(path).map_err(io_error)?;
        let segment_bytes = file.metadata().map_err(io_error)?.len();
        let mut head = [0u8; FILE_HEADER_BYTES];
        let header = match file.read_exact_at(&mut head, 0) {
            Ok(()) => FileHeader::from_bytes(&head),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(HeaderFault::NotARankLog),
            Err(error) => return Err(io_error(error)),
        }
        .map_err(|fault| OpenError::Header {
            path: path.to_path_buf(),
            fault,
        })?;
        Ok(Self {
            path: path.to_path_buf(),
            live_path: None,
            counter: Counter::from_u32(header.counter).unwrap_or(Counter::MonotonicRaw),
            pid: header.pid,
            nonce: header.nonce,
            properties: BTreeMap::new(),
            communicators: BTreeMap::new(),
            communicator_ends: BTreeMap::new(),
            communicator_aliases: BTreeMap::new(),
            texts: BTreeMap::new(),
            streams: BTreeMap::new(),
            calibrations: Vec::new(),
            losses: Vec::new(),
            in_flight: Vec::new(),
            ending: Ending::Torn,
            was_collected: false,
            was_copied: false,
            flight_from_ticks: None,
            problems: Vec::new(),
            segment_bytes,
            file: Some(file),
            frames: Vec::new(),
            watermarks: Vec::new(),
            last: OnceLock::new(),
            live: Vec::new(),
            live_definitions: Vec::new(),
            begin: None,
            end: None,
            known_ticks: 0,
            small_frames: Vec::new(),
            whole_bytes: 0,
        })
    }

    /// Closes the segment file. Each later read opens it for itself, so that a caller may have more logs than a process
    /// may have open files.
    pub fn close_file(&mut self) {
        self.file = None;
    }

    /// Reads from the segment file.
    fn with_file<R>(&self, read: impl FnOnce(&File) -> io::Result<R>) -> io::Result<R> {
        match &self.file {
            Some(file) => read(file),
            None => read(&File::open(&self.path)?),
        }
    }

    /// Fills `bytes` from an offset of the segment file on.
    pub(super) fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.with_file(|file| file.read_exact_at(bytes, offset))
    }

    /// Takes the start of what flight mode kept from the properties.
    fn learn_flight(&mut self) {
        if self.properties.contains_key(FLIGHT_PROPERTY) {
            let stated = self.properties.get(FLIGHT_FROM_PROPERTY);
            let stated = stated.and_then(|ticks| ticks.parse().ok()).unwrap_or(0);
            self.flight_from_ticks = Some(self.flight_from_ticks.unwrap_or(0).max(stated));
        }
    }

    fn problem(&mut self, offset: u64, what: impl Into<String>) {
        self.problems.push(Problem {
            path: self.path.clone(),
            offset,
            what: what.into(),
        });
    }

    fn scan_frames(&mut self, from: u64) -> io::Result<()> {
        let mut offset = from;
        while offset < self.segment_bytes {
            // With a watermark's payload, which then needs no read of its own.
            let mut front = [0u8; FRAME_HEADER_BYTES + size_of::<u64>()];
            let got = self.with_file(|file| read_up_to(file, &mut front, offset))?;
            let head = &front[..got.min(FRAME_HEADER_BYTES)];
            let Some(header) = FrameHeader::from_bytes(head) else {
                let next = self.with_file(|file| find_frame(file, offset + 1, self.segment_bytes))?;
                let end = next.unwrap_or(self.segment_bytes);
                let rest = if next.is_some() {
                    "the frames after it were kept"
                } else {
                    "all before it was kept"
                };
                self.problem(
                    offset,
                    format!("expected a frame; {} bytes skipped, {rest}", end - offset),
                );
                if next.is_none() {
                    self.whole_bytes = offset;
                    return Ok(());
                }
                offset = end;
                continue;
            };
            let end = offset + FRAME_HEADER_BYTES as u64 + u64::from(header.payload_bytes);
            if end > self.segment_bytes {
                self.problem(
                    offset,
                    format!(
                        "the last frame is cut short ({} of {} bytes); all before it was kept",
                        self.segment_bytes - offset,
                        end - offset
                    ),
                );
                self.whole_bytes = offset;
                return Ok(());
            }
            let at = FrameAt { offset, header };
            match FrameKind::from_u8(header.kind) {
                Some(FrameKind::Watermark) => {
                    let ticks = watermark_of(&header, &front[FRAME_HEADER_BYTES..]);
                    let frame = self.frames.len();
                    self.watermarks
                        .extend(ticks.map(|ticks| Watermark { frame, ticks }));
                    self.frames.push(at);
                }
                Some(FrameKind::Records) => self.frames.push(at),
                Some(kind) => {
                    if let Some(payload) = self.payload(at)? {
                        self.small_frames.push(offset);
                        self.take_small_frame(kind, at, &payload);
                    }
                }
                None => self.problem(offset, format!("frame of unknown kind {}; skipped", header.kind)),
            }
            offset = end;
        }
        self.whole_bytes = self.segment_bytes;
        Ok(())
    }

    /// Reads a frame without records at a known offset. Returns false if there is none.
    fn scan_small_frame(&mut self, offset: u64) -> io::Result<bool> {
        let mut head = [0u8; FRAME_HEADER_BYTES];
        let got = self.with_file(|file| read_up_to(file, &mut head, offset))?;
        let Some(header) = FrameHeader::from_bytes(&head[..got]) else {
            return Ok(false);
        };
        let end = offset.saturating_add(FRAME_HEADER_BYTES as u64 + u64::from(header.payload_bytes));
        if end > self.segment_bytes {
            return Ok(false);
        }
        let at = FrameAt { offset, header };
        match FrameKind::from_u8(header.kind) {
            None | Some(FrameKind::Records | FrameKind::Watermark) => Ok(false),
            Some(kind) => {
                let Some(payload) = self.payload(at)? else {
                    return Ok(false);
                };
                self.small_frames.push(offset);
                self.take_small_frame(kind, at, &payload);
                Ok(true)
            }
        }
    }

    /// Returns the payload of a frame; `None`, with a problem, if its checksum is wrong.
    fn payload(&mut self, at: FrameAt) -> io::Result<Option<Vec<u8>>> {
        let mut payload = vec![0u8; at.header.payload_bytes as usize];
        self.read_at(&mut payload, at.offset + FRAME_HEADER_BYTES as u64)?;
        if crc32fast::hash(&payload) != at.header.payload_check {
            self.problem(
                at.offset,
                format!(
                    "the checksum of this frame is wrong; its {} bytes were dropped",
                    payload.len()
                ),
            );
            return Ok(None);
        }
        Ok(Some(payload))
    }

    fn take_small_frame(&mut self, kind: FrameKind, at: FrameAt, payload: &[u8]) {
        match kind {
            FrameKind::Definitions => {
                let path = self.path.clone();
                self.take_definitions(payload, &path, at.offset + FRAME_HEADER_BYTES as u64);
            }
            FrameKind::Calibrations => {
                for entry in payload.as_chunks::<CALIBRATION_BYTES>().0 {
                    self.calibrations.extend(Calibration::from_bytes(entry));
                }
            }
            FrameKind::Losses => {
                self.losses = payload
                    .as_chunks::<LOSS_ENTRY_BYTES>()
                    .0
                    .iter()
                    .filter_map(loss_from)
                    .collect();
            }
            FrameKind::InFlight => {
                // Only the last such frame counts: collecting may have been interrupted and started again.
                self.in_flight.clear();
                for entry in payload.as_chunks::<{ 8 + RECORD_BYTES }>().0 {
                    let mut words = [0u64; 8];
                    for (word, bytes) in words.iter_mut().zip(entry[8..].as_chunks::<8>().0) {
                        *word = u64::from_le_bytes(*bytes);
                    }
                    let mut record = Record::from_words(words);
                    record.generation = 0;
                    self.in_flight.push(InFlight {
                        lane: u32_at(entry, 0),
                        thread_id: u32_at(entry, 4),
                        record,
                    });
                }
            }
            FrameKind::End => {
                self.ending = Ending::Closed;
                self.was_collected = at.header.position == END_COLLECTED;
                self.was_copied = at.header.position == END_COPIED;
            }
            FrameKind::Records | FrameKind::Watermark => {}
        }
    }

    pub(super) fn take_definitions(&mut self, bytes: &[u8], path: &Path, base: u64) {
        definition::scan(bytes, |offset, found| match found {
            Scanned::Definition(Definition::Property { key, value }) => {
                self.properties.insert(key, value);
            }
            Scanned::Definition(Definition::Communicator(communicator)) => {
                self.communicators.insert(communicator.index, communicator);
            }
            Scanned::Definition(Definition::Text { index, value }) => {
                self.texts.insert(index, value);
            }
            Scanned::Definition(Definition::CommunicatorEnd { index, ticks }) => {
                self.communicator_ends.insert(index, ticks);
            }
            Scanned::Definition(Definition::CommunicatorAlias { index, identity }) => {
                self.communicator_aliases.insert(identity, index);
            }
            Scanned::Definition(Definition::Stream(stream)) => {
                self.streams.insert(stream.index, stream);
            }
            Scanned::Definition(Definition::Other { kind, .. }) => self.problems.push(Problem {
                path: path.to_path_buf(),
                offset: base + offset as u64,
                what: format!("definition of unknown kind {kind}; skipped"),
            }),
            Scanned::Broken(_) => self.problems.push(Problem {
                path: path.to_path_buf(),
                offset: base + offset as u64,
                what: "a definition was not finished; the others were kept".to_owned(),
            }),
        });
    }

    /// Returns the end of the last complete frame. Bytes after it are a write that a kill interrupted.
    pub(super) fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// Reads what was appended since the segments were scanned. A chunk that was recycled before the live area was
    /// read is in the segments by then.
    pub(super) fn catch_up(&mut self) {
        let (from, path) = (self.whole_bytes, self.path.clone());
        self.last.take();
        self.problems
            .retain(|problem| problem.path != path || problem.offset < from);
        let outcome = self.with_file(File::metadata).and_then(|meta| {
            self.segment_bytes = meta.len();
            self.scan_frames(from)
        });
        if let Err(error) = outcome {
            self.problem(from, format!("cannot be read further: {error}"));
        }
        if self.ending == Ending::Closed {
            self.live.clear();
        }
        self.learn_flight();
        self.calibrations.sort_by_key(|entry| entry.ticks);
    }

    /// Returns true if the process that writes this log is still alive on this machine.
    pub fn is_running(&self) -> bool {
        self.properties.get("boot_id") == process::boot_id().as_ref()
            && self
                .properties
                .get("start_time")
                .is_some_and(|start| process::is_running(self.pid, start))
    }

    /// Streams the records in the order in which their calls were left, from [`RankLog::begin_at`] on and until
    /// [`RankLog::end_at`].
    pub fn records(&self) -> RecordStream<'_> {
        RecordStream {
            from_ticks: self.begin.map_or(0, |begin| begin.ticks),
            last_ticks: self.end.map_or(u64::MAX, |end| end.ticks.saturating_sub(1)),
            frames: self.end.map_or(self.frames.len(), |end| end.frames),
            live_done: self.end.is_some_and(|end| end.frames < self.frames.len()),
            ..self.records_behind(self.begin.map_or(0, |begin| begin.first_frame))
        }
    }

    /// Streams all records of the frames from `first_frame` on, and of the live area.
    pub(super) fn records_behind(&self, first_frame: usize) -> RecordStream<'_> {
        RecordStream {
            log: self,
            next_frame: first_frame,
            frames: self.frames.len(),
            from_ticks: 0,
            last_ticks: u64::MAX,
            live_done: false,
            covered: HashMap::new(),
            lane_threads: HashMap::new(),
            thread_numbers: HashMap::new(),
            threads: Vec::new(),
            held: Vec::new(),
            held_in_order: true,
            places: Vec::new(),
            problems: Vec::new(),
            heads: Vec::new(),
            groups: Vec::new(),
            payload: Vec::new(),
            plain: Vec::new(),
            open: None,
        }
    }

    /// Returns all records at once, with the threads and the problems. Only for short logs.
    pub fn all_records(&self) -> (Vec<ThreadRecord>, Vec<Thread>, Vec<Problem>) {
        let mut stream = self.records();
        let mut all = Vec::new();
        let mut batch = Vec::new();
        while stream.next_batch(&mut batch) {
            all.append(&mut batch);
        }
        (all, stream.threads, stream.problems)
    }
}

/// Record with the thread that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadRecord {
    /// Index into [`RecordStream::threads`].
    pub thread: u32,
    /// Lane of the record. Records of one lane arrive in the order in which they were written.
    pub lane: u32,
    /// The record, with `generation` 0.
    pub record: Record,
}

/// Stream of a log's records, in batches.
pub struct RecordStream<'a> {
    log: &'a RankLog,
    next_frame: usize,
    /// Number of frames after which reading ends.
    frames: usize,
    /// Records that were left before this tick are skipped.
    from_ticks: u64,
    /// Records that were left after this tick are skipped.
    last_ticks: u64,
    live_done: bool,
    /// Per chunk: the last generation in segments, and how many of its records were there.
    covered: HashMap<u32, (u32, u32)>,
    lane_threads: HashMap<u32, u32>,
    thread_numbers: HashMap<(u32, String), u32>,
    threads: Vec<Thread>,
    held: Vec<ThreadRecord>,
    /// True while `held` is ordered by `leave_ticks`.
    held_in_order: bool,
    /// Leave times and positions of records while they are sorted. Kept in order to reuse the memory.
    places: Vec<(u64, usize)>,
    problems: Vec<Problem>,
    /// Buffers of the current payload, kept for the next one.
    heads: Vec<GroupHead>,
    groups: Vec<Option<Begun>>,
    payload: Vec<u8>,
    plain: Vec<u8>,
    /// State of the payload that is being read. Its bytes are in `payload`.
    open: Option<Open>,
}

/// Payload of which some records have not been taken yet.
struct Open {
    at: FrameAt,
    unpacking: codec::Unpacking,
}

/// Maximum number of held records after which an earlier record is inserted directly. Beyond it, the records are sorted
/// later.
const FEW: usize = 256;

/// Maximum size of a payload buffer that is kept for the next payload, in bytes.
const KEPT_PAYLOAD_BYTES: usize = 1 << 20;

/// Group whose records are being read.
#[derive(Clone, Copy)]
struct Begun {
    /// Number of its first records that were already read before.
    known: u32,
    /// Number of records read so far.
    taken: u32,
    /// Number of the thread of the next record.
    thread: u32,
}

impl RecordStream<'_> {
    /// Returns the threads found so far.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Returns the problems found so far, in addition to [`RankLog::problems`].
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Replaces `out` by the next records, ordered by `leave_ticks`; returns false at the end. A record that was
    /// committed late, because its thread was stopped between timestamp and store, may arrive one batch late.
    pub fn next_batch(&mut self, out: &mut Vec<ThreadRecord>) -> bool {
        self.next_part(usize::MAX, out)
    }

    /// As [`RecordStream::next_batch`], but with little more than `most` records.
    ///
    /// If many logs are read together, each then has only few records in memory: a frame is unpacked step by step. If
    /// the records of a frame are not in order, all of them up to the next watermark are returned at once.
    pub fn next_part(&mut self, most: usize, out: &mut Vec<ThreadRecord>) -> bool {
        out.clear();
        while out.is_empty() {
            let watermark = self.read_until_watermark(most);
            if watermark.is_none() && self.held.is_empty() {
                return false;
            }
            std::mem::swap(out, &mut self.held);
            if !std::mem::replace(&mut self.held_in_order, true) {
                self.put_in_order(out);
            }
            if let Some(watermark) = watermark {
                let over = out.partition_point(|held| held.record.leave_ticks < watermark);
                self.held.extend(out.drain(over..));
            }
        }
        true
    }

    /// Replaces `out` by the records up to the next watermark, in the order of the log. It is for callers that do not
    /// depend on the order of the records and can save the sorting. Do not mix it with the other methods.
    pub fn next_unordered(&mut self, out: &mut Vec<ThreadRecord>) -> bool {
        out.clear();
        while out.is_empty() {
            // Prevents that records are inserted in order.
            self.held_in_order = false;
            let watermark = self.read_until_watermark(usize::MAX);
            if watermark.is_none() && self.held.is_empty() {
                return false;
            }
            std::mem::swap(out, &mut self.held);
            if let Some(watermark) = watermark {
                out.retain(|entry| {
                    let is_over = entry.record.leave_ticks >= watermark;
                    if is_over {
                        self.held.push(*entry);
                    }
                    !is_over
                });
            }
        }
        true
    }

    /// Sorts records by their leave time. Records of one lane with the same tick keep their order. Each record is moved
    /// only once, because it is several times larger than its sort key.
    fn put_in_order(&mut self, records: &mut Vec<ThreadRecord>) {
        let moments = records.iter().map(|held| held.record.leave_ticks);
        self.places.clear();
        self.places.extend(moments.zip(0usize..));
        // All elements are different, so an unstable sort gives the same result.
        self.places.sort_unstable();
        // `held` is empty here, so its memory can be reused.
        self.held
            .extend(self.places.iter().map(|&(_, place)| records[place]));
        records.clear();
        std::mem::swap(records, &mut self.held);
    }

    /// Reads frames up to a watermark, or up to a record after which other records of its frame stay packed. Returns
    /// `None` when segments and live area are exhausted.
    fn read_until_watermark(&mut self, most: usize) -> Option<u64> {
        if let Some(reached) = self.take_opened(most) {
            return Some(reached);
        }
        while let Some(&at) = self.log.frames[..self.frames].get(self.next_frame) {
            self.next_frame += 1;
            let mut payload = std::mem::take(&mut self.payload);
            let whole = self.read_payload(at, &mut payload);
            let watermark = payload.first_chunk::<8>().copied().map(u64::from_le_bytes);
            let is_watermark = at.header.kind == FrameKind::Watermark as u8;
            self.payload = payload;
            if whole && !is_watermark {
                self.open_payload(at);
                if let Some(reached) = self.take_opened(most) {
                    return Some(reached);
                }
            }
            if whole && is_watermark && watermark.is_some() {
                return watermark;
            }
        }
        if !self.live_done {
            self.live_done = true;
            let log = self.log;
            for group in &log.live {
                let done = match self.covered.get(&group.chunk) {
                    Some(&(generation, done)) if generation == group.generation => done as usize,
                    // A running process has recycled the chunk after the live area was read. It does so only when all
                    // records of the chunk are in segments.
                    Some(&(generation, _)) if is_later(generation, group.generation) => group.records.len(),
                    // The frames that contain these records were skipped.
                    _ if log.begin.is_some() => (group.flushed as usize).min(group.records.len()),
                    _ => 0,
                };
                let mut thread = self.start_group(group.lane, group.thread_id, done > 0);
                for record in group.records.iter().skip(done) {
                    self.take_record(group.lane, *record, &mut thread);
                }
            }
        }
        None
    }

    /// Reads the payload of a frame. Returns false, with a problem, if it does not match its checksum or cannot be
    /// read.
    fn read_payload(&mut self, at: FrameAt, payload: &mut Vec<u8>) -> bool {
        payload.resize(at.header.payload_bytes as usize, 0);
        let read = self.log.read_at(payload, at.offset + FRAME_HEADER_BYTES as u64);
        if let Err(error) = read {
            self.problem(
                at.offset,
                format!("cannot be read: {error}; its records are missing"),
            );
            return false;
        }
        if crc32fast::hash(payload) != at.header.payload_check {
            self.problem(
                at.offset,
                "the checksum of this frame is wrong; its records are missing".to_owned(),
            );
            return false;
        }
        true
    }

    fn problem(&mut self, offset: u64, what: String) {
        self.problems.push(Problem {
            path: self.log.path.clone(),
            offset,
            what,
        });
    }

    /// Starts unpacking the payload that was read.
    fn open_payload(&mut self, at: FrameAt) {
        self.groups.clear();
        let plain = std::mem::take(&mut self.plain);
        match codec::Unpacking::begin(&self.payload, &mut self.heads, plain) {
            Ok(unpacking) => self.open = Some(Open { at, unpacking }),
            Err(damage) => self.close_payload(at, Some(damage)),
        }
    }

    /// Takes records of the open payload, and closes it after its last record. If it stays open, returns the leave time
    /// of the last record taken.
    fn take_opened(&mut self, most: usize) -> Option<u64> {
        let mut open = self.open.take()?;
        let heads = std::mem::take(&mut self.heads);
        let mut groups = std::mem::take(&mut self.groups);
        let payload = std::mem::take(&mut self.payload);
        let mut damage = None;
        let mut reached = 0;
        while damage.is_none() && !open.unpacking.is_done() {
            let taken = open
                .unpacking
                .advance(&payload, &heads, most, |number, head, record| {
                    if groups.len() <= number {
                        groups.resize(number + 1, None);
                    }
                    let group = groups[number].get_or_insert_with(|| self.begin_group(head, true));
                    group.taken += 1;
                    reached = record.leave_ticks;
                    // After a failed write, records may be written twice. Those that are already known are dropped.
                    if group.taken > group.known {
                        self.take_record(head.lane, record, &mut group.thread);
                    }
                });
            damage = taken.err();
            if self.held_in_order {
                break;
            }
        }
        let is_over = damage.is_some() || open.unpacking.is_done();
        (self.heads, self.groups, self.payload) = (heads, groups, payload);
        if is_over {
            self.plain = open.unpacking.into_buffer();
            // Not cleared, so that existing bytes need not be zeroed again.
            self.plain.truncate(KEPT_PAYLOAD_BYTES);
            self.plain.shrink_to(KEPT_PAYLOAD_BYTES);
            self.close_payload(open.at, damage);
            return None;
        }
        self.open = Some(open);
        Some(reached)
    }

    /// Closes a payload at its end or at the point of damage.
    fn close_payload(&mut self, at: FrameAt, damage: Option<codec::Damage>) {
        let heads = std::mem::take(&mut self.heads);
        let mut groups = std::mem::take(&mut self.groups);
        groups.resize(heads.len(), None);
        for (head, group) in heads.iter().zip(&groups) {
            match group {
                // Records that are lost by the damage may still be in the live area.
                Some(group) if group.taken < head.count => {
                    if let Some(covered) = self.covered.get_mut(&head.chunk)
                        && covered.0 == head.generation
                    {
                        covered.1 = head.first + group.taken.max(group.known);
                    }
                }
                Some(_) => {}
                None => {
                    self.begin_group(head, false);
                }
            }
        }
        (self.heads, self.groups) = (heads, groups);
        // The buffer of one unusually large frame is not kept for the rest of the log.
        self.payload.shrink_to(KEPT_PAYLOAD_BYTES);
        if let Some(damage) = damage {
            let offset = at.offset + (FRAME_HEADER_BYTES + damage.offset) as u64;
            self.problem(
                offset,
                "packed records do not decode here; those before it were kept".to_owned(),
            );
        }
    }

    /// Starts a group at its first record, or starts an empty group. The group then counts as covered completely;
    /// damage undoes this later.
    fn begin_group(&mut self, head: &GroupHead, has_records: bool) -> Begun {
        let covered = self.covered.entry(head.chunk).or_insert((head.generation, 0));
        if covered.0 != head.generation {
            *covered = (head.generation, 0);
        }
        let known = covered.1.saturating_sub(head.first);
        let whole = if has_records { head.count } else { 0 };
        covered.1 = covered.1.max(head.first + whole);
        let thread = self.start_group(head.lane, head.thread_id, head.first > 0);
        Begun {
            known,
            taken: 0,
            thread,
        }
    }

    /// Sets the thread from the chunk, which names its owner, in case the record that names the thread was lost.
    fn start_group(&mut self, lane: u32, thread_id: u32, continued: bool) -> u32 {
        let known = self.lane_threads.get(&lane).copied();
        if let Some(number) = known
            && (continued || self.threads[number as usize].id == thread_id)
        {
            return number;
        }
        let number = self.thread_number(thread_id, "");
        self.lane_threads.insert(lane, number);
        number
    }

    fn thread_number(&mut self, id: u32, name: &str) -> u32 {
        if let Some(&number) = self.thread_numbers.get(&(id, name.to_owned())) {
            return number;
        }
        let number = self.threads.len() as u32;
        self.threads.push(Thread {
            id,
            name: name.to_owned(),
        });
        self.thread_numbers.insert((id, name.to_owned()), number);
        number
    }

    /// Takes a record of a lane. `thread` is the thread of the lane, which the record may change.
    #[inline]
    fn take_record(&mut self, lane: u32, record: Record, thread: &mut u32) {
        if record.kind == RecordKind::Thread as u8 {
            *thread = self.take_thread(lane, &record);
        } else if (self.from_ticks..=self.last_ticks).contains(&record.leave_ticks) {
            let thread = *thread;
            let entry = ThreadRecord { thread, lane, record };
            // Records were packed in this order, so a record nearly always belongs at the end.
            if self
                .held
                .last()
                .is_none_or(|held| held.record.leave_ticks <= record.leave_ticks)
            {
                self.held.push(entry);
            } else {
                self.take_earlier(entry);
            }
        }
    }

    /// Takes a record that was left before others that are already held. Such records come from an earlier frame and
    /// were beyond its watermark.
    #[cold]
    fn take_earlier(&mut self, entry: ThreadRecord) {
        let leave = entry.record.leave_ticks;
        let near = self.held.len().saturating_sub(FEW);
        let is_before = |held: &ThreadRecord| held.record.leave_ticks <= leave;
        if self.held_in_order && (near == 0 || is_before(&self.held[near - 1])) {
            let place = near + self.held[near..].partition_point(is_before);
            self.held.insert(place, entry);
        } else {
            self.held_in_order = false;
            self.held.push(entry);
        }
    }

    /// Takes the record that names the thread of a lane. Returns the number of the thread.
    fn take_thread(&mut self, lane: u32, record: &Record) -> u32 {
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&record.bytes.to_le_bytes());
        bytes[8..].copy_from_slice(&record.aux.to_le_bytes());
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let name = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let number = self.thread_number(record.object as u32, &name);
        self.lane_threads.insert(lane, number);
        number
    }
}

/// Returns true if `generation` is later. Generations count up and wrap around.
fn is_later(generation: u32, than: u32) -> bool {
    (generation.wrapping_sub(than) as i32) > 0
}

fn loss_from(entry: &[u8; LOSS_ENTRY_BYTES]) -> Option<Loss> {
    Some(Loss {
        count: u64_at(entry, 0),
        first_ticks: u64_at(entry, 8),
        last_ticks: u64_at(entry, 16),
        cause: LossCause::from_u8(entry[24])?,
        kind: RecordKind::from_u8(entry[25])?,
    })
}

/// Finds the next complete frame header at or after `from`.
fn find_frame(file: &File, from: u64, end: u64) -> io::Result<Option<u64>> {
    const WINDOW: usize = 64 << 10;
    let mut buffer = vec![0u8; WINDOW + FRAME_HEADER_BYTES];
    let mut at = from;
    while at < end {
        let got = read_up_to(file, &mut buffer, at)?;
        for start in 0..got.min(WINDOW) {
            if let Some(header) = FrameHeader::from_bytes(&buffer[start..got]) {
                let frame_end =
                    at + start as u64 + FRAME_HEADER_BYTES as u64 + u64::from(header.payload_bytes);
                if frame_end <= end {
                    return Ok(Some(at + start as u64));
                }
            }
        }
        at += WINDOW as u64;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{KIND_PROPERTY, Payload};
    use crate::process;
    use crate::writer::LogWriter;
    use std::fs;

    /// Writes a closed log whose header names this live area. Returns its size before the last records.
    fn write(path: &Path, live: &Path) -> u64 {
        let mut log = LogWriter::new(File::create(path).expect("a log"), Counter::MonotonicRaw, 7, 9)
            .expect("a header");
        let property = |key: &str, value: &str| (KIND_PROPERTY, Payload::property(key, value.as_bytes()));
        log.definitions(&[
            property("boot_id", &process::boot_id().expect("a boot id")),
            property("live_path", live.to_str().expect("a plain name")),
        ])
        .expect("definitions");
        log.records(&[(0, 9, &[Record::new(RecordKind::Call)])])
            .expect("records");
        log.in_flight(&[(0, 9, Record::new(RecordKind::Call))])
            .expect("a call in progress");
        let torn_bytes = fs::metadata(path).expect("a log").len();
        log.records(&[(0, 9, &[Record::new(RecordKind::Call)])])
            .expect("records");
        log.end().expect("an end");
        torn_bytes
    }

    #[test]
    fn a_log_that_is_closed_while_it_is_opened_is_read_to_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, live) = (folder.path().join("one.rslog"), folder.path().join("one.rslive"));
        let torn_bytes = write(&path, &live);
        let whole = fs::read(&path).expect("a log");
        let log = fs::OpenOptions::new().write(true).open(&path).expect("a log");
        log.set_len(torn_bytes).expect("cut");
        let torn = RankLog::open(&path).expect("a log");
        assert_eq!((torn.ending, torn.frames.len()), (Ending::Torn, 1));

        let mut opened = RankLog::open_segments(&path).expect("a log");
        assert_eq!(opened.ending, Ending::Torn);
        // The process closes its log now. It would also remove the live area.
        fs::write(&path, &whole).expect("written");
        opened.find_live_area();
        assert_eq!((opened.ending, opened.frames.len()), (Ending::Closed, 2));
        assert_eq!(opened.in_flight.len(), 1, "its frame was in the first part");
        assert!(opened.problems.is_empty());
    }
}
