//! Collection of the live areas of this node's processes into the run directory, after the end of the job.

use super::record::LaunchRecord;
use super::run_directory;
use anyhow::Result;
use rankscope_ranklog::collect::{Collected, collect};
use rankscope_ranklog::reader::RankLog;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for the remaining processes of a job to end after the first one. An interrupted launcher gives its ranks
/// a moment to end.
const GRACE: Duration = Duration::from_secs(2);

/// Result of the collection.
#[derive(Debug, Default)]
pub struct LiveAreas {
    /// Readable names of processes that still run and record.
    pub running: Vec<String>,
    /// Number of logs completed from their live areas. Their processes were killed or crashed.
    pub completed: usize,
    /// Incomplete logs whose live area is not on this machine.
    pub missing: Vec<PathBuf>,
    /// Failures, with advice.
    pub failed: Vec<String>,
}

/// Completes every log of the directory whose process is dead. Logs of `others` are skipped because these launches
/// still record.
pub fn collect_all(run_dir: &Path, others: &[LaunchRecord]) -> Result<LiveAreas> {
    let deadline = Instant::now() + GRACE;
    loop {
        let found = collect_once(run_dir, others)?;
        if found.running.is_empty() || Instant::now() >= deadline {
            return Ok(found);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn collect_once(run_dir: &Path, others: &[LaunchRecord]) -> Result<LiveAreas> {
    let mut found = LiveAreas::default();
    for path in run_directory::logs(run_dir)? {
        if !others.is_empty() && belongs_to_another(&path, others) {
            continue;
        }
        match collect(&path) {
            Ok(Collected::Nothing) => {}
            Ok(Collected::Completed) => found.completed += 1,
            Ok(Collected::StillRunning) => found.running.push(describe(&path)),
            Ok(Collected::Missing) => found.missing.push(path),
            Err(error) => found.failed.push(error.to_string()),
        }
    }
    Ok(found)
}

fn belongs_to_another(path: &Path, others: &[LaunchRecord]) -> bool {
    RankLog::open(path).is_ok_and(|log| {
        log.properties
            .get("env.RANKSCOPE_LAUNCH")
            .is_some_and(|launch| others.iter().any(|other| other.launch == *launch))
    })
}

fn describe(path: &Path) -> String {
    const LONGEST: usize = 60;
    match RankLog::open(path) {
        Ok(log) => {
            let command = log.properties.get("command_line").map_or("", String::as_str);
            let mut shown: String = command.chars().take(LONGEST).collect();
            if shown.len() < command.len() {
                shown.push('…');
            }
            format!("process {} ({shown})", log.pid)
        }
        Err(_) => path.display().to_string(),
    }
}
