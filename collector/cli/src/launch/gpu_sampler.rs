//! Samples of this host's GPUs while a job runs: a process of rankscope that reads NVML.
//!
//! NVML hangs if a GPU does not answer, and a thread in such a call blocks the end of its process. So neither the job nor
//! `rankscope run` calls it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, os::unix::process::CommandExt, thread};

/// Hidden command of this program that takes the samples.
pub const COMMAND: &str = "sample-gpus";
/// Maximum time in which the process may end by itself.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// The process that samples. Dropping it ends the samples.
pub struct GpuSampler {
    child: Child,
}

impl GpuSampler {
    /// Starts the samples of a run, after its job was started. `None` means no samples.
    pub fn start(run_directory: &Path, interval: Option<Duration>) -> Option<Self> {
        let started = Self::spawn(run_directory, interval?);
        started
            .inspect_err(|error| tracing::warn!(%error, "the GPUs are not sampled"))
            .ok()
    }

    fn spawn(run_directory: &Path, interval: Duration) -> io::Result<Self> {
        let child = Command::new(env::current_exe()?)
            .arg(COMMAND)
            .arg(run_directory)
            .arg(interval.as_secs().to_string())
            // Its end tells the process to end, also if this one is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the job.
            .process_group(0)
            .spawn()?;
        Ok(Self { child })
    }
}

impl Drop for GpuSampler {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + LAST_WAIT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                // A call of the driver that does not return also blocks this signal. The process is left behind.
                let _ = self.child.kill();
                tracing::warn!("NVML does not answer; the last samples of the GPUs may be missing");
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}
