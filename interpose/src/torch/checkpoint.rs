//! Files of PyTorch's own format: a mark on the thread that writes or reads one, from where it was opened to its end.
//!
//! The objects are known by their address. One that ends on another thread than it began, or is more than a few deep,
//! leaves a mark of its end alone.

use crate::stub::{Call, Narrow};
use crate::thread::{self, OpenFile, ThreadState};
use crate::{life, texts};
use rankscope_formats::ranklog::clock::ticks;
use rankscope_formats::ranklog::record::{FLAG_FAILED, Record, RecordKind};

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
    let thread = thread::state();
    let mut ending = Ending {
        thread,
        what,
        enter_ticks: take(thread, arguments[0]).unwrap_or_else(ticks),
        flags: FLAG_FAILED,
    };
    // SAFETY: handed through.
    let result = unsafe { arguments.call(real) };
    ending.flags = 0;
    result
}

/// `Reducer::prepare_for_forward()`: nothing but the moment counts.
///
/// # Safety
/// `real` and `arguments` must be this row's.
#[inline]
pub unsafe fn forward_begins(what: &'static str, real: usize, arguments: &Narrow) -> usize {
    let mut ending = Ending {
        thread: thread::state(),
        what,
        enter_ticks: ticks(),
        flags: FLAG_FAILED,
    };
    // SAFETY: handed through.
    let result = unsafe { arguments.call(real) };
    ending.flags = 0;
    result
}

/// When an object was opened on this thread, if it was; it is open no more.
fn take(thread: &ThreadState, object: usize) -> Option<u64> {
    let place = thread
        .open_files
        .iter()
        .find(|file| file.get().object == object)?;
    Some(place.replace(OpenFile::NONE).enter_ticks)
}

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
