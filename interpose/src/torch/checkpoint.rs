//! Files in PyTorch's own format: a mark on the thread that writes or reads one, from its opening to its end.
//!
//! An object is identified by its address. If it ends on another thread, or if too many are open, its mark covers only
//! its end.

use super::mark;
use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::Narrow;
use crate::thread;
use crate::thread::{OpenFile, ThreadState};
use rankscope_ranklog::clock::ticks;

/// Hook of `PyTorchStreamWriter(…)` and `PyTorchStreamReader(…)`. It stores the time at which `this` was opened; the
/// mark follows at the end.
#[inline]
pub fn opened(call: RealCall<'_, Narrow>) -> Returned {
    let enter_ticks = ticks();
    let [object, ..] = *call.arguments();
    let result = call.forward();
    let files = &thread::state().torch.open_files;
    let place = files
        .iter()
        .find(|file| file.get().object == object)
        .or_else(|| files.iter().find(|file| file.get().object == 0));
    if let Some(place) = place {
        place.set(OpenFile { object, enter_ticks });
    }
    result
}

/// Hook of `PyTorchStreamWriter::writeEndOfFile()` and `~PyTorchStreamReader()`. When the call ends, it records a mark
/// from the opening of `this`.
#[inline]
pub fn ended(what: &'static str, call: RealCall<'_, Narrow>) -> Returned {
    let enter_ticks = take(thread::state(), call.arguments()[0]).unwrap_or_else(ticks);
    mark::since(what, enter_ticks, call)
}

/// Removes an object from this thread's open files, and returns the time at which it was opened.
fn take(thread: &ThreadState, object: usize) -> Option<u64> {
    let place = thread
        .torch
        .open_files
        .iter()
        .find(|file| file.get().object == object)?;
    Some(place.replace(OpenFile::NONE).enter_ticks)
}
