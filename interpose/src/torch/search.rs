//! What DistributedDataParallel does beside communicating, and what costs time in each step: a mark on the thread that does
//! it.

use crate::stub::{Call, Narrow};
use crate::thread::{self, ThreadState};
use crate::{life, texts};
use rankscope_formats::ranklog::clock::ticks;
use rankscope_formats::ranklog::marks::UNUSED_SEARCH;
use rankscope_formats::ranklog::record::{FLAG_FAILED, Record, RecordKind};

/// `Reducer::search_unused_parameters(outputs)`: called after each forward pass if parameters may be unused, and only
/// then.
///
/// # Safety
/// `real` and `arguments` must be this row's.
#[inline]
pub unsafe fn unused_parameters(real: usize, arguments: &Narrow) -> usize {
    let mut ending = Ending {
        thread: thread::state(),
        enter_ticks: ticks(),
        flags: FLAG_FAILED,
    };
    // SAFETY: handed through.
    let result = unsafe { arguments.call(real) };
    ending.flags = 0;
    result
}

struct Ending {
    thread: &'static ThreadState,
    enter_ticks: u64,
    flags: u8,
}

impl Drop for Ending {
    #[inline(always)]
    fn drop(&mut self) {
        let leave_ticks = ticks();
        let Some(number) = texts::number(&[UNUSED_SEARCH.as_bytes()]) else {
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
