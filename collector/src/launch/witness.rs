//! Tells a signal that was sent to us alone from one that went to our whole process group.
//!
//! `kill PID`, a scheduler that knows only our process and a container's runtime signal us alone: the job must be
//! told. `kill -- -GROUP`, `timeout`, and a scheduler that signals every process reach the job by themselves, and a
//! second copy would abort the clean-up that the first one started. What arrives does not say which it was. So a
//! process of ours that does nothing else sits in the group and counts what reaches it.

use super::signals::Signals;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Signal numbers end at 64.
const COUNTERS: usize = 65;
/// How long a signal may take from one member of a group to the next.
const PATIENCE: Duration = Duration::from_millis(25);

type Counters = [AtomicU32; COUNTERS];

/// The process, and what it counted.
pub struct Witness {
    pid: i32,
    counted: &'static Counters,
    seen: [u32; COUNTERS],
}

impl Witness {
    /// Starts it. The signals must be blocked already, and this process have one thread.
    pub fn start(signals: &Signals) -> io::Result<Self> {
        // SAFETY: a new shared mapping at an address of the kernel's choice, zeroed, of at least the size of the counters.
        let counted = unsafe {
            let address = libc::mmap(
                std::ptr::null_mut(),
                size_of::<Counters>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if address == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            // It is never unmapped; zeroed memory is a valid array of atomics.
            &*address.cast::<Counters>()
        };
        // SAFETY: there is one thread, so that the child may go on as if nothing had happened.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => watch(signals, counted),
            pid => Ok(Self {
                pid,
                counted,
                seen: [0; COUNTERS],
            }),
        }
    }

    /// True if the signal that was just received also reached the group: the witness has counted it, or the kernel
    /// holds it for the witness, which on a busy machine may not have run yet.
    pub fn has_seen(&mut self, signal: i32) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let index = signal as usize % COUNTERS;
        loop {
            let counted = self.counted[index].load(Ordering::Acquire);
            let is_ahead = counted.wrapping_sub(self.seen[index]).cast_signed() > 0;
            if is_ahead || self.is_pending(signal) {
                self.seen[index] = self.seen[index].wrapping_add(1);
                return true;
            }
            if Instant::now() >= deadline {
                // Equal signals that arrive together become one; what was seen once too often is not owed for ever.
                self.seen[index] = counted;
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_pending(&self, signal: i32) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        let pending = pending
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or(0);
        pending >> (signal - 1) & 1 == 1
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // SAFETY: our own child, not reaped yet.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// The witness's whole life.
fn watch(signals: &Signals, counted: &Counters) -> ! {
    // SAFETY: plain system calls in a process of one thread; nothing here uses a descriptor.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_NAME, c"rankscope-group".as_ptr());
        libc::syscall(libc::SYS_close_range, 0u32, u32::MAX, 0u32);
        // Our parent may have gone before it could be asked to take us along.
        if libc::getppid() == 1 {
            libc::_exit(0);
        }
    }
    loop {
        let received = signals.wait();
        counted[received.signal as usize % COUNTERS].fetch_add(1, Ordering::Release);
    }
}
