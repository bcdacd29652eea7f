//! State that a thread keeps between hooks: the core's, and a part for each adapter.
//!
//! All parts are in one block of thread-local storage. A hook looks its address up once, which costs a call into the
//! loader (about 6 ns), and passes it on. With a block per adapter it would pay that call twice. So the parts are here
//! and not beside their adapters' code: an adapter needs the whole, and folders must not import each other.
//!
//! No part has a destructor. A thread-local with a destructor panics when it is used after the destructor ran, and a
//! panic in a hook would crash the job.

mod cupti;
mod gloo;
mod nccl;
mod nvtx;
mod program;
mod torch;

use crate::core::thread_lane::ThreadLane;
use cupti::CuptiThread;
use gloo::GlooThread;
use nccl::NcclThread;
pub use nccl::{HeldSlot, OpenLaunch, STREAMS};
use nvtx::NvtxThread;
pub use nvtx::{NO_NUMBER, OpenRange, RANGES};
use program::ProgramThread;
pub use program::ProgramThreads;
use torch::TorchThread;
pub use torch::{FILES, OpenFile};

/// State of one thread.
pub struct ThreadState {
    /// The thread's lane.
    pub lane: ThreadLane,
    /// State of the Gloo hooks.
    pub gloo: GlooThread,
    /// State of the c10d hooks.
    pub torch: TorchThread,
    /// State of the NCCL hooks and of the profiler plugin.
    pub nccl: NcclThread,
    /// State of the CUPTI recording.
    pub cupti: CuptiThread,
    /// State of the NVTX functions.
    pub nvtx: NvtxThread,
    /// State of the functions of the program's own API.
    pub program: ProgramThread,
}

const _: () = assert!(!std::mem::needs_drop::<ThreadState>());

thread_local! {
    static STATE: ThreadState = const {
        ThreadState {
            lane: ThreadLane::new(),
            gloo: GlooThread::new(),
            torch: TorchThread::new(),
            nccl: NcclThread::new(),
            cupti: CuptiThread::new(),
            nvtx: NvtxThread::new(),
            program: ProgramThread::new(),
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
