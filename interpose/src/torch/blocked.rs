//! Time for which communication blocks a training thread.
//!
//! Only the outermost wait of a thread counts. A wait while a work is executed belongs to the worker: a barrier waits
//! there for earlier works.

use crate::core::life;
use crate::core::stub::{Call, Narrow};
use crate::core::thread;
use crate::core::thread::ThreadState;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{BlockedIn, FLAG_FAILED, Record, RecordKind};

/// Hook of `Work::wait(timeout)` and its overrides; `this` is the work. It records a `Blocked` interval when the call
/// ends.
///
/// # Safety
/// `real` and `arguments` must be this row's.
#[inline]
pub unsafe fn in_work(place: BlockedIn, real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { blocked(place, arguments[0] as u64, real, arguments) }
}

/// Hook of a blocking function that does not wait for one work. It records a `Blocked` interval when the call ends.
///
/// # Safety
/// `real` and `arguments` must be this row's.
#[inline]
pub unsafe fn elsewhere(place: BlockedIn, real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { blocked(place, 0, real, arguments) }
}

/// Calls the real function and records the interval, unless this wait does not count.
///
/// # Safety
/// `real` and `arguments` must be this row's.
#[inline]
unsafe fn blocked(place: BlockedIn, object: u64, real: usize, arguments: &Narrow) -> usize {
    let thread = thread::state();
    let depth = thread.blocked_depth.get();
    if depth > 0 || thread.work.get() != 0 {
        // SAFETY: `real` is the function that this stub replaces, and `arguments` are the caller's own, forwarded
        // unchanged.
        return unsafe { arguments.call(real) };
    }
    thread.blocked_depth.set(1);
    let record = Record {
        flags: FLAG_FAILED,
        enter_ticks: ticks(),
        object,
        aux: place as u64,
        ..Record::new(RecordKind::Blocked)
    };
    if let Some((set, lane)) = life::lane(thread) {
        lane.enter(set, &record);
    }
    let mut ending = Ending { thread, record };
    // SAFETY: `real` is the function that this stub replaces, and `arguments` are the caller's own, forwarded
    // unchanged.
    let result = unsafe { arguments.call(real) };
    ending.record.flags = 0;
    result
}

struct Ending {
    thread: &'static ThreadState,
    record: Record,
}

impl Drop for Ending {
    #[inline(always)]
    fn drop(&mut self) {
        self.record.leave_ticks = ticks();
        self.thread.blocked_depth.set(0);
        match life::lane(self.thread) {
            Some((set, lane)) => {
                lane.leave(set);
                lane.commit(set, &self.record);
            }
            None => life::commit(self.thread, &self.record),
        }
    }
}
