//! What PyTorch does beside communicating, and what costs time in each step: a mark on the thread that does it.

use crate::core::stub::{Call, Narrow};
use crate::core::thread;
use crate::core::thread::ThreadState;
use crate::core::{life, texts};
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};

/// Marks `what` for as long as the call takes.
///
/// # Safety
/// `real` and `arguments` must be this row's.
#[inline]
pub unsafe fn around(what: &'static str, real: usize, arguments: &Narrow) -> usize {
    // SAFETY: the caller's.
    unsafe { since(what, ticks(), real, arguments) }
}

/// Marks `what` from a moment before the call to its end.
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
    // SAFETY: handed through.
    let result = unsafe { arguments.call(real) };
    ending.flags = 0;
    result
}

/// Writes the mark, also where the call is left by an exception.
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
        // Files are read and written also by processes that never communicate: they must not become logs.
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
