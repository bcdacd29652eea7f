//! End of a job that another process started, or of the launch beside which this process runs.

use super::{launcher_input, record};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// A job without any process for this long has ended. Between two attempts, an elastic launcher needs some seconds.
const ENDED_AFTER: Duration = Duration::from_secs(30);

/// Decides whether a job has ended.
pub struct JobEnd {
    directories: Vec<PathBuf>,
    /// True if `rankscope run` started this process.
    is_beside: bool,
    has_seen: bool,
    last_seen: Instant,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its processes have ended, or its launcher has.
    AfterRanks,
    /// No rank was ever seen.
    WithoutRanks,
}

impl JobEnd {
    /// Creates the decision for a job that records into these directories.
    pub fn new(directories: Vec<PathBuf>, is_beside: bool) -> Self {
        Self {
            directories,
            is_beside,
            has_seen: false,
            last_seen: Instant::now(),
        }
    }

    /// Waits, at most this long, until the job has ended. `runs` is true if a rank of this machine runs.
    pub fn wait(&mut self, limit: Duration, runs: bool) -> Option<Ended> {
        if self.is_beside {
            return launcher_input::has_ended(limit).then_some(Ended::AfterRanks);
        }
        if runs {
            (self.has_seen, self.last_seen) = (true, Instant::now());
        }
        let is_recording = || {
            let launches = self
                .directories
                .iter()
                .flat_map(|directory| record::read_all(directory));
            launches.into_iter().any(|launch| launch.is_recording())
        };
        if self.last_seen.elapsed() > ENDED_AFTER && !is_recording() {
            return Some(match self.has_seen {
                true => Ended::AfterRanks,
                false => Ended::WithoutRanks,
            });
        }
        thread::sleep(limit);
        None
    }
}
