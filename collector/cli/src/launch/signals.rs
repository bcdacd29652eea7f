//! Signals that this process receives for the job. They are blocked, then received one by one with information about
//! the sender.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Signals by which a terminal or a user controls a job. SIGCHLD is for this process.
const FOR_THE_JOB: [i32; 15] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGIO,
    libc::SIGPWR,
];

/// Received signal.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Number of the signal.
    pub signal: i32,
    /// Whether the kernel sent it. A terminal's signal from the kernel goes to its whole foreground group.
    pub from_kernel: bool,
    /// Process that sent it, 0 if it is outside this namespace.
    pub sender: Option<i32>,
    /// Value that `sigqueue` sent with it.
    pub value: Option<libc::sigval>,
}

/// Set of signals.
#[derive(Clone, Copy)]
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Returns the empty set.
    pub fn none() -> Self {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: the set is valid memory, and filled in by the call.
        Self(unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        })
    }

    /// Returns all signals that control a job, including real-time signals, and SIGCHLD.
    pub fn of_a_job() -> Self {
        let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
        FOR_THE_JOB
            .into_iter()
            .chain([libc::SIGCHLD])
            .chain(real_time)
            .fold(Self::none(), Self::with)
    }

    /// Returns the signals that end an interactive program.
    pub fn to_stop_us() -> Self {
        [libc::SIGINT, libc::SIGTERM, libc::SIGHUP]
            .into_iter()
            .fold(Self::none(), Self::with)
    }

    /// Adds a signal to the set.
    pub fn with(mut self, signal: i32) -> Self {
        // SAFETY: the set was initialised; a wrong number only fails.
        unsafe { libc::sigaddset(&raw mut self.0, signal) };
        self
    }

    /// Blocks the signals in this thread, and in threads that it starts from now on.
    pub fn block(&self) {
        // SAFETY: the set is valid for the call.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const self.0, std::ptr::null_mut()) };
    }

    /// Unblocks the signals in this thread.
    pub fn unblock(&self) {
        // SAFETY: the set is valid for the call.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const self.0, std::ptr::null_mut()) };
    }

    /// Waits for one of the signals, which must be blocked.
    pub fn wait(&self) -> Received {
        loop {
            if let Ok(received) = self.take(None) {
                return received;
            }
        }
    }

    /// Waits for one of the signals, at most `limit`.
    pub fn wait_at_most(&self, limit: Duration) -> Option<Received> {
        self.take(Some(limit)).ok()
    }

    /// Whether a blocked signal is pending for this process.
    pub fn is_pending(signal: i32) -> bool {
        let mut pending = Self::none();
        // SAFETY: the set is valid for both calls.
        unsafe {
            libc::sigpending(&raw mut pending.0) == 0 && libc::sigismember(&raw const pending.0, signal) == 1
        }
    }

    /// Discards pending signals of the set.
    pub fn forget_pending(&self) {
        while self.wait_at_most(Duration::ZERO).is_some() {}
    }

    fn take(&self, limit: Option<Duration>) -> io::Result<Received> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let limit = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: limit.subsec_nanos() as libc::c_long,
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: set, information and limit live through the call.
        let signal = unsafe { libc::sigtimedwait(&raw const self.0, info.as_mut_ptr(), limit) };
        if signal < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all zero is a valid value, and the call has filled it in.
        let info = unsafe { info.assume_init() };
        let from_kernel = info.si_code > 0;
        Ok(Received {
            signal,
            from_kernel,
            // SAFETY: filled in for every signal that a process sends.
            sender: (!from_kernel).then(|| unsafe { info.si_pid() }),
            // SAFETY: the kernel fills the value in for this code.
            value: (info.si_code == libc::SI_QUEUE).then(|| unsafe { info.si_value() }),
        })
    }
}

/// Returns the name of a signal, as users type it.
pub fn name(signal: i32) -> String {
    let known = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    known.to_owned()
}
