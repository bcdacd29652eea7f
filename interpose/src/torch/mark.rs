//! Marks of PyTorch's work other than communication that costs time in each step, on the thread that does it.

use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::Narrow;
use crate::core::{life, texts};
use crate::thread;
use crate::thread::ThreadState;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};

/// Records a mark `what` for the duration of the call.
#[inline]
pub fn around(what: &'static str, call: RealCall<'_, Narrow>) -> Returned {
    since(what, ticks(), call)
}

/// Records a mark `what` from an earlier time to the end of the call.
#[inline]
pub fn since(what: &'static str, enter_ticks: u64, call: RealCall<'_, Narrow>) -> Returned {
    let mut ending = Ending {
        thread: thread::state(),
        what,
        enter_ticks,
        flags: FLAG_FAILED,
    };
    let result = call.forward();
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
        life::commit(&self.thread.lane, &record);
    }
}
