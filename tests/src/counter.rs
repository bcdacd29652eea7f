//! Counting of finished operations on descriptor 3 of a rank: eight bytes after each operation.
//!
//! The number that was read when the rank is killed is the minimum that must have been recorded.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::job::Running;

/// A pipe whose write end becomes descriptor 3 of a command that has not started yet.
#[derive(Debug)]
pub struct Attached {
    reader: File,
    writer: OwnedFd,
}

/// Gives the command its descriptor 3.
pub fn attach(command: &mut Command) -> Attached {
    let mut ends = [0; 2];
    // SAFETY: pipe2 writes two descriptors into the array of two.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    assert!(made == 0, "pipe: {}", std::io::Error::last_os_error());
    // SAFETY: pipe2 has just made both descriptors, and nothing else owns them.
    let (reader, writer) = unsafe { (File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    let source = writer.as_raw_fd();
    let take_three = move || {
        // dup2 onto itself would leave close-on-exec set.
        // SAFETY: both calls only affect descriptors of the child.
        let done = unsafe {
            if source == 3 {
                libc::fcntl(3, libc::F_SETFD, 0)
            } else {
                libc::dup2(source, 3)
            }
        };
        if done < 0 {
            Err(std::io::Error::last_os_error())
        } else {
            Ok(())
        }
    };
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(take_three) };
    Attached { reader, writer }
}

impl Attached {
    /// Starts to read. Call it after the start of the process.
    pub fn listen(self) -> Counter {
        // This write end must be closed, or the pipe never ends.
        drop(self.writer);
        let reported = Arc::new(AtomicU64::new(0));
        let mut reader = self.reader;
        let shared = Arc::clone(&reported);
        let listener = std::thread::spawn(move || {
            let mut number = [0; 8];
            while reader.read_exact(&mut number).is_ok() {
                shared.store(u64::from_ne_bytes(number), Ordering::Release);
            }
        });
        Counter { reported, listener }
    }
}

/// The number that a rank last reported.
#[derive(Debug)]
pub struct Counter {
    reported: Arc<AtomicU64>,
    listener: JoinHandle<()>,
}

impl Counter {
    /// Returns the current number. The rank continues.
    pub fn so_far(&self) -> u64 {
        self.reported.load(Ordering::Acquire)
    }

    /// Returns the final number, after the rank has ended.
    pub fn last(self) -> u64 {
        let _ = self.listener.join();
        self.reported.load(Ordering::Acquire)
    }
}

/// Waits until each of the first `ranks` ranks has reported at least this number.
///
/// # Panics
/// After a minute.
pub fn await_all(running: &Running<'_>, ranks: usize, number: u64) {
    let limit = Instant::now() + Duration::from_secs(60);
    while (0..ranks).any(|rank| running.counter(rank).so_far() < number) {
        assert!(Instant::now() < limit, "the ranks have not come to {number}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
