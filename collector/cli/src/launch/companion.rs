//! A process of this program beside a job: `rankscope watch` or `rankscope serve`, started by `rankscope run`.
//!
//! It is a separate process, because it reads logs while the job runs, and `rankscope run` only waits. It has a lower priority
//! than the job.

use super::launcher_input;
use super::signals::Signals;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

/// The process. Dropping it ends it.
pub struct Companion {
    child: Child,
}

impl Companion {
    /// Starts this program with these arguments.
    pub fn start(arguments: &[OsString]) -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        // These signals request a dump. They are blocked in this process, and must not end the other one before it handles them.
        let requests = [libc::SIGUSR1, libc::SIGUSR2];
        let unblocked = requests.into_iter().fold(Signals::none(), Signals::with);
        // SAFETY: the closure makes system calls only.
        unsafe {
            command.pre_exec(move || {
                for signal in requests {
                    libc::signal(signal, libc::SIG_IGN);
                }
                unblocked.unblock();
                Ok(())
            });
        }
        let child = command
            .args(arguments)
            // Its end tells the process to end, also if this one is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C is for the job.
            .process_group(0)
            .spawn()?;
        Ok(Self { child })
    }

    /// Returns the process id.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Ends the process. Returns its exit status, if it ended by itself within the limit. `was_asked`: a user or a scheduler
    /// ended the job.
    pub fn finish(mut self, limit: Duration, was_asked: bool) -> Option<i32> {
        if let (true, Some(input)) = (was_asked, &mut self.child.stdin) {
            // Without effect if the process has ended.
            let _ = input.write_all(launcher_input::ASKED);
        }
        drop(self.child.stdin.take());
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.code(),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
                _ => return None,
            }
        }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        // Without effect if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Freed memory that is kept for the next look, in bytes.
const KEPT_BYTES: libc::c_int = 64 << 20;
/// Size from which the allocator maps memory of its own for a buffer, in bytes. glibc accepts at most this.
const MAPPED_BYTES: libc::c_int = 32 << 20;

/// How far a process stays behind a job on the same machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// It gets a processor last: nice 19.
    Last,
    /// It must act within seconds also on a machine whose processors are all busy: nice 10. Its work must be short.
    Soon,
}

/// Makes this process disturb a job on the same machine as little as possible: the calling thread, and the threads that it
/// starts, get a low priority. Freed memory stays mapped: page faults were a third of the cost of a look.
pub fn run_behind_the_job(behind: Behind) {
    let nice = match behind {
        Behind::Last => 19,
        Behind::Soon => 10,
    };
    // SAFETY: the calls have no memory arguments. If one fails, the priority or the setting stays as it was.
    unsafe {
        // A job that itself has a low priority stays ahead.
        let nice = nice.max(libc::getpriority(libc::PRIO_PROCESS, 0));
        libc::setpriority(libc::PRIO_PROCESS, 0, nice);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
}
