//! The process beside a job that watches for hangs: `rankscope watch`, started by `rankscope run --hang-timeout`.
//!
//! It is a separate process, because it reads logs while the job runs, and `rankscope run` only waits. It has the lowest
//! priority.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

/// Exit status of the watcher, and of `rankscope run`, if the watcher ended the job.
pub const ENDED_THE_JOB: i32 = 86;
/// Maximum time in which the watcher may end by itself. It may be in the middle of a look.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// The process that watches. Dropping it ends it.
pub struct HangWatcher {
    child: Child,
}

impl HangWatcher {
    /// Starts the watcher of a job. `options` are options of `rankscope watch`.
    pub fn start(run_directory: &Path, options: &[OsString], launch: &str, job_pid: i32) -> io::Result<Self> {
        let child = Command::new(env::current_exe()?)
            .arg("watch")
            .args(options)
            .arg("--beside")
            .arg(launch)
            .arg("--job-pid")
            .arg(job_pid.to_string())
            .arg(run_directory)
            // Its end tells the process to end, also if this one is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C is for the job.
            .process_group(0)
            .spawn()?;
        Ok(Self { child })
    }

    /// Ends the watcher. Returns true if it ended the job.
    pub fn finish(mut self) -> bool {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + LAST_WAIT;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.code() == Some(ENDED_THE_JOB),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
                _ => return false,
            }
        }
    }
}

impl Drop for HangWatcher {
    fn drop(&mut self) {
        // Without effect if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
