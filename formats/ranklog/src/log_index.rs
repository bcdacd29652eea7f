//! Index of a log: what is needed to open it again without looking at all of its frames.

use super::reader::RankLog;
use super::segment::FILE_HEADER_BYTES;

/// Offsets of a log's frames without records, and of the first frame that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogIndex {
    /// Nonce of the process.
    pub nonce: u64,
    /// Process ID.
    pub pid: u32,
    /// Offsets of the frames before [`LogIndex::resume`] that have no records, in bytes.
    pub small_frames: Vec<u64>,
    /// Offset of the first frame that is read, in bytes.
    pub resume: u64,
}

impl RankLog {
    /// Returns an index with which the records that were left at `ticks` or later can be read.
    pub fn index_from(&self, ticks: u64) -> LogIndex {
        let first = self.frames.get(self.first_frame_from(ticks));
        // Without records, the log is read from its start: it is short.
        let resume = first.map_or(FILE_HEADER_BYTES as u64, |first| first.offset);
        let small_frames = self.small_frames.iter().copied();
        LogIndex {
            nonce: self.nonce,
            pid: self.pid,
            small_frames: small_frames.filter(|&offset| offset < resume).collect(),
            resume,
        }
    }
}
