//! The viewer's index of one rank: what is drawn of it, in the order of time, read where it lies.
//!
//! It is made from the session's tables, says nothing that they do not say, and may be deleted: it is made again. A
//! timeline of a hundred million spans cannot be decoded from Parquet while somebody scrolls; here any moment of any lane
//! is found in a few microseconds, and the time of each class between any two moments is a difference of two sums.
//!
//! A **lane** is a row of spans that do not overlap, each of a class (what colour it has) and a name. Spans of a lane lie
//! in blocks of [`BLOCK_SPANS`]; a directory tells of each block where it begins, and how much time of each class lies
//! before it. So the sum over any neighbouring windows is the sum over all of them, whatever the zoom.
//!
//! ```text
//! session/view/rank=R.view     R: index of the rank in session.json; all numbers little-endian
//!   magic           8 bytes    "RSVIEW", 0, version
//!   blocks                     in the order in which they were full: those of one moment lie side by side
//!   directories                one per lane: 96 bytes per block, see directory.rs
//!   footer                     JSON: lanes and where their directories lie, names
//!   trailer         32 bytes   offset of the footer (u64), its length (u64), CRC-32 of it (u32), 0 (u32), magic
//! ```

mod block;
mod directory;
mod footer;
mod lane;
mod layers;
mod reader;
mod sweep;
mod writer;

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

/// Spans of a block at most: as many are decoded to find one.
pub const BLOCK_SPANS: usize = 64;

/// Classes of a lane at most; what they mean is told by its kind ([`part`], [`operation`], …).
pub const CLASSES: usize = 8;

/// The thread of lanes of which many threads have a part: there were too many for lanes of their own.
pub const OTHER_THREADS: u32 = u32::MAX;

const MAGIC: [u8; 8] = *b"RSVIEW\0\x02";

/// Where the index of one rank lies.
pub fn view_path(session: &Path, rank: u32) -> PathBuf {
    session.join(VIEW_DIRECTORY).join(format!("rank={rank}.view"))
}

/// Something in a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Begin, ns on the session's axis.
    pub start_ns: i64,
    /// End, ns; not before the begin.
    pub end_ns: i64,
    /// Of an operation, waiting for peers at its begin, ns; counts as class [`operation::WAITING`].
    pub wait_ns: i64,
    /// Of an operation, the time from when the program asked for it (its arrival, METRICS.md, section 1) to `start_ns`, ns; 0
    /// where no queue lies between. It is not part of the span.
    pub queued_ns: i64,
    /// Class of the rest, below [`CLASSES`].
    pub class: u8,
    /// What it is called: position in [`Footer::names`], or of steps their number; below 2²⁶.
    pub name: u32,
    /// The instance that it belongs to.
    pub instance: Option<u64>,
}

impl Span {
    /// When the program asked for it, ns.
    pub fn arrival_ns(&self) -> i64 {
        self.start_ns.saturating_sub(self.queued_ns)
    }
}

/// Classes of [`LaneKind::Parts`]: the parts of METRICS.md, section 5.
pub mod part {
    /// Of a device compute only; of a host its own time in which nothing was communicated.
    pub const OWN: u8 = 0;
    /// Of a device compute and communication at once; of a host its own time while communication ran.
    pub const OVERLAPPED: u8 = 1;
    /// Communication that nothing hides, moving data.
    pub const EXPOSED_TRANSFER: u8 = 2;
    /// Communication that nothing hides, waiting for peers.
    pub const EXPOSED_WAIT: u8 = 3;
    /// Memory work that nothing hides.
    pub const EXPOSED_MEMORY: u8 = 4;
    /// A device that does nothing.
    pub const IDLE: u8 = 5;
    /// A thread that is blocked for communication while none runs.
    pub const OTHER_BLOCKED: u8 = 6;
    /// What devices did was not recorded; it is no part of any window.
    pub const NOT_RECORDED: u8 = 7;
    /// Names in the order of their numbers.
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
    /// Transfer: all that is not waiting.
    pub const TRANSFER: u8 = 1;
    /// What bound it depends on where in its interval the clock is.
    pub const INCONCLUSIVE: u8 = 2;
    /// Who waited is not known: incomplete, mismatched, without a key.
    pub const NOT_JUDGED: u8 = 3;
    /// The call that put it on a device's stream; when it ran was not recorded.
    pub const ENQUEUED: u8 = 4;
    /// In progress when the log ended.
    pub const IN_FLIGHT: u8 = 5;
    /// It failed.
    pub const FAILED: u8 = 6;
    /// Names in the order of their numbers.
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
    /// Building or leaving a communicator.
    pub const CONNECT: u8 = 1;
    /// A call that gives work to a device or a library.
    pub const LAUNCH: u8 = 2;
    /// A call that waits for a device.
    pub const DEVICE_WAIT: u8 = 3;
    /// Memory handled for communication.
    pub const MEMORY: u8 = 4;
    /// The library reported an error.
    pub const FAILURE: u8 = 5;
    /// Another profiler recorded, ours did not.
    pub const YIELDED: u8 = 6;
    /// Names in the order of their numbers.
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
    /// The recorder took it: CUPTI wrote, handed out and got buffers, instrumented kernels.
    pub const RECORDER: u8 = 0;
    /// The driver took it inside a call, as it would without a recorder: it compiled, it loaded, its queue was full.
    pub const DRIVER: u8 = 1;
    /// Names in the order of their numbers.
    pub const NAMES: [&str; 2] = ["recorder", "driver"];
}

/// Classes of [`LaneKind::Works`].
pub mod work {
    /// A kernel that is no communication's.
    pub const COMPUTE: u8 = 0;
    /// Of a communication library.
    pub const COMMUNICATION: u8 = 1;
    /// A copy or a set of memory.
    pub const MEMORY: u8 = 2;
    /// Names in the order of their numbers.
    pub const NAMES: [&str; 3] = ["compute", "communication", "memory"];
}

/// Classes of [`LaneKind::Steps`].
pub mod step {
    /// A training step.
    pub const TRAIN: u8 = 0;
    /// An evaluation.
    pub const EVALUATE: u8 = 1;
    /// A checkpoint.
    pub const CHECKPOINT: u8 = 2;
    /// Names in the order of their numbers.
    pub const NAMES: [&str; 3] = ["train", "evaluate", "checkpoint"];
}

#[cfg(test)]
mod tests;
