//! The status of a job that hangs, as a user sees it.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rankscope_formats::status::{Health, Status};

use crate::job::Running;
use crate::results;

/// Runs `rankscope status --hang-timeout 2s` on a run directory. Returns its exit status, too.
pub fn status_of(run: &Path) -> (i32, Status) {
    let run = run.to_str().expect("a plain name");
    let ended = results::rankscope(["status", "--hang-timeout", "2s", "--json", run]);
    let status = serde_json::from_slice(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", ended.text(), ended.complaints()));
    (ended.code(), status)
}

/// Waits until a file exists.
///
/// # Panics
/// If it does not exist within a minute.
pub fn wait_for(file: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !file.exists() {
        assert!(Instant::now() < deadline, "{} does not appear", file.display());
        sleep(Duration::from_millis(20));
    }
}

/// Returns the status of a job on NCCL some seconds after all ranks left the files `fault…` in their store. Ends the job.
pub fn status_after_fault(
    running: Running,
    run: &Path,
    ranks: usize,
    file: impl Fn(usize) -> String,
) -> Status {
    for rank in 0..ranks {
        wait_for(&running.store().join(file(rank)));
    }
    // The timeout, and the time until completions of the device are in the log.
    sleep(Duration::from_secs(4));
    let (code, status) = status_of(run);
    for rank in 0..ranks {
        running.rank(rank).signal(libc::SIGKILL);
    }
    let _ = running.wait();
    let expected = if status.health == Health::Hang { 1 } else { 3 };
    assert_eq!(code, expected, "{}", status.sentence);
    status
}
