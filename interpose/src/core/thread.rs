//! What a thread remembers between hooks. No field has a destructor: thread-locals with one panic when they are used
//! after it ran, and a panic in a hook is the job's crash.

use rankscope_ranklog::lanes::Lane;
use std::cell::Cell;
use std::ffi::c_void;

/// One thread's state.
pub struct ThreadState {
    /// The process life in which `lane` was taken; 0: none. Compared with the word that fork wipes.
    pub epoch: Cell<u32>,
    /// The thread's lane, or null.
    pub lane: Cell<*const Lane>,
    /// Nesting of Gloo collectives: messages inside one are not operations of their own.
    pub gloo_depth: Cell<u32>,
    /// Nesting of blocking waits: only the outermost is time that a training thread lost.
    pub blocked_depth: Cell<u32>,
    /// Nesting of c10d process-group calls: only the outermost names the operation.
    pub process_group_depth: Cell<u32>,
    /// Operation of the outermost process-group call, 0 outside one.
    pub process_group_operation: Cell<u8>,
    /// Work object that this worker thread is executing, 0 if none.
    pub work: Cell<u64>,
    /// Operation of the last library call inside that work, and how many calls of it there were before.
    pub work_operation: Cell<u8>,
    /// See `work_operation`.
    pub work_calls: Cell<u32>,
    /// The rendezvous in progress, or null: a frame of the adapter, on the stack of the hook that started it.
    pub connect: Cell<*mut c_void>,
    /// The sampler of the collective in progress, or null: a frame of the adapter, on the stack of the hook that
    /// started it.
    pub sampler: Cell<*mut c_void>,
    /// A context is being made from another one: the child's pointer as its constructor saw it.
    pub forked_context: Cell<usize>,
    /// Nesting of `ContextFactory::makeContext`.
    pub forking: Cell<u32>,
    /// Nesting of NCCL's calls: what the library calls itself is no operation of its own.
    pub nccl_depth: Cell<u32>,
    /// Nesting of NCCL's groups, and of the outermost one its number, operations so far, and start.
    pub nccl_group_depth: Cell<u32>,
    /// See `nccl_group_depth`.
    pub nccl_group: Cell<u32>,
    /// See `nccl_group_depth`.
    pub nccl_group_operations: Cell<u32>,
    /// See `nccl_group_depth`.
    pub nccl_group_start_ticks: Cell<u64>,
    /// NCCL communicators made in this group whose handles are not there yet.
    pub nccl_awaited: Cell<u32>,
    /// The call of NCCL in progress, as the plugin names it to the library; 0 outside one.
    pub nccl_call: Cell<u64>,
    /// Its communicator.
    pub nccl_handle: Cell<usize>,
    /// Operations that the library told the plugin of inside it.
    pub nccl_parts: Cell<u32>,
    /// Streams of the open group whose launches are timed, or are not: how many, and which.
    pub nccl_launches_open: Cell<u8>,
    /// See `nccl_launches_open`.
    pub nccl_launches: [Cell<OpenLaunch>; STREAMS],
    /// Nesting of our own calls to CUPTI, which may call itself by the names that we intercept.
    pub cupti_depth: Cell<u32>,
    /// This thread changes what CUPTI does.
    pub cupti_changes: Cell<bool>,
    /// Files of PyTorch's format that this thread has open.
    pub open_files: [Cell<OpenFile>; FILES],
    /// NVTX ranges that are open on this thread: how many, and the outer ones.
    pub nvtx_depth: Cell<u32>,
    /// See `nvtx_depth`.
    pub nvtx_ranges: [Cell<OpenRange>; RANGES],
}

/// Streams of one group whose launches are timed.
pub const STREAMS: usize = 8;

/// A slot of a pool of events that a call holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldSlot {
    /// Number of the pool.
    pub pool: u8,
    /// Number of the slot in it.
    pub slot: u8,
    /// Use of the slot, modulo 2^16.
    pub generation: u16,
}

/// A stream of the group that a thread has open, and the slot that times its launch.
#[derive(Clone, Copy)]
pub struct OpenLaunch {
    /// Handle of the stream.
    pub stream: usize,
    /// Index of the communicator.
    pub communicator: u32,
    /// The slot; `None` if the launch is not timed.
    pub held: Option<HeldSlot>,
    /// Another communicator uses this stream too. Events around both cannot separate their kernels.
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

/// Files of PyTorch's format that are remembered per thread.
pub const FILES: usize = 4;

/// A file that is being written or read.
#[derive(Clone, Copy)]
pub struct OpenFile {
    /// Address of its writer or reader; 0: none.
    pub object: usize,
    /// When it was opened.
    pub enter_ticks: u64,
}

impl OpenFile {
    /// No file.
    pub const NONE: Self = Self {
        object: 0,
        enter_ticks: 0,
    };
}

/// NVTX ranges that are remembered per thread; what is nested deeper is not kept.
pub const RANGES: usize = 32;

/// An NVTX range that was pushed and not popped.
#[derive(Clone, Copy)]
pub struct OpenRange {
    /// When it was pushed.
    pub enter_ticks: u64,
    /// Its domain.
    pub domain: u32,
    /// Number of its text plus one; 0: it is not kept.
    pub text_plus_one: u32,
    /// The number at the end of what it is called, [`NO_NUMBER`] if there is none.
    pub number: u32,
}

/// No number stands at the end of a text.
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

/// This thread's state. A plain block of thread-local storage: the pointer is good until the thread ends.
#[inline]
pub fn state() -> &'static ThreadState {
    // SAFETY: the state has no destructor and a constant initialiser, so it is there from the thread's first to its
    // last instruction; no hook keeps the reference beyond its own call, and `Cell` makes it unusable elsewhere.
    unsafe { &*STATE.with(std::ptr::from_ref) }
}
