//! Errors that come after a call has returned: frameworks ask for them, over and over.

use super::{communicators as nccl_communicators, result};
use crate::core::communicators;
use crate::core::life;
use crate::core::stub::{Call, Narrow};
use crate::core::thread;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};

/// `ncclCommGetAsyncError(communicator, error)`. An answer is recorded once per communicator and error.
///
/// # Safety
/// `real` and `arguments` must be this function's.
pub unsafe fn asked(real: usize, arguments: &Narrow) -> usize {
    let enter_ticks = ticks();
    // SAFETY: handed through.
    let returned = unsafe { arguments.call(real) };
    let thread = thread::state();
    if thread.nccl_depth.get() > 0 || result::of(returned) != result::SUCCESS || arguments[1] == 0 {
        return returned;
    }
    // SAFETY: the library has just written its answer there.
    let answer = unsafe { (arguments[1] as *const u32).read() };
    if answer != result::IN_PROGRESS {
        // The program polls here until what it makes is there.
        // SAFETY: where it waits for a handle it keeps the place of it until it has been told.
        unsafe { nccl_communicators::polled(arguments[0]) };
    }
    if result::is_fine(answer) {
        return returned;
    }
    if let Some(entry) = communicators::find(arguments[0])
        && entry.is_new_failure(answer)
    {
        let record = Record {
            flags: FLAG_FAILED,
            enter_ticks,
            leave_ticks: ticks(),
            communicator: entry.index(),
            tag: answer,
            ..Record::new(RecordKind::Failure)
        };
        life::commit(thread, &record);
    }
    returned
}
