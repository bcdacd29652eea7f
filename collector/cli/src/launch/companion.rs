//! A process of this program beside a job: `rankscope watch` or `rankscope serve`, started by `rankscope run`.
//!
//! It is a separate process, because it reads logs while the job runs, and `rankscope run` only waits. It has the lowest
//! priority.

use std::ffi::OsString;
use std::io;
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
        let child = Command::new(env::current_exe()?)
            .args(arguments)
            // Its end tells the process to end, also if this one is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C is for the job.
            .process_group(0)
            .spawn()?;
        Ok(Self { child })
    }

    /// Ends the process. Returns its exit status, if it ended by itself within the limit.
    pub fn finish(mut self, limit: Duration) -> Option<i32> {
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

/// Gives the calling thread, and the threads that it starts, the lowest priority.
pub fn run_behind_the_job() {
    // SAFETY: the call has no memory arguments. If it fails, the priority stays.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}
