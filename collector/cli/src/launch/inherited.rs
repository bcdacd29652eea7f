//! Inherited signal state that the job must inherit unchanged: the signal mask, and the dispositions that Rust's
//! runtime or rankscope changes.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the signal was ignored when this process started.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static CHILD_IGNORED: AtomicBool = AtomicBool::new(false);

/// Reads the dispositions before Rust's runtime starts. The runtime ignores SIGPIPE before `main`, and the job must not
/// inherit that.
extern "C" fn look_before_the_runtime() {
    PIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    CHILD_IGNORED.store(is_ignored(libc::SIGCHLD), Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions without arguments that are called once, before `main`. This one reads
// two dispositions and writes two atomics.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look_before_the_runtime;

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only reads the old one into valid memory.
    let read = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: all zero is a valid value, and the call has filled it in.
    read == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Signal state that the job gets.
#[derive(Clone, Copy)]
pub struct Inherited {
    mask: libc::sigset_t,
    pipe_ignored: bool,
    child_ignored: bool,
}

impl Inherited {
    /// Reads the signal state. Must be called before any signal is blocked.
    pub fn read() -> Self {
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: a null set only reads the mask into valid memory.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), mask.as_mut_ptr()) };
        Self {
            // SAFETY: all zero is a valid set, and the call has filled it in.
            mask: unsafe { mask.assume_init() },
            pipe_ignored: PIPE_IGNORED.load(Ordering::Relaxed),
            child_ignored: CHILD_IGNORED.load(Ordering::Relaxed),
        }
    }

    /// Restores the signal state in the job's process between fork and exec. Uses system calls only.
    pub fn restore(&self) -> io::Result<()> {
        let disposition = |ignored| if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: plain dispositions; the mask was read from the system.
        unsafe {
            libc::signal(libc::SIGPIPE, disposition(self.pipe_ignored));
            libc::signal(libc::SIGCHLD, disposition(self.child_ignored));
            if libc::sigprocmask(libc::SIG_SETMASK, &raw const self.mask, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}
