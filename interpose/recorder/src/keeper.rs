//! The keeper: a thread that leaves last if the program's main thread has left by `pthread_exit`.
//!
//! Such a program ends with its last thread, and that thread writes the program's buffered output. The recorder's
//! thread must not be the last one, because it has a separate descriptor table. The keeper has the program's
//! descriptors, waits, does nothing else, and leaves last.

use super::own_thread::spawn;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// State of the keeper, a futex word: one of the constants below.
static STATE: AtomicU32 = AtomicU32::new(ABSENT);
const ABSENT: u32 = 0;
const WAITS: u32 = 1;
/// The keeper leaves as the last thread of the process.
const LEAVES_LAST: u32 = 2;
/// The keeper leaves at once.
const LEAVES: u32 = 3;
const STACK_BYTES: usize = 64 << 10;

/// Announces the keeper. Call this before the recorder's thread exists, because that thread releases the keeper.
pub fn announce() {
    STATE.store(WAITS, Ordering::Release);
}

/// Withdraws the announcement. No keeper will start.
pub fn withdraw() {
    STATE.store(ABSENT, Ordering::Release);
}

/// Starts the announced keeper.
pub fn start() {
    if !spawn(keep, STACK_BYTES) {
        withdraw();
    }
}

/// Returns true while the keeper waits.
pub fn is_waiting() -> bool {
    STATE.load(Ordering::Acquire) == WAITS
}

/// Releases the keeper. It leaves at once, or, if no thread of the program is left, as the last thread.
pub fn release(is_last: bool) {
    STATE.store(if is_last { LEAVES_LAST } else { LEAVES }, Ordering::Release);
    // SAFETY: the call wakes the waiters on STATE, which is a static and always valid.
    unsafe { libc::syscall(libc::SYS_futex, STATE.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

extern "C" fn keep(_: *mut c_void) -> *mut c_void {
    // SAFETY: PR_SET_NAME reads a NUL-terminated static string. On failure the thread keeps its old name.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"rankscope-keep".as_ptr()) };
    while is_waiting() {
        // SAFETY: the call waits on STATE, which is a static and always valid. The null timeout means no limit.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                STATE.as_ptr(),
                libc::FUTEX_WAIT,
                WAITS,
                std::ptr::null::<libc::timespec>(),
            );
        }
    }
    if STATE.load(Ordering::Acquire) != LEAVES_LAST {
        return std::ptr::null_mut();
    }
    // The recorder's thread leaves first. It needs some microseconds, but may wait for a processor.
    for _ in 0..1000 {
        if rankscope_ranklog::process::only_own_threads_are_left(1) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::ptr::null_mut()
}
