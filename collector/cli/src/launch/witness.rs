//! Tells a signal that was sent to us alone from one that went to our whole process group.
//!
//! `kill PID`, a scheduler that knows only our process and a container's runtime signal us alone: the job must be
//! told. `kill -- -GROUP`, `timeout`, and a scheduler that signals every process reach the job by themselves, and a
//! second copy would abort the clean-up that the first one started. What arrives does not say which it was. So a
//! process of ours that does nothing else sits in the group and counts what reaches it.

use super::signals::{Received, Signals};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Signal numbers end at 64.
const COUNTERS: usize = 65;
/// How long a signal may take from one member of a group to the next.
const PATIENCE: Duration = Duration::from_millis(25);
/// How long the witness may take to answer: on a crowded machine it waits for a processor.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// What the two processes share.
struct Board {
    counted: [AtomicU32; COUNTERS],
    /// The last question that the witness has answered.
    answered: AtomicU32,
}

/// The process, and what it counted.
pub struct Witness {
    pid: i32,
    board: &'static Board,
    /// Of what the witness counted: how many are accounted for.
    seen: [u32; COUNTERS],
    /// Another of the same number came to us before the witness had taken the one before: the kernel may have made
    /// one of the two for the witness.
    may_be_merged: [bool; COUNTERS],
    asked: u32,
    /// It did not answer once, so it is gone: nobody waits for it again.
    is_silent: bool,
}

impl Witness {
    /// Starts it. The signals must be blocked already, and this process have one thread.
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
            // It is never unmapped; zeroed memory is a valid board of atomics.
            &*address.cast::<Board>()
        };
        // SAFETY: asks for a number.
        let parent = unsafe { libc::getpid() };
        // SAFETY: there is one thread, so that the child may go on as if nothing had happened.
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

    /// True if the signal that was just received also reached the group: the witness has counted it.
    ///
    /// Equal signals that wait for one process become one, for us and for the witness at different moments. So each
    /// answer is about all that was sent before the question, and where a merged one is possible the signal counts as
    /// seen: the job got one of that number just now.
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
                // All that it counted came to us as this one.
                self.seen[index] = self.seen[index].wrapping_add(ahead);
            } else {
                self.seen[index] = self.seen[index].wrapping_add(ahead.min(1));
                // Real-time signals queue instead.
                self.may_be_merged[index] = signal < libc::SIGRTMIN();
            }
            return true;
        }
    }

    /// Lets the witness count all that was sent to it before this.
    fn ask(&mut self) {
        if self.is_silent {
            return;
        }
        self.asked = self.asked.wrapping_add(1);
        let value = libc::sigval {
            sival_ptr: std::ptr::without_provenance_mut(self.asked as usize),
        };
        // The highest number is received last.
        // SAFETY: our own child, not reaped yet.
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
fn watch(signals: &Signals, board: &Board, parent: i32) -> ! {
    // SAFETY: plain system calls in a process of one thread; nothing here uses a descriptor.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_NAME, c"rankscope-group".as_ptr());
        libc::syscall(libc::SYS_close_range, 0u32, u32::MAX, 0u32);
        // Our parent may have gone before it could be asked to take us along.
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

/// The number of the question, if it is one: what somebody else sends under that number is counted.
fn question(received: Received, parent: i32) -> Option<u32> {
    let is_ours = received.signal == libc::SIGRTMAX() && received.sender == Some(parent);
    let value = received.value.filter(|_| is_ours)?;
    Some(value.sival_ptr.addr() as u32)
}
