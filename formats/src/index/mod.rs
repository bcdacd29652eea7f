//! Index of one rank for the viewer: everything that is drawn of the rank, ordered by time and read in place.
//!
//! The index is built from the session's tables and contains nothing else, so it may be deleted and built again. A
//! timeline of a hundred million spans cannot be decoded from Parquet during scrolling. The index finds any moment of
//! any lane in a few microseconds. The time of each class between two moments is a difference of two sums.
//!
//! A **lane** is a row of spans that do not overlap. Each span has a class, which determines its colour, and a name.
//! The spans of a lane are in blocks of [`BLOCK_SPANS`]. A directory has the start of each block, and the time of each
//! class before it. The sums over adjacent windows therefore always add up to the sum over all of them, at any zoom.
//!
//! A **counter** is a row of samples. [`counters`] describes its blocks and its tree.
//!
//! ```text
//! session/view/rank=R.view   R: index of the rank in session.json; all numbers little-endian
//!   magic       8 bytes  "RSVIEW", 0, version
//!   blocks               in the order in which they became full: blocks of one moment are close together
//!   directories          one per lane: 96 bytes per block, see directory.rs
//!   trees                one per counter, see counters/
//!   footer               JSON: lanes and counters with the offsets of their directories, names
//!   trailer     32 bytes   offset of the footer (u64), its length (u64), CRC-32 of it (u32), 0 (u32), magic
//! ```

mod backing;
mod block;
mod contents;
pub mod counters;
mod directory;
mod footer;
mod lane;
mod layers;
mod reader;
mod sweep;
mod writer;

pub use counters::{Counter, CounterInfo, Sample, Spread};
pub use directory::Sums;
pub use footer::{Footer, LaneInfo, LaneKind, Name};
pub use lane::Lane;
pub use layers::Layers;
pub use reader::{ViewError, ViewFile};
pub use sweep::Sweep;
pub use writer::ViewWriter;

use std::path::{Path, PathBuf};

/// Directory of the index inside a session.
pub const VIEW_DIRECTORY: &str = "view";

/// Maximum number of spans in a block. This many are decoded to find one.
pub const BLOCK_SPANS: usize = 64;

/// Maximum number of classes of a lane. Their meaning depends on the kind of the lane ([`part`], [`operation`], …).
pub const CLASSES: usize = 8;

/// Thread ID of lanes that many threads share, because there were too many threads for separate lanes.
pub const OTHER_THREADS: u32 = u32::MAX;

const MAGIC: [u8; 8] = *b"RSVIEW\0\x03";

/// Returns the path of the index of one rank.
pub fn view_path(session: &Path, rank: u32) -> PathBuf {
    session.join(VIEW_DIRECTORY).join(format!("rank={rank}.view"))
}

/// Span of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Start, in nanoseconds on the session's axis.
    pub start_ns: i64,
    /// End, in nanoseconds; not before the start.
    pub end_ns: i64,
    /// Wait for peers at the start of an operation, in nanoseconds. It counts as class [`operation::WAITING`].
    pub wait_ns: i64,
    /// Time from the arrival of an operation, when the program requested it (METRICS.md, section 1), to `start_ns`, in
    /// nanoseconds; 0 if there is no queue. It is not part of the span.
    pub queued_ns: i64,
    /// Class of the rest of the span, below [`CLASSES`].
    pub class: u8,
    /// Index into [`Footer::names`], or the number of a step; below 2²⁶.
    pub name: u32,
    /// Instance of the span.
    pub instance: Option<u64>,
}

impl Span {
    /// Returns the time at which the program requested the operation, in nanoseconds.
    pub fn arrival_ns(&self) -> i64 {
        self.start_ns.saturating_sub(self.queued_ns)
    }
}

/// Classes of [`LaneKind::Parts`]: the parts of METRICS.md, section 5.
pub mod part {
    /// For a device: compute only. For a host: host time in which no operation ran.
    pub const OWN: u8 = 0;
    /// For a device: compute and communication at the same time. For a host: host time while operations ran.
    pub const OVERLAPPED: u8 = 1;
    /// Exposed transfer: exposed communication that moves data.
    pub const EXPOSED_TRANSFER: u8 = 2;
    /// Exposed wait: exposed communication that waits for peers.
    pub const EXPOSED_WAIT: u8 = 3;
    /// Exposed memory work.
    pub const EXPOSED_MEMORY: u8 = 4;
    /// Idle time of a device.
    pub const IDLE: u8 = 5;
    /// A thread is blocked for communication while no operation runs.
    pub const OTHER_BLOCKED: u8 = 6;
    /// Device activity was not recorded. This class is not part of any window.
    pub const NOT_RECORDED: u8 = 7;
    /// Names, in the order of their numbers.
    pub const NAMES: [&str; 8] = [
        "compute only",
        "overlapped",
        "exposed transfer",
        "exposed wait",
        "exposed memory",
        "idle",
        "other blocked",
        "not recorded",
    ];
}

/// Classes of [`LaneKind::Operations`].
pub mod operation {
    /// Waiting for needed peers: the first part of a span ([`super::Span::wait_ns`]).
    pub const WAITING: u8 = 0;
    /// Transfer: everything that is not waiting.
    pub const TRANSFER: u8 = 1;
    /// The two ends of the clock interval give different classes.
    pub const INCONCLUSIVE: u8 = 2;
    /// It is unknown which rank waited: incomplete, mismatched, or without a key.
    pub const NOT_JUDGED: u8 = 3;
    /// The call that put the operation on a device's stream. The time of the operation was not recorded.
    pub const ENQUEUED: u8 = 4;
    /// The operation was in progress when the log ended.
    pub const IN_FLIGHT: u8 = 5;
    /// The operation failed.
    pub const FAILED: u8 = 6;
    /// Names, in the order of their numbers.
    pub const NAMES: [&str; 7] = [
        "waiting",
        "transfer",
        "inconclusive",
        "not judged",
        "enqueued",
        "in flight",
        "failed",
    ];
}

/// Classes of [`LaneKind::Calls`].
pub mod call {
    /// Blocked for communication.
    pub const BLOCKED: u8 = 0;
    /// Building or destroying a communicator.
    pub const CONNECT: u8 = 1;
    /// Call that launches work on a device or in a library.
    pub const LAUNCH: u8 = 2;
    /// Call that waits for a device.
    pub const DEVICE_WAIT: u8 = 3;
    /// Memory handling for communication.
    pub const MEMORY: u8 = 4;
    /// The library reported an error.
    pub const FAILURE: u8 = 5;
    /// Another profiler recorded, and rankscope did not.
    pub const YIELDED: u8 = 6;
    /// Names, in the order of their numbers.
    pub const NAMES: [&str; 7] = [
        "blocked for communication",
        "communicator",
        "launch",
        "waits for device",
        "memory",
        "failure",
        "yielded",
    ];
}

/// Classes of [`LaneKind::Overhead`].
pub mod overhead {
    /// Time of the recorder: CUPTI wrote, delivered or received buffers, or instrumented kernels.
    pub const RECORDER: u8 = 0;
    /// Time of the driver inside a call, which passes without a recorder too: it compiled, it loaded, or its queue was
    /// full.
    pub const DRIVER: u8 = 1;
    /// Names, in the order of their numbers.
    pub const NAMES: [&str; 2] = ["recorder", "driver"];
}

/// Classes of [`LaneKind::Works`].
pub mod work {
    /// Kernel that does not communicate.
    pub const COMPUTE: u8 = 0;
    /// Work of a communication library.
    pub const COMMUNICATION: u8 = 1;
    /// Copy or set of memory.
    pub const MEMORY: u8 = 2;
    /// Names, in the order of their numbers.
    pub const NAMES: [&str; 3] = ["compute", "communication", "memory"];
}

/// Classes of [`LaneKind::Steps`].
pub mod step {
    /// Training step.
    pub const TRAIN: u8 = 0;
    /// Evaluation.
    pub const EVALUATE: u8 = 1;
    /// Checkpoint.
    pub const CHECKPOINT: u8 = 2;
    /// Names, in the order of their numbers.
    pub const NAMES: [&str; 3] = ["train", "evaluate", "checkpoint"];
}

#[cfg(test)]
mod tests;
