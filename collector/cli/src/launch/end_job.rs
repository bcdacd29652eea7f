//! Ends a job that hangs: the launcher's process and the ranks of one launch on this machine, and nothing else.

use rankscope_hang::judge::RunningProcess;
use rankscope_hang::process_handle::ProcessHandle;
use rankscope_ranklog::process;
use std::thread;
use std::time::{Duration, Instant};

/// Exit status of `rankscope watch`, and of `rankscope run`, if the job was ended because it hung.
pub const ENDED_THE_JOB: i32 = 86;
/// Time in which the job may end by itself after SIGTERM. Launchers write their logs.
const GRACE: Duration = Duration::from_secs(5);
/// Time in which the launcher may end after its ranks.
const GRACE_OF_LAUNCHER: Duration = Duration::from_secs(5);

/// First process of a job.
pub struct JobProcess(Option<ProcessHandle>);

impl JobProcess {
    /// Opens the process that `rankscope run` started and has not waited for.
    pub fn open(pid: u32) -> Self {
        let start = process::start_time(&pid.to_string());
        Self(start.and_then(|start| ProcessHandle::open(pid, &start).ok()))
    }

    fn signal(&self, signal: i32) {
        if let Some(process) = &self.0 {
            process.signal(signal);
        }
    }

    fn has_ended(&self) -> bool {
        self.0.as_ref().is_none_or(ProcessHandle::has_ended)
    }
}

/// Ends the job: SIGTERM, and SIGKILL for what is left. `ranks` are processes of this machine; those of other launches are
/// left alone.
pub fn end(job: &JobProcess, ranks: &[RunningProcess], launch: &str) {
    let ranks: Vec<ProcessHandle> = ranks
        .iter()
        .filter(|rank| rank.launch.as_deref() == Some(launch))
        .filter_map(|rank| ProcessHandle::open(rank.pid, &rank.start_time).ok())
        .collect();
    job.signal(libc::SIGTERM);
    for rank in &ranks {
        rank.signal(libc::SIGTERM);
    }
    wait_until(GRACE, || {
        job.has_ended() && ranks.iter().all(ProcessHandle::has_ended)
    });
    for rank in ranks.iter().filter(|rank| !rank.has_ended()) {
        rank.signal(libc::SIGKILL);
    }
    wait_until(GRACE_OF_LAUNCHER, || job.has_ended());
    job.signal(libc::SIGKILL);
}

fn wait_until(limit: Duration, is_over: impl Fn() -> bool) {
    let deadline = Instant::now() + limit;
    while !is_over() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
}
