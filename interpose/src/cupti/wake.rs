//! Wakes the CUPTI thread.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Number of wakes so far; a futex word.
pub(super) static WAKE: AtomicU32 = AtomicU32::new(0);

/// Waits on a word, or wakes its waiters.
pub(super) fn futex(word: &AtomicU32, operation: i32, value: u32, limit: Option<Duration>) {
    let time = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the time live through the call. An early return only shortens a wait.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            time,
        );
    }
}

/// Makes the CUPTI thread check for work at once.
pub fn wake() {
    WAKE.fetch_add(1, Ordering::AcqRel);
    futex(&WAKE, libc::FUTEX_WAKE, i32::MAX as u32, None);
}
