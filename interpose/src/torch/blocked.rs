//! Time for which communication blocks a training thread.
//!
//! Only the outermost wait of a thread counts. A wait while a work is executed belongs to the worker: a barrier waits
//! there for earlier works.

use crate::core::held_lane::HeldLane;
use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::Narrow;
use crate::thread;
use crate::thread::ThreadState;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{BlockedIn, FLAG_FAILED, Record, RecordKind};

/// Hook of `Work::wait(timeout)` and its overrides; `this` is the work. It records a `Blocked` interval when the call
/// ends.
#[inline]
pub fn in_work(place: BlockedIn, call: RealCall<'_, Narrow>) -> Returned {
    let [work, ..] = *call.arguments();
    blocked(place, work as u64, call)
}

/// Hook of a blocking function that does not wait for one work. It records a `Blocked` interval when the call ends.
#[inline]
pub fn elsewhere(place: BlockedIn, call: RealCall<'_, Narrow>) -> Returned {
    blocked(place, 0, call)
}

/// Calls the real function and records the interval, unless this wait does not count.
#[inline]
fn blocked(place: BlockedIn, object: u64, call: RealCall<'_, Narrow>) -> Returned {
    let thread = thread::state();
    let depth = thread.torch.blocked_depth.get();
    if depth > 0 || thread.torch.work.get() != 0 {
        return call.forward();
    }
    thread.torch.blocked_depth.set(1);
    let record = Record {
        flags: FLAG_FAILED,
        enter_ticks: ticks(),
        object,
        aux: place as u64,
        ..Record::new(RecordKind::Blocked)
    };
    let lane = HeldLane::enter(&thread.lane, &record);
    let mut ending = Ending { thread, record, lane };
    let result = call.forward();
    ending.record.flags = 0;
    result
}

struct Ending {
    thread: &'static ThreadState,
    record: Record,
    lane: HeldLane,
}

impl Drop for Ending {
    #[inline(always)]
    fn drop(&mut self) {
        self.record.leave_ticks = ticks();
        self.thread.torch.blocked_depth.set(0);
        self.lane.finish(&self.thread.lane, &self.record);
    }
}
