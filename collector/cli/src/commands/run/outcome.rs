//! One run of a batch: its recording, and whether it counts.

use super::plan::Planned;
use super::{Run, print_message, report_live_areas, report_start_error, shown, why_nothing};
use crate::launch::ending::Ending;
use crate::launch::gpu_sampler::GpuSampler;
use crate::launch::inherited::Inherited;
use crate::launch::job::{Accompanied, Job};
use crate::launch::record::LaunchRecord;
use crate::launch::run_directory::{self, RunDirectory};
use crate::launch::{free_space, live};
use anyhow::Result;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How the job ended.
    pub ending: Ending,
    /// Signal that requested the end of the job, if any.
    pub asked_to_end: Option<i32>,
    /// Whether the job could not be started.
    pub is_not_started: bool,
    /// Number of rank logs of the run.
    pub logs: usize,
    /// Duration of the job.
    pub took: Duration,
}

impl Outcome {
    /// Returns why the run does not count, or `None` if it counts.
    pub fn failure(&self) -> Option<String> {
        if self.is_not_started {
            return Some("the job could not be started".to_owned());
        }
        if let Some(signal) = self.asked_to_end {
            return Some(format!(
                "the job was interrupted by {}",
                crate::launch::signals::name(signal)
            ));
        }
        if self.ending != Ending::Status(0) {
            return Some(self.ending.to_string());
        }
        (self.logs == 0).then(|| "nothing was recorded".to_owned())
    }
}

/// Records one run.
pub fn record(run: &Run, planned: &Planned, library: &Path, inherited: Inherited) -> Result<Outcome> {
    let directory = RunDirectory::prepare(Some(&planned.directory))?;
    let mut launch = LaunchRecord::new(&shown(&planned.command));
    launch.write(&directory.path)?;
    let mut command = run.prepare(&planned.command, library, &directory.path, &launch.launch);
    let started = Instant::now();
    let job = match Job::start_with(&mut command, inherited) {
        Ok(job) => job,
        Err(error) => {
            launch.remove(&directory.path);
            return Ok(Outcome {
                ending: Ending::Status(report_start_error(&planned.command[0], &error)),
                asked_to_end: None,
                is_not_started: true,
                logs: 0,
                took: Duration::ZERO,
            });
        }
    };
    let sampler = GpuSampler::start(&directory.path, run.counter_interval());
    let Accompanied { ending, asked_to_end } = job.accompany_and_note();
    let took = started.elapsed();
    drop(sampler);
    launch.end(ending);
    launch.write(&directory.path)?;
    report_live_areas(&live::collect_all(&directory.path, &[])?);
    if let Some(short) = free_space::warning(&directory.path, run.min_free.map(|size| size.0)) {
        print_message(&format!("the recording may stop early: {short}"));
    }
    let logs = run_directory::logs(&directory.path)?.len();
    if logs == 0 {
        launch.remove(&directory.path);
        print_message(&why_nothing(&planned.command[0], &[]));
    }
    Ok(Outcome {
        ending,
        asked_to_end,
        is_not_started: false,
        logs,
        took,
    })
}

/// Moves a failed run to another directory, so that `DIR/run-*` has only runs that count. Returns `None` if the run
/// left no files.
pub fn set_aside(planned: &Planned) -> Option<&Path> {
    // `remove_dir` succeeds only if the directory is empty.
    if fs::remove_dir(&planned.directory).is_ok() {
        return None;
    }
    match fs::rename(&planned.directory, &planned.failed) {
        Ok(()) => Some(&planned.failed),
        Err(_) => Some(&planned.directory),
    }
}
