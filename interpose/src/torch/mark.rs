//! Marks of PyTorch's work other than communication that costs time in each step, on the thread that does it.

use crate::core::stub::{Call, Narrow};
use crate::core::thread;
use crate::core::thread::ThreadState;
use crate::core::{life, texts};
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};

/// Records a mark `what` for the duration of the call.
///
/// # Safety
/// `real` and `arguments` must be this row's.
#[inline]
pub unsafe fn around(what: &'static str, real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { since(what, ticks(), real, arguments) }
}

/// Records a mark `what` from an earlier time to the end of the call.
///
/// # Safety
/// `real` and `arguments` must be this row's.
#[inline]
pub unsafe fn since(what: &'static str, enter_ticks: u64, real: usize, arguments: &Narrow) -> usize {
    let mut ending = Ending {
        thread: thread::state(),
        what,
        enter_ticks,
        flags: FLAG_FAILED,
    };
    // SAFETY: `real` is the function that this stub replaces, and `arguments` are the caller's own, forwarded
    // unchanged.
    let result = unsafe { arguments.call(real) };
    ending.flags = 0;
    result
}

/// Records the mark, also if an exception leaves the call.
struct Ending {
    thread: &'static ThreadState,
    what: &'static str,
    enter_ticks: u64,
    flags: u8,
}

impl Drop for Ending {
    #[inline(always)]
    fn drop(&mut self) {
        let leave_ticks = ticks();
        // Processes that never communicate also read and write files. They must not start a log.
        if life::definitions().is_none() {
            return;
        }
        let Some(number) = texts::number(&[self.what.as_bytes()]) else {
            return;
        };
        if !texts::write_down(number) {
            return;
        }
        let record = Record {
            flags: self.flags,
            enter_ticks: self.enter_ticks,
            leave_ticks,
            object: u64::from(number),
            ..Record::new(RecordKind::Mark)
        };
        life::commit(self.thread, &record);
    }
}
