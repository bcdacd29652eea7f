//! Asynchronous errors, which occur after a call has returned. Frameworks poll for them.

use super::{communicators as nccl_communicators, result};
use crate::core::communicators;
use crate::core::life;
use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::Narrow;
use crate::thread;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};

/// Hook of `ncclCommGetAsyncError(communicator, error)`. It records a `Failure` when the answer is an error that
/// differs from the communicator's previous one.
pub fn asked(call: RealCall<'_, Narrow>) -> Returned {
    let enter_ticks = ticks();
    let [handle, error, ..] = *call.arguments();
    let returned = call.forward();
    let thread = thread::state();
    if thread.nccl.depth.get() > 0 || returned.as_u32() != result::SUCCESS || error == 0 {
        return returned;
    }
    // SAFETY: the address is not null. The library reported success, so it has just written its answer there.
    let answer = unsafe { (error as *const u32).read() };
    if answer != result::IN_PROGRESS {
        // The program polls here until the communicators that it creates exist.
        // SAFETY: a program that waits for a handle keeps the variable for it until it gets this answer.
        unsafe { nccl_communicators::polled(handle) };
    }
    if result::is_fine(answer) {
        return returned;
    }
    if let Some(entry) = communicators::find(handle)
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
        life::commit(&thread.lane, &record);
    }
    returned
}
