//! A c10d work object: queued on the thread that asked, executed on a worker. Both know it by its address, which is
//! used again at once: the reader joins on (address, time).

use crate::core::life;
use crate::core::stub::{Call, Narrow};
use crate::core::thread;
use crate::core::thread::ThreadState;
use crate::gloo::memory::read;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};

/// `ProcessGroupGloo::enqueue(intrusive_ptr<AsyncWork>)`: the argument behind `this` points to a temporary that holds
/// the work's address until the real function takes it.
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn enqueued(real: usize, arguments: &Narrow) -> usize {
    let thread = thread::state();
    let now = ticks();
    // Committed before the call: a worker may run and finish the work before it returns.
    let record = Record {
        operation: thread.process_group_operation.get(),
        enter_ticks: now,
        leave_ticks: now,
        // SAFETY: a live intrusive_ptr: one word.
        object: unsafe { read(arguments[1], 0) },
        ..Record::new(RecordKind::Issue)
    };
    life::commit(thread, &record);
    // SAFETY: handed through.
    unsafe { arguments.call(real) }
}

/// `AsyncWork::execute(intrusive_ptr<AsyncWork>)`, static, by value or by reference: the argument points to the word
/// that holds the work's address; after the call it may not any more.
///
/// # Safety
/// `real` and `arguments` must be this function's.
#[inline]
pub unsafe fn executed(real: usize, arguments: &Narrow) -> usize {
    let thread = thread::state();
    // SAFETY: as in `enqueued`.
    let work: u64 = unsafe { read(arguments[0], 0) };
    let record = Record {
        flags: FLAG_FAILED,
        enter_ticks: ticks(),
        object: work,
        ..Record::new(RecordKind::Execute)
    };
    if let Some((set, lane)) = life::lane(thread) {
        lane.enter(set, &record);
    }
    thread.work.set(work);
    thread.work_operation.set(0);
    thread.work_calls.set(0);
    let mut ending = Ending { thread, record };
    // SAFETY: handed through.
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
        self.thread.work.set(0);
        match life::lane(self.thread) {
            Some((set, lane)) => {
                lane.leave(set);
                lane.commit(set, &self.record);
            }
            None => life::commit(self.thread, &self.record),
        }
    }
}
