//! A recorded run with the truth about the device.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rankscope_formats::session::{OperationRow, OperationState};
use rankscope_ranklog::record::FLAG_CAPTURED;
use serde_json::Value;
use tempfile::TempDir;

use super::calls::calls;
use super::works::{kernels, works};
use crate::job::{Finished, Job};
use crate::recorded::{self, Recorded};
use crate::results;
use crate::turn::Turn;

/// A run whose ranks have all succeeded.
pub struct Run {
    directory: TempDir,
    truth: TempDir,
    /// Remains of its ranks.
    pub finished: Finished,
}

/// Start and end of a launch, in nanoseconds.
pub type Launch = (i64, i64);

impl Run {
    /// Records a job.
    ///
    /// # Panics
    /// If a rank fails.
    pub fn of(turn: &Turn, job: Job) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let truth = tempfile::tempdir().expect("a temporary directory");
        let finished = job
            .env("HOST_NCCL_TRUTH", truth.path())
            // Like the timer of a real device: of another origin than the clocks of the host.
            .env("HOST_NCCL_TIMER_OFFSET_NS", "1234567890123")
            .limit(Duration::from_secs(300))
            .record_into(directory.path())
            .run(turn);
        finished.expect_status(0);
        Self {
            directory,
            truth,
            finished,
        }
    }

    /// Returns the directory of the run.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Reads the log of each process.
    pub fn logs(&self) -> Vec<Recorded> {
        recorded::read_ranks(self.directory(), &self.finished.pids)
    }

    /// Merges the run and returns its report.
    pub fn session(&self) -> Value {
        results::session(self.directory())
    }

    /// Returns the operations of a rank, after a merge.
    pub fn rows(&self, rank: usize) -> Vec<OperationRow> {
        results::operations(self.directory(), rank)
    }

    /// Returns the launches of a process by the device's timer, in `CLOCK_MONOTONIC_RAW` and in order. Each is from its
    /// first start to its last end.
    pub fn launches(&self, process: usize) -> Vec<Launch> {
        let pid = self.finished.pids[process];
        let mut launches: BTreeMap<u64, Launch> = BTreeMap::new();
        let works = works(self.truth.path());
        // The device's timer is read first, and then the host's clock. The thread may lose its processor in between.
        let timer_ahead_ns = works.iter().map(|work| work.timer_start - work.start_ns).max();
        let timer_ahead_ns = timer_ahead_ns.expect("works");
        for work in works.into_iter().filter(|work| work.pid == pid) {
            let (start_ns, end_ns) = (work.timer_start - timer_ahead_ns, work.timer_end - timer_ahead_ns);
            let known = launches.entry(work.launch).or_insert((start_ns, end_ns));
            *known = (known.0.min(start_ns), known.1.max(end_ns));
        }
        launches.into_values().collect()
    }

    /// Returns the kernels of a process in `CLOCK_MONOTONIC_RAW`, in order.
    pub fn kernels(&self, process: usize) -> Vec<Launch> {
        let pid = self.finished.pids[process];
        let kernels = kernels(self.truth.path()).into_iter();
        let own = kernels.filter(|kernel| kernel.pid == pid);
        own.map(|kernel| (kernel.start_ns, kernel.end_ns)).collect()
    }

    /// Returns the difference between the axis and `CLOCK_MONOTONIC_RAW` of a process, in nanoseconds.
    ///
    /// # Panics
    /// If the process made no call, or has only one calibration.
    pub fn axis_ahead_ns(log: &Recorded, rows: &[OperationRow]) -> i64 {
        let first = &log.log.calibrations[0];
        let ns_per_tick = log.ns_per_tick().expect("several calibrations");
        let call = calls(log)
            .into_iter()
            .find(|record| record.flags & FLAG_CAPTURED == 0)
            .expect("a call");
        let raw_ns =
            first.monotonic_raw_ns + ((call.enter_ticks as f64 - first.ticks as f64) * ns_per_tick) as i64;
        // An operation without times begins with its call.
        let row = rows
            .iter()
            .filter(|row| row.state != OperationState::Captured)
            .map(|row| row.called_ns.unwrap_or(row.enter_ns))
            .min()
            .expect("a row with a call");
        row - raw_ns
    }
}
