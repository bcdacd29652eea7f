//! Asynchronous errors, which occur after a call has returned. Frameworks poll for them.

use super::{communicators as nccl_communicators, result};
use crate::core::communicators;
use crate::core::life;
use crate::core::stub::{Call, Narrow};
use crate::core::thread;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};

/// Hook of `ncclCommGetAsyncError(communicator, error)`. It records a `Failure` when the answer is an error that
/// differs from the communicator's previous one.
///
/// # Safety
/// `real` and `arguments` must be this function's.
pub unsafe fn asked(real: usize, arguments: &Narrow) -> usize {
    let enter_ticks = ticks();
    // SAFETY: `real` is the function that this stub replaces, and `arguments` are the caller's own, forwarded
    // unchanged.
    let returned = unsafe { arguments.call(real) };
    let thread = thread::state();
    if thread.nccl_depth.get() > 0 || result::of(returned) != result::SUCCESS || arguments[1] == 0 {
        return returned;
    }
    // SAFETY: the address is not null. The library reported success, so it has just written its answer there.
    let answer = unsafe { (arguments[1] as *const u32).read() };
    if answer != result::IN_PROGRESS {
        // The program polls here until the communicators that it creates exist.
        // SAFETY: a program that waits for a handle keeps the variable for it until it gets this answer.
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
