//! Index of a log: what is needed to open it again without looking at all of its frames.

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
