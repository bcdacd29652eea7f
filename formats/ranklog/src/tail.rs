//! Reading of only the last part of a log. Watermarks show where it starts, so that nothing before it is read or
//! unpacked.
//!
//! Every record that was left before the tick of a watermark is in the frames before that watermark. Records in the
//! frames before the previous watermark were all left before that tick. Records left at or after the tick are therefore
//! in the frames after the previous watermark.

use super::codec;
use super::log_index::LogIndex;
use super::mark::is_system_counter;
use super::reader::{FrameAt, InFlight, RankLog};
use super::segment::{FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FrameKind};

/// Number of bytes at the start of a payload that nearly always contain the heads of all its groups.
const FRONT_BYTES: usize = 8 << 10;

/// Number of watermarks after a tick behind which no record was left before that tick. A record that was committed late
/// follows the first one.
const WATERMARKS_AFTER: usize = 2;

/// Maximum number of [`Tail::boundaries`].
const MAX_TAIL_BOUNDARIES: usize = 256;

/// Maximum number of records whose times are kept to choose [`Tail::boundaries`]. With more, there are none. A process
/// writes a watermark long before.
const MAX_TAIL_RECORDS: usize = 1 << 20;

/// Time at which a part of a log can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Tick of a watermark, or leave time of a record.
    pub ticks: u64,
    /// Approximate number of records that were left at this tick or later. Those of a tail are the records of the job.
    pub records: u64,
}

/// Last written records of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Tick at which the last record was left or the last call in progress was entered; `None` if there is neither.
    pub end_ticks: Option<u64>,
    /// Leave times of some records of the job, the last one first.
    pub boundaries: Vec<Boundary>,
}

/// Chooses at most [`MAX_TAIL_BOUNDARIES`] of the times of records.
fn boundaries_at(mut times: Vec<u64>) -> Vec<Boundary> {
    times.sort_unstable_by(|one, other| other.cmp(one));
    let every = times.len().div_ceil(MAX_TAIL_BOUNDARIES).max(1);
    let groups = times.chunks(every).enumerate();
    groups
        .filter_map(|(group, times)| {
            Some(Boundary {
                ticks: *times.last()?,
                records: (group * every + times.len()) as u64,
            })
        })
        .collect()
}

/// Position at which reading of a log's records starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    /// Records that were left before this tick are not returned.
    pub(super) ticks: u64,
    /// Index of the first frame that is read.
    pub(super) first_frame: usize,
}

/// Position at which reading of a log's records ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// Records that were left at this tick or later are not returned.
    pub(super) ticks: u64,
    /// Number of frames that are read.
    pub(super) frames: usize,
    /// Offset of the end of the last frame that is read; `u64::MAX` if later frames may belong to it, too.
    offset: u64,
    /// True if the process recorded longer.
    is_early: bool,
}

impl RankLog {
    /// Returns the watermarks at which a part of this log can start, the last one first. The list ends at the first
    /// part with more than `most` records. Also returns the number of records of the whole log, unless the list ended
    /// early.
    pub fn boundaries(&self, most: u64) -> (Vec<Boundary>, Option<u64>) {
        let mut found = Vec::new();
        let live = self.live.iter();
        let mut records: u64 = live
            .map(|group| (group.records.len() as u64).saturating_sub(u64::from(group.flushed)))
            .sum();
        for (frame, &at) in self.frames.iter().enumerate().rev() {
            if at.header.kind == FrameKind::Watermark as u8 {
                found.extend(self.moment(frame).map(|ticks| Boundary { ticks, records }));
                if records > most {
                    return (found, None);
                }
            } else {
                records += self.records_in(at);
            }
        }
        (found, Some(records))
    }

    /// Reads the records that were written last, and those in the live area. They are the records since a watermark, or
    /// the whole log if it has none yet: a process writes the first one after seconds.
    ///
    /// The recorder samples counters also while the job is stuck. So the tail reaches back to a record of the job itself, or
    /// a call in progress, and only these determine the end. It contains at least `least` records of the job, if the log has as
    /// many: a message in progress has no other record than the one that posted it.
    pub fn tail(&self, least: usize) -> Tail {
        let mut first_frame = self.first_frame_of_tail(self.frames.len());
        let mut step = 1;
        loop {
            let (tail, of_job) = self.tail_from(first_frame);
            if (tail.end_ticks.is_some() && of_job >= least) || first_frame == 0 {
                return tail;
            }
            // Steps grow, so that a long time with nothing but samples is read a few times.
            first_frame = self.first_frame_of_tail(first_frame.saturating_sub(step));
            step *= 2;
        }
    }

    /// Reads the records from a frame on. Also returns the number of those of the job.
    fn tail_from(&self, first_frame: usize) -> (Tail, usize) {
        let before = first_frame.checked_sub(1);
        let from_ticks = before.and_then(|before| self.moment(before)).unwrap_or(0);
        let mut stream = self.records_behind(first_frame);
        let mut end_ticks = self.in_flight.iter().map(|call| call.record.enter_ticks).max();
        let mut times: Vec<u64> = Vec::new();
        let mut is_whole = true;
        let mut batch = Vec::new();
        let mut of_job = 0;
        while stream.next_batch(&mut batch) {
            is_whole = is_whole && times.len() + batch.len() <= MAX_TAIL_RECORDS;
            for entry in batch.iter().filter(|entry| !is_system_counter(&entry.record)) {
                let ticks = entry.record.leave_ticks;
                end_ticks = end_ticks.max(Some(ticks));
                // A live area also keeps older records, which earlier frames contain.
                if ticks >= from_ticks {
                    of_job += 1;
                    if is_whole {
                        times.push(ticks);
                    }
                }
            }
        }
        if !is_whole {
            times.clear();
        }
        let tail = Tail {
            end_ticks,
            boundaries: boundaries_at(times),
        };
        (tail, of_job)
    }

    /// Returns the index of the first frame after the watermark that precedes the last records before the frame `until`. A
    /// stuck process keeps writing watermarks, and its last call may be long before them.
    fn first_frame_of_tail(&self, until: usize) -> usize {
        let frames = &self.frames[..until.min(self.frames.len())];
        let is_kind = |frame: &FrameAt, kind: FrameKind| frame.header.kind == kind as u8;
        let has_records = |at: &FrameAt| is_kind(at, FrameKind::Records) && self.records_in(*at) > 0;
        let last = frames.iter().rposition(has_records);
        // Records that are written together are between two watermarks.
        last.map_or(frames.len(), |last| {
            let before = &frames[..last];
            before
                .iter()
                .rposition(|at| is_kind(at, FrameKind::Watermark))
                .map_or(0, |watermark| watermark + 1)
        })
    }

    /// Limits [`RankLog::records`] to records that were left at `ticks` or later. Frames without such records are not
    /// read.
    ///
    /// Thread IDs come from the chunks. After a thread takes over a lane, its records have the ID of the previous owner
    /// until the next chunk of the lane.
    pub fn begin_at(&mut self, ticks: u64) {
        self.begin = Some(Begin {
            ticks,
            first_frame: self.first_frame_from(ticks),
        });
    }

    /// Returns the index of the first frame that may contain records that were left at `ticks` or later.
    pub(super) fn first_frame_from(&self, ticks: u64) -> usize {
        // Ticks of watermarks increase.
        let behind = self
            .watermarks
            .partition_point(|watermark| watermark.ticks <= ticks);
        // The frames before a watermark may contain records that were left after its tick. They contain none that were
        // left after the tick of the next watermark.
        let before = behind
            .checked_sub(2)
            .and_then(|before| self.watermarks.get(before));
        before.map_or(0, |before| before.frame + 1)
    }

    /// Limits [`RankLog::records`] to records that were left before `ticks`. Frames without such records are not read.
    pub fn end_at(&mut self, ticks: u64) {
        let (frames, offset) = self.end_for(ticks);
        self.end = Some(End {
            ticks,
            frames,
            offset,
            is_early: self.records_after(ticks),
        });
    }

    /// Returns the number of frames with records that were left before `ticks`, and the offset of their end; `u64::MAX` if later
    /// frames may have such records.
    pub(super) fn end_for(&self, ticks: u64) -> (usize, u64) {
        let first_after = self
            .watermarks
            .partition_point(|watermark| watermark.ticks < ticks);
        let last = self.watermarks.get(first_after + WATERMARKS_AFTER - 1);
        last.map_or((self.frames.len(), u64::MAX), |last| {
            (last.frame + 1, self.end_of(self.frames[last.frame]))
        })
    }

    /// Returns true if [`RankLog::records`] reads this offset of the segment file, or all of the file.
    pub fn reads_offset(&self, offset: u64) -> bool {
        let offset_of = |frame: usize| self.frames.get(frame).map(|at| at.offset);
        let begins = self.begin.and_then(|begin| offset_of(begin.first_frame));
        begins.is_none_or(|begins| begins <= offset) && self.end.is_none_or(|end| offset < end.offset)
    }

    /// Returns the offset after a frame.
    fn end_of(&self, at: FrameAt) -> u64 {
        at.offset + FRAME_HEADER_BYTES as u64 + u64::from(at.header.payload_bytes)
    }

    /// Removes the limits of [`RankLog::begin_at`] and [`RankLog::end_at`].
    pub fn read_whole(&mut self) {
        (self.begin, self.end) = (None, None);
    }

    /// Returns true if [`RankLog::records`] ends before the log does.
    pub fn ends_early(&self) -> bool {
        self.end.is_some_and(|end| end.is_early)
    }

    /// Returns the calls in progress at the end of the log; none if it ends early.
    pub fn calls_in_progress(&self) -> &[InFlight] {
        if self.ends_early() { &[] } else { &self.in_flight }
    }

    /// Returns true if the process still recorded at `ticks` or later.
    pub fn records_after(&self, ticks: u64) -> bool {
        let is_calibrated = self.calibrations.last().is_some_and(|last| last.ticks >= ticks);
        is_calibrated || self.known_ticks >= ticks || self.last_ticks() >= ticks
    }

    /// Returns the last tick at which the process is known to have recorded; 0 if it never did.
    pub fn last_ticks(&self) -> u64 {
        *self.last.get_or_init(|| {
            let calibrated = self.calibrations.last().map(|last| last.ticks);
            let mut moments = self.watermarks.iter().rev().map(|watermark| watermark.ticks);
            let watermark = moments.find(|&ticks| ticks != u64::MAX);
            let last = calibrated.max(watermark).max(self.tail(0).end_ticks);
            last.unwrap_or(0).max(self.known_ticks)
        })
    }

    /// Returns true if watermarks show that all records are in the log that were left before `ticks`.
    pub fn is_whole_until(&self, ticks: u64) -> bool {
        // Ticks of watermarks increase, so the last ones decide.
        let moments = self.watermarks.iter().rev().map(|watermark| watermark.ticks);
        let mut known = moments.filter(|&ticks| ticks != u64::MAX);
        known.nth(WATERMARKS_AFTER - 1) >= Some(ticks)
    }

    /// Returns the tick from which records are returned; 0 for the start of the log.
    pub fn begin_ticks(&self) -> u64 {
        self.begin.map_or(0, |begin| begin.ticks)
    }

    /// Returns true if only the last part of the log is read. Numbers that count earlier records are then unknown.
    pub fn is_cut(&self) -> bool {
        self.begin.is_some()
    }

    /// Returns the tick of the watermark at a position of the list of frames; `None` if it is damaged, or means that nothing
    /// follows.
    fn moment(&self, frame: usize) -> Option<u64> {
        let at = self
            .watermarks
            .binary_search_by_key(&frame, |watermark| watermark.frame);
        let found = at.ok().map(|at| self.watermarks[at].ticks);
        found.filter(|&ticks| ticks != u64::MAX)
    }

    /// Returns the number of records in a frame, from the heads of its groups; 0 if it is damaged.
    fn records_in(&self, at: FrameAt) -> u64 {
        let bytes = at.header.payload_bytes as usize;
        let mut front = vec![0u8; bytes.min(FRONT_BYTES)];
        let read = |front: &mut [u8]| self.read_at(front, at.offset + FRAME_HEADER_BYTES as u64);
        if read(&mut front).is_err() {
            return 0;
        }
        if let Ok(records) = codec::count_records(&front) {
            return records;
        }
        front.resize(bytes, 0);
        let whole = read(&mut front).ok();
        whole
            .and_then(|()| codec::count_records(&front).ok())
            .unwrap_or(0)
    }
}

impl RankLog {
    /// Returns an index with which the records that were left at `ticks` or later can be read.
    pub fn index_from(&self, ticks: u64) -> LogIndex {
        let first = self.frames.get(self.first_frame_from(ticks));
        // Without records, the log is read from its start: it is short.
        self.index_of(
            first.map_or(FILE_HEADER_BYTES as u64, |first| first.offset),
            u64::MAX,
        )
    }

    /// Returns an index with which the records can be read that were left from `ticks` on and before `until_ticks`.
    pub fn index_between(&self, ticks: u64, until_ticks: u64) -> LogIndex {
        let index = self.index_from(ticks);
        self.index_of(index.resume, self.end_for(until_ticks).1.max(index.resume))
    }

    fn index_of(&self, resume: u64, until: u64) -> LogIndex {
        let small_frames = self.small_frames.iter().copied();
        LogIndex {
            nonce: self.nonce,
            pid: self.pid,
            small_frames: small_frames
                .filter(|offset| !(resume..until).contains(offset))
                .collect(),
            resume,
            until,
            last_ticks: self.last_ticks(),
        }
    }
}
