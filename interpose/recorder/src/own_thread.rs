//! Threads of the library: detached, with all signals blocked.

use std::ffi::c_void;

/// Starts a thread with every signal blocked, so that it never takes a signal that is meant for the job.
pub fn spawn(run: extern "C" fn(*mut c_void) -> *mut c_void, stack_bytes: usize) -> bool {
    // SAFETY: all pointers are to locals that live through their calls. The masks and attributes are initialised before
    // they are read. The thread's function ignores its argument, which is null.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        if libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) != 0 {
            return false;
        }
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&raw mut attributes, stack_bytes);
        let mut thread: libc::pthread_t = std::mem::zeroed();
        let outcome = libc::pthread_create(&raw mut thread, &raw const attributes, run, std::ptr::null_mut());
        libc::pthread_attr_destroy(&raw mut attributes);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        outcome == 0
    }
}
