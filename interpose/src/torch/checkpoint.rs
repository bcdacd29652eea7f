//! Files of PyTorch's own format: a mark on the thread that writes or reads one, from where it was opened to its end.
//!
//! The objects are known by their address. One that ends on another thread than it began, or is more than a few deep,
//! leaves a mark of its end alone.

use super::mark;
use crate::core::stub::{Call, Narrow};
use crate::core::thread;
use crate::core::thread::{OpenFile, ThreadState};
use rankscope_ranklog::clock::ticks;

/// `PyTorchStreamWriter(…)` and `PyTorchStreamReader(…)`: `this` is opened.
///
/// # Safety
/// `real` and `arguments` must be this row's.
#[inline]
pub unsafe fn opened(real: usize, arguments: &Narrow) -> usize {
    let enter_ticks = ticks();
    // SAFETY: handed through.
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

/// `PyTorchStreamWriter::writeEndOfFile()` or `~PyTorchStreamReader()`: `this` is done with.
///
/// # Safety
/// `real` and `arguments` must be this row's.
#[inline]
pub unsafe fn ended(what: &'static str, real: usize, arguments: &Narrow) -> usize {
    let enter_ticks = take(thread::state(), arguments[0]).unwrap_or_else(ticks);
    // SAFETY: the caller's.
    unsafe { mark::since(what, enter_ticks, real, arguments) }
}

/// When an object was opened on this thread, if it was; it is open no more.
fn take(thread: &ThreadState, object: usize) -> Option<u64> {
    let place = thread
        .open_files
        .iter()
        .find(|file| file.get().object == object)?;
    Some(place.replace(OpenFile::NONE).enter_ticks)
}
