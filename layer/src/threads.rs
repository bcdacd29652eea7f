//! State of a thread for this crate's own recorder.

use rankscope_recorder::api::{Thread, Threads};
use rankscope_recorder::collectives::CollectiveThread;
use rankscope_recorder::marks::MarkThread;
use rankscope_recorder::thread_lane::ThreadLane;

struct OwnThread {
    lane: ThreadLane,
    marks: MarkThread,
    collective: CollectiveThread,
}

// A destructor would make the state unusable while other thread-locals are destroyed.
const _: () = assert!(!std::mem::needs_drop::<OwnThread>());

thread_local! {
    static THREAD: OwnThread = const {
        OwnThread {
            lane: ThreadLane::new(),
            marks: MarkThread::new(),
            collective: CollectiveThread::new(),
        }
    };
}

/// The threads of this process.
pub struct OwnThreads;

impl Threads for OwnThreads {
    #[inline]
    fn current() -> Thread {
        // SAFETY: the state has no destructor and a constant initialiser, so it exists from the thread's first to its last
        // instruction. `Thread` is used by one call of its own thread only, and `Cell` is not `Sync`.
        let thread: &'static OwnThread = unsafe { &*THREAD.with(std::ptr::from_ref) };
        Thread {
            lane: &thread.lane,
            marks: &thread.marks,
            collective: &thread.collective,
        }
    }
}
