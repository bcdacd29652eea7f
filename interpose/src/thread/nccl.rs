//! State of NCCL's hooks and of its profiler plugin in one thread.

use std::cell::Cell;

/// Maximum number of streams of one group whose launches are timed.
pub const STREAMS: usize = 8;

/// State of NCCL's hooks and of its profiler plugin in one thread.
pub struct NcclThread {
    /// Nesting depth of calls. A call that the library makes itself is not a separate operation.
    pub depth: Cell<u32>,
    /// Nesting depth of groups.
    pub group_depth: Cell<u32>,
    /// Number of the outermost group.
    pub group: Cell<u32>,
    /// Number of operations so far in the outermost group.
    pub group_operations: Cell<u32>,
    /// Start of the outermost group.
    pub group_start_ticks: Cell<u64>,
    /// Number of communicators created in this group whose handles do not exist yet.
    pub awaited: Cell<u32>,
    /// Call in progress, as the plugin names it to the library; 0 outside one.
    pub call: Cell<u64>,
    /// Communicator of `call`.
    pub handle: Cell<usize>,
    /// Number of operations that the library reported to the plugin inside `call`.
    pub parts: Cell<u32>,
    /// Number of streams of the open group in `launches`.
    pub launches_open: Cell<u8>,
    /// Streams of the open group, whether their launches are timed or not.
    pub launches: [Cell<OpenLaunch>; STREAMS],
}

impl NcclThread {
    pub(super) const fn new() -> Self {
        Self {
            depth: Cell::new(0),
            group_depth: Cell::new(0),
            group: Cell::new(0),
            group_operations: Cell::new(0),
            group_start_ticks: Cell::new(0),
            awaited: Cell::new(0),
            call: Cell::new(0),
            handle: Cell::new(0),
            parts: Cell::new(0),
            launches_open: Cell::new(0),
            launches: [const { Cell::new(OpenLaunch::NONE) }; STREAMS],
        }
    }
}

/// Slot of an event pool that a call holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldSlot {
    /// Number of the pool.
    pub pool: u8,
    /// Number of the slot in the pool.
    pub slot: u8,
    /// Number of the slot's use, modulo 2^16.
    pub generation: u16,
}

/// Stream of a thread's open group, and the slot that times its launch.
#[derive(Clone, Copy)]
pub struct OpenLaunch {
    /// Handle of the stream.
    pub stream: usize,
    /// Index of the communicator.
    pub communicator: u32,
    /// The slot; `None` if the launch is not timed.
    pub held: Option<HeldSlot>,
    /// True if another communicator uses this stream too. Events around both cannot separate their kernels.
    pub is_mixed: bool,
}

impl OpenLaunch {
    /// No stream.
    pub const NONE: Self = Self {
        stream: 0,
        communicator: 0,
        held: None,
        is_mixed: false,
    };
}
