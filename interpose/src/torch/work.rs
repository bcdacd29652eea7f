//! A c10d work object: it is queued on the requesting thread and executed on a worker. Both hooks identify it by its
//! address. Addresses are reused at once, so the reader joins on address and time.

use crate::core::held_lane::HeldLane;
use crate::core::life;
use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::Narrow;
use crate::thread;
use crate::thread::ThreadState;
use rankscope_gloo_abi::memory::read;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};

/// Hook of `ProcessGroupGloo::enqueue(intrusive_ptr<AsyncWork>)`. It records an `Issue` before the call. The argument
/// after `this` points to a temporary. The temporary contains the work's address until the real function takes it.
#[inline]
pub fn enqueued(call: RealCall<'_, Narrow>) -> Returned {
    let [_, work, ..] = *call.arguments();
    let thread = thread::state();
    let now = ticks();
    // The record is committed before the call, because a worker may finish the work before the call returns.
    let record = Record {
        operation: thread.torch.process_group_operation.get(),
        enter_ticks: now,
        leave_ticks: now,
        // SAFETY: the argument points to the caller's intrusive_ptr, one word, which is alive before the real call.
        object: unsafe { read(work, 0) },
        ..Record::new(RecordKind::Issue)
    };
    life::commit(&thread.lane, &record);
    call.forward()
}

/// Hook of `AsyncWork::execute(intrusive_ptr<AsyncWork>)`, a static function with its argument by value or by
/// reference. It records an `Execute` when the call ends. The argument points to the word that contains the work's
/// address. After the call the word may not contain it any more.
#[inline]
pub fn executed(call: RealCall<'_, Narrow>) -> Returned {
    let thread = thread::state();
    // SAFETY: the argument points to the caller's intrusive_ptr, one word, which is alive before the real call.
    let work: u64 = unsafe { read(call.arguments()[0], 0) };
    let record = Record {
        flags: FLAG_FAILED,
        enter_ticks: ticks(),
        object: work,
        ..Record::new(RecordKind::Execute)
    };
    let lane = HeldLane::enter(&thread.lane, &record);
    thread.torch.work.set(work);
    thread.torch.work_operation.set(0);
    thread.torch.work_calls.set(0);
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
        self.thread.torch.work.set(0);
        self.lane.finish(&self.thread.lane, &self.record);
    }
}
