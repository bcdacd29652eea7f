//! Inherited signal state that the job must inherit unchanged: the signal mask, and the dispositions that Rust's
//! runtime, the C library or rankscope changes.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the signal was ignored when this process started.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static CHILD_IGNORED: AtomicBool = AtomicBool::new(false);
static THREAD_SIGNALS_IGNORED: [AtomicBool; THREAD_SIGNALS.len()] = [const { AtomicBool::new(false) }; 2];

/// Signals that the C library keeps for itself, SIGCANCEL and SIGSETXID. It handles them from the first thread on, and
/// `sigaction` refuses them.
const THREAD_SIGNALS: [i32; 2] = [32, 33];

/// Reads the dispositions before Rust's runtime starts. The runtime ignores SIGPIPE before `main`, and the job must not
/// inherit that.
extern "C" fn look_before_the_runtime() {
    PIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    CHILD_IGNORED.store(is_ignored(libc::SIGCHLD), Ordering::Relaxed);
    for (ignored, signal) in THREAD_SIGNALS_IGNORED.iter().zip(THREAD_SIGNALS) {
        ignored.store(is_thread_signal_ignored(signal), Ordering::Relaxed);
    }
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

/// `struct sigaction` of the kernel (`include/linux/signal_types.h`), the same on x86-64 and aarch64.
#[repr(C)]
struct KernelAction {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

impl KernelAction {
    const fn of(handler: usize) -> Self {
        Self {
            handler,
            flags: 0,
            restorer: 0,
            mask: 0,
        }
    }
}

fn is_thread_signal_ignored(signal: i32) -> bool {
    let mut action = KernelAction::of(libc::SIG_DFL);
    // SAFETY: a null new action only reads the old one into a local of the kernel's layout. The size is that of its mask.
    let read = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            std::ptr::null::<KernelAction>(),
            &raw mut action,
            size_of::<u64>(),
        )
    };
    read == 0 && action.handler == libc::SIG_IGN
}

/// Signal state that the job gets.
#[derive(Clone, Copy)]
pub struct Inherited {
    mask: libc::sigset_t,
    pipe_ignored: bool,
    child_ignored: bool,
    thread_signals_ignored: [bool; THREAD_SIGNALS.len()],
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
            thread_signals_ignored: THREAD_SIGNALS_IGNORED
                .each_ref()
                .map(|ignored| ignored.load(Ordering::Relaxed)),
        }
    }

    /// Restores the signal state in the job's process between fork and exec. Uses system calls only.
    pub fn restore(&self) -> io::Result<()> {
        let disposition = |ignored| if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: plain dispositions; the mask was read from the system. The actions are locals of the kernel's layout.
        unsafe {
            libc::signal(libc::SIGPIPE, disposition(self.pipe_ignored));
            libc::signal(libc::SIGCHLD, disposition(self.child_ignored));
            if libc::sigprocmask(libc::SIG_SETMASK, &raw const self.mask, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            // exec resets a handler to the default, and keeps what is ignored.
            for (&ignored, signal) in self.thread_signals_ignored.iter().zip(THREAD_SIGNALS) {
                if ignored {
                    let action = KernelAction::of(libc::SIG_IGN);
                    let old = std::ptr::null_mut::<KernelAction>();
                    libc::syscall(
                        libc::SYS_rt_sigaction,
                        signal,
                        &raw const action,
                        old,
                        size_of::<u64>(),
                    );
                }
            }
        }
        Ok(())
    }
}
