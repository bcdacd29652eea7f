//! Index of a log: what is needed to open it again without looking at all of its frames.

use super::reader::RankLog;
use super::segment::FILE_HEADER_BYTES;

/// Offsets of a log's frames without records, and of the frames that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogIndex {
    /// Nonce of the process.
    pub nonce: u64,
    /// Process ID.
    pub pid: u32,
    /// Offsets of the frames outside of the part that have no records, in bytes. All of them are read.
    pub small_frames: Vec<u64>,
    /// Offset of the start of the part, in bytes.
    pub resume: u64,
    /// Offset of the end of the part, in bytes; `u64::MAX` if all later frames belong to it.
    pub until: u64,
    /// Last tick at which the process is known to have recorded.
    pub last_ticks: u64,
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
