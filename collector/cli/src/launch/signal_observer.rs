//! Distinguishes a signal to this process alone from a signal to the whole process group.
//!
//! `kill PID`, a scheduler that knows only this process, and a container's runtime signal only this process. Then the
//! signal must be forwarded to the job. `kill -- -GROUP`, `timeout`, and a scheduler that signals every process reach
//! the job directly. A second copy would abort the clean-up that the first one started. The received signal does not
//! show the difference. Therefore a separate process in the group, the witness, counts the signals that it receives.

use super::signals::{Received, Signals};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Number of counters. The highest signal number is 64.
const COUNTERS: usize = 65;
/// Time limit for a signal to reach all members of a group.
const PATIENCE: Duration = Duration::from_millis(25);
/// Time limit for an answer of the witness. On a crowded machine the witness waits for a processor.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Memory that both processes share.
struct Board {
    counted: [AtomicU32; COUNTERS],
    /// Number of the last answered question.
    answered: AtomicU32,
}

/// SignalObserver process and its counts.
pub struct SignalObserver {
    pid: i32,
    board: &'static Board,
    /// Number of counted signals that are already accounted for.
    seen: [u32; COUNTERS],
    /// Whether an equal signal arrived here before the witness took the previous one. The kernel may have merged the
    /// two for the witness.
    may_be_merged: [bool; COUNTERS],
    asked: u32,
    /// Whether the witness once failed to answer. It is then assumed dead, and never waited for again.
    is_silent: bool,
}

impl SignalObserver {
    /// Starts the witness. The signals must be blocked already, and this process must have one thread.
    pub fn start(signals: &Signals) -> io::Result<Self> {
        // SAFETY: a new shared mapping at an address of the kernel's choice, zeroed, of at least the size of the board.
        let board = unsafe {
            let address = libc::mmap(
                std::ptr::null_mut(),
                size_of::<Board>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if address == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            // The mapping is never unmapped. Zeroed memory is a valid board of atomics.
            &*address.cast::<Board>()
        };
        // SAFETY: the call only returns a number.
        let parent = unsafe { libc::getpid() };
        // SAFETY: there is one thread, so the child can continue normally.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => watch(signals, board, parent),
            pid => Ok(Self {
                pid,
                board,
                seen: [0; COUNTERS],
                may_be_merged: [false; COUNTERS],
                asked: 0,
                is_silent: false,
            }),
        }
    }

    /// Whether the signal that was just received also reached the group, because the witness has counted it.
    ///
    /// The kernel merges equal pending signals of a process, at different moments for this process and the witness. So
    /// each answer covers all signals before the question. If a merged signal is possible, the signal counts as seen:
    /// the job just received one of that number.
    pub fn has_seen(&mut self, signal: i32) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let index = signal as usize % COUNTERS;
        let may_be_merged = std::mem::take(&mut self.may_be_merged[index]);
        loop {
            let is_last = Instant::now() >= deadline;
            self.ask();
            let ahead = self.board.counted[index]
                .load(Ordering::Acquire)
                .wrapping_sub(self.seen[index]);
            if ahead == 0 && !may_be_merged {
                if is_last {
                    return false;
                }
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            if !Signals::is_pending(signal) {
                // This process received all signals that the witness counted as one signal.
                self.seen[index] = self.seen[index].wrapping_add(ahead);
            } else {
                self.seen[index] = self.seen[index].wrapping_add(ahead.min(1));
                // Real-time signals queue instead.
                self.may_be_merged[index] = signal < libc::SIGRTMIN();
            }
            return true;
        }
    }

    /// Makes the witness count all signals that were sent to it before this call.
    fn ask(&mut self) {
        if self.is_silent {
            return;
        }
        self.asked = self.asked.wrapping_add(1);
        let value = libc::sigval {
            sival_ptr: std::ptr::without_provenance_mut(self.asked as usize),
        };
        // The highest number is received last.
        // SAFETY: the child of this process, not reaped yet.
        if unsafe { libc::sigqueue(self.pid, libc::SIGRTMAX(), value) } != 0 {
            return;
        }
        let deadline = Instant::now() + ANSWER_LIMIT;
        while self.board.answered.load(Ordering::Acquire) != self.asked {
            if Instant::now() >= deadline {
                self.is_silent = true;
                return;
            }
            thread::sleep(Duration::from_micros(100));
        }
    }
}

impl Drop for SignalObserver {
    fn drop(&mut self) {
        // SAFETY: the child of this process, not reaped yet.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Runs the witness process.
fn watch(signals: &Signals, board: &Board, parent: i32) -> ! {
    // SAFETY: plain system calls in a process of one thread; nothing here uses a descriptor.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_NAME, c"rankscope-group".as_ptr());
        libc::syscall(libc::SYS_close_range, 0u32, u32::MAX, 0u32);
        // The parent may have died before PR_SET_PDEATHSIG took effect.
        if libc::getppid() != parent {
            libc::_exit(0);
        }
    }
    loop {
        let received = signals.wait();
        match question(received, parent) {
            Some(asked) => board.answered.store(asked, Ordering::Release),
            None => {
                board.counted[received.signal as usize % COUNTERS].fetch_add(1, Ordering::Release);
            }
        }
    }
}

/// Returns the number of the question. A signal of the same number from another sender is not a question, and is
/// counted.
fn question(received: Received, parent: i32) -> Option<u32> {
    let is_ours = received.signal == libc::SIGRTMAX() && received.sender == Some(parent);
    let value = received.value.filter(|_| is_ours)?;
    Some(value.sival_ptr.addr() as u32)
}
