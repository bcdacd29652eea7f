//! Files in PyTorch's own format: a mark on the thread that writes or reads one, from its opening to its end.
//!
//! An object is identified by its address. If it ends on another thread, or if too many are open, its mark covers only
//! its end.

use super::mark;
use crate::core::stub::{Call, Narrow};
use crate::core::thread;
use crate::core::thread::{OpenFile, ThreadState};
use rankscope_ranklog::clock::ticks;

/// Hook of `PyTorchStreamWriter(…)` and `PyTorchStreamReader(…)`. It stores the time at which `this` was opened; the
/// mark follows at the end.
///
/// # Safety
/// `real` and `arguments` must be this row's.
#[inline]
pub unsafe fn opened(real: usize, arguments: &Narrow) -> usize {
    let enter_ticks = ticks();
    // SAFETY: `real` is the function that this stub replaces, and `arguments` are the caller's own, forwarded
    // unchanged.
    let result = unsafe { arguments.call(real) };
    let files = &thread::state().open_files;
    let place = files
        .iter()
        .find(|file| file.get().object == arguments[0])
        .or_else(|| files.iter().find(|file| file.get().object == 0));
    if let Some(place) = place {
        place.set(OpenFile {
            object: arguments[0],
            enter_ticks,
        });
    }
    result
}

/// Hook of `PyTorchStreamWriter::writeEndOfFile()` and `~PyTorchStreamReader()`. When the call ends, it records a mark
/// from the opening of `this`.
///
/// # Safety
/// `real` and `arguments` must be this row's.
#[inline]
pub unsafe fn ended(what: &'static str, real: usize, arguments: &Narrow) -> usize {
    let enter_ticks = take(thread::state(), arguments[0]).unwrap_or_else(ticks);
    // SAFETY: the caller guarantees that `real` and `arguments` belong together; both are passed on unchanged.
    unsafe { mark::since(what, enter_ticks, real, arguments) }
}

/// Removes an object from this thread's open files, and returns the time at which it was opened.
fn take(thread: &ThreadState, object: usize) -> Option<u64> {
    let place = thread
        .open_files
        .iter()
        .find(|file| file.get().object == object)?;
    Some(place.replace(OpenFile::NONE).enter_ticks)
}
