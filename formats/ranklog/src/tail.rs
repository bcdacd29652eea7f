//! The last part of a log: watermarks tell where it begins, so that nothing of what lies before is unpacked, or read.
//!
//! A watermark says that every record left before its tick stands above it; and what stands above the watermark before it
//! was left before that tick. So the records from a watermark on stand in the frames behind the one before.

use super::codec;
use super::reader::{FrameAt, RankLog};
use super::segment::{FRAME_HEADER_BYTES, FrameKind};
use std::os::unix::fs::FileExt;

/// Bytes at a payload's front in which nearly always all its groups are named.
const FRONT_BYTES: usize = 8 << 10;

/// A moment at which a part of a log may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// A watermark.
    pub ticks: u64,
    /// Records in the frames behind it and in the live area.
    pub records: u64,
}

/// Where a log's records begin to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    /// Nothing that was left before is told.
    pub(super) ticks: u64,
    /// Frame that is read first.
    pub(super) first_frame: usize,
}

impl RankLog {
    /// Where a part of this log may begin, the last moment first, up to the first part that has more records than `most`;
    /// and how many records all of it has, if it has no more than that.
    pub fn boundaries(&self, most: u64) -> (Vec<Boundary>, Option<u64>) {
        let mut found = Vec::new();
        let live = self.live.iter();
        let mut records: u64 = live
            .map(|group| (group.records.len() as u64).saturating_sub(u64::from(group.flushed)))
            .sum();
        for &at in self.frames.iter().rev() {
            if at.header.kind == FrameKind::Watermark as u8 {
                found.extend(self.moment(at).map(|ticks| Boundary { ticks, records }));
                if records > most {
                    return (found, None);
                }
            } else {
                records += self.records_in(at);
            }
        }
        (found, (records <= most).then_some(records))
    }

    /// When the last record was left, or the last call in progress was entered: a process that is stuck goes on to write
    /// watermarks, and what it did last long after it did that. What was written last is unpacked for it.
    pub fn last_ticks(&self) -> Option<u64> {
        let is_kind = |frame: &FrameAt, kind: FrameKind| frame.header.kind == kind as u8;
        let has_records = |at: &FrameAt| is_kind(at, FrameKind::Records) && self.records_in(*at) > 0;
        let last = self.frames.iter().rposition(has_records);
        // What is written at once stands between two watermarks.
        let first = last.map_or(self.frames.len(), |last| {
            let before = &self.frames[..last];
            before
                .iter()
                .rposition(|at| is_kind(at, FrameKind::Watermark))
                .map_or(0, |watermark| watermark + 1)
        });
        let mut end = self.in_flight.iter().map(|call| call.record.enter_ticks).max();
        let mut stream = self.records_behind(first);
        let mut batch = Vec::new();
        while stream.next_batch(&mut batch) {
            end = end.max(batch.iter().map(|entry| entry.record.leave_ticks).max());
        }
        end
    }

    /// Lets [`RankLog::records`] tell only what was left at `ticks` or later. Frames that hold nothing of it are not read.
    /// Threads are known by what their chunks say: one that took a lane over before is told by the id of the one that it
    /// took it from, up to the lane's next chunk.
    pub fn begin_at(&mut self, ticks: u64) {
        let watermarks: Vec<usize> = (0..self.frames.len())
            .filter(|&frame| self.frames[frame].header.kind == FrameKind::Watermark as u8)
            .collect();
        let tick_of = |&frame: &usize| self.watermark(self.frames[frame]);
        // They grow; one that cannot be read is none to begin at.
        let behind = watermarks.partition_point(|frame| tick_of(frame).is_some_and(|found| found <= ticks));
        // Above a watermark may stand what was left behind it, but nothing that was left behind the next one.
        let before = behind.checked_sub(2).and_then(|before| watermarks.get(before));
        self.begin = Some(Begin {
            ticks,
            first_frame: before.map_or(0, |before| before + 1),
        });
    }

    /// True if only the last part of the log is told: what is numbered by what came before is not known.
    pub fn is_cut(&self) -> bool {
        self.begin.is_some()
    }

    /// The tick of a watermark; `None` if it is damaged.
    fn watermark(&self, at: FrameAt) -> Option<u64> {
        let mut bytes = [0u8; 8];
        if at.header.payload_bytes as usize != bytes.len() {
            return None;
        }
        self.file
            .read_exact_at(&mut bytes, at.offset + FRAME_HEADER_BYTES as u64)
            .ok()?;
        (crc32fast::hash(&bytes) == at.header.payload_check).then(|| u64::from_le_bytes(bytes))
    }

    /// A watermark's tick, if it is a moment: who writes `u64::MAX` says that nothing follows, not when that was.
    fn moment(&self, at: FrameAt) -> Option<u64> {
        self.watermark(at).filter(|&ticks| ticks != u64::MAX)
    }

    /// Records in a frame, by what its groups say; 0 if it is damaged.
    fn records_in(&self, at: FrameAt) -> u64 {
        let bytes = at.header.payload_bytes as usize;
        let mut front = vec![0u8; bytes.min(FRONT_BYTES)];
        let read = |front: &mut [u8]| {
            self.file
                .read_exact_at(front, at.offset + FRAME_HEADER_BYTES as u64)
        };
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
