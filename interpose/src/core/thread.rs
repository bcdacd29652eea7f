//! State that a thread keeps between hooks.
//!
//! No field has a destructor. A thread-local with a destructor panics when it is used after the destructor ran, and a
//! panic in a hook would crash the job.

use rankscope_ranklog::lanes::Lane;
use std::cell::Cell;
use std::ffi::c_void;

/// State of one thread.
pub struct ThreadState {
    /// Process life in which `lane` was taken; 0 for none. It is compared with the word that fork wipes.
    pub epoch: Cell<u32>,
    /// The thread's lane, or null.
    pub lane: Cell<*const Lane>,
    /// Nesting depth of Gloo collectives. Messages inside a collective are not separate operations.
    pub gloo_depth: Cell<u32>,
    /// Nesting depth of blocking waits. Only the outermost wait is time that a training thread lost.
    pub blocked_depth: Cell<u32>,
    /// Nesting depth of c10d process-group calls. Only the outermost call names the operation.
    pub process_group_depth: Cell<u32>,
    /// Operation of the outermost process-group call; 0 outside one.
    pub process_group_operation: Cell<u8>,
    /// Work object that this worker thread executes; 0 if none.
    pub work: Cell<u64>,
    /// Operation of the last library call inside that work.
    pub work_operation: Cell<u8>,
    /// Number of calls of `work_operation` inside that work before the last one.
    pub work_calls: Cell<u32>,
    /// Rendezvous in progress, or null: a frame of the adapter, on the stack of the hook that started it.
    pub connect: Cell<*mut c_void>,
    /// Sampler of the collective in progress, or null: a frame of the adapter, on the stack of the hook that started
    /// it.
    pub sampler: Cell<*mut c_void>,
    /// While a context is created from another one: the new context's pointer as its constructor saw it.
    pub forked_context: Cell<usize>,
    /// Nesting depth of `ContextFactory::makeContext`.
    pub forking: Cell<u32>,
    /// Nesting depth of NCCL calls. A call that the library makes itself is not a separate operation.
    pub nccl_depth: Cell<u32>,
    /// Nesting depth of NCCL groups.
    pub nccl_group_depth: Cell<u32>,
    /// Number of the outermost NCCL group.
    pub nccl_group: Cell<u32>,
    /// Number of operations so far in the outermost NCCL group.
    pub nccl_group_operations: Cell<u32>,
    /// Start of the outermost NCCL group.
    pub nccl_group_start_ticks: Cell<u64>,
    /// Number of NCCL communicators created in this group whose handles do not exist yet.
    pub nccl_awaited: Cell<u32>,
    /// NCCL call in progress, as the plugin names it to the library; 0 outside one.
    pub nccl_call: Cell<u64>,
    /// Communicator of `nccl_call`.
    pub nccl_handle: Cell<usize>,
    /// Number of operations that the library reported to the plugin inside `nccl_call`.
    pub nccl_parts: Cell<u32>,
    /// Number of streams of the open group in `nccl_launches`.
    pub nccl_launches_open: Cell<u8>,
    /// Streams of the open group, whether their launches are timed or not.
    pub nccl_launches: [Cell<OpenLaunch>; STREAMS],
    /// Nesting depth of this library's calls to CUPTI. CUPTI may call itself through names that this library
    /// intercepts.
    pub cupti_depth: Cell<u32>,
    /// True while this thread changes CUPTI's configuration.
    pub cupti_changes: Cell<bool>,
    /// Files in PyTorch's format that this thread has open.
    pub open_files: [Cell<OpenFile>; FILES],
    /// Number of NVTX ranges that are open on this thread.
    pub nvtx_depth: Cell<u32>,
    /// The outermost open NVTX ranges.
    pub nvtx_ranges: [Cell<OpenRange>; RANGES],
}

/// Maximum number of streams of one group whose launches are timed.
pub const STREAMS: usize = 8;

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

/// Maximum number of open files in PyTorch's format that are remembered per thread.
pub const FILES: usize = 4;

/// File that is being written or read.
#[derive(Clone, Copy)]
pub struct OpenFile {
    /// Address of the file's writer or reader; 0 for none.
    pub object: usize,
    /// Time at which the file was opened.
    pub enter_ticks: u64,
}

impl OpenFile {
    /// No file.
    pub const NONE: Self = Self {
        object: 0,
        enter_ticks: 0,
    };
}

/// Maximum number of open NVTX ranges per thread. Ranges that are nested deeper are not kept.
pub const RANGES: usize = 32;

/// NVTX range that was pushed and not yet popped.
#[derive(Clone, Copy)]
pub struct OpenRange {
    /// Time at which the range was pushed.
    pub enter_ticks: u64,
    /// Domain of the range.
    pub domain: u32,
    /// Number of the range's text plus one; 0 if the text is not kept.
    pub text_plus_one: u32,
    /// Number at the end of the range's text; [`NO_NUMBER`] if there is none.
    pub number: u32,
}

/// The text does not end with a number.
pub const NO_NUMBER: u32 = u32::MAX;

thread_local! {
    static STATE: ThreadState = const {
        ThreadState {
            epoch: Cell::new(0),
            lane: Cell::new(std::ptr::null()),
            gloo_depth: Cell::new(0),
            blocked_depth: Cell::new(0),
            process_group_depth: Cell::new(0),
            process_group_operation: Cell::new(0),
            work: Cell::new(0),
            work_operation: Cell::new(0),
            work_calls: Cell::new(0),
            connect: Cell::new(std::ptr::null_mut()),
            sampler: Cell::new(std::ptr::null_mut()),
            forked_context: Cell::new(0),
            forking: Cell::new(0),
            nccl_depth: Cell::new(0),
            nccl_group_depth: Cell::new(0),
            nccl_group: Cell::new(0),
            nccl_group_operations: Cell::new(0),
            nccl_group_start_ticks: Cell::new(0),
            nccl_awaited: Cell::new(0),
            nccl_call: Cell::new(0),
            nccl_handle: Cell::new(0),
            nccl_parts: Cell::new(0),
            nccl_launches_open: Cell::new(0),
            nccl_launches: [const { Cell::new(OpenLaunch::NONE) }; STREAMS],
            cupti_depth: Cell::new(0),
            cupti_changes: Cell::new(false),
            open_files: [const { Cell::new(OpenFile::NONE) }; FILES],
            nvtx_depth: Cell::new(0),
            nvtx_ranges: [const {
                Cell::new(OpenRange {
                    enter_ticks: 0,
                    domain: 0,
                    text_plus_one: 0,
                    number: NO_NUMBER,
                })
            }; RANGES],
        }
    };
}

/// Returns this thread's state, a plain block of thread-local storage. The pointer is valid until the thread ends.
#[inline]
pub fn state() -> &'static ThreadState {
    // SAFETY: the state has no destructor and a constant initialiser, so it exists from the thread's first to its last
    // instruction. No hook keeps the reference after its own call. `Cell` is not `Sync`, so no other thread can use it.
    unsafe { &*STATE.with(std::ptr::from_ref) }
}
