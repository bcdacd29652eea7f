//! End of a job that records in flight mode: whether it succeeded, and the removal of what was recorded of it.

use super::ending::Ending;
use super::record::{self, LaunchRecord};
use super::run_directory;
use anyhow::{Context, Result};
use rankscope_ranklog::reader::{Ending as LogEnding, RankLog};
use rankscope_ranklog::recorder::{FLIGHT_CLOSING_PROPERTY, FLIGHT_PROPERTY};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Whether all launches that record into this directory succeeded at the first attempt, and no process was killed.
pub fn has_succeeded(run_dir: &Path) -> Result<bool> {
    let launches = record::read_all(run_dir);
    if launches
        .iter()
        .any(|launch| launch.ending != Some(Ending::Status(0)))
    {
        return Ok(false);
    }
    Ok(logs_of(run_dir, &launches)?.iter().all(|(_, log)| {
        let restarts = log.properties.get("env.TORCHELASTIC_RESTART_COUNT");
        let is_first = restarts.is_none_or(|restarts| restarts == "0");
        // A collector completes the log of a process whose exit did not leave the time to do it.
        let has_ended = !log.was_collected || log.properties.contains_key(FLIGHT_CLOSING_PROPERTY);
        log.ending == LogEnding::Closed && has_ended && is_first
    }))
}

/// Removes the logs of these launches in flight mode. Other logs in the same directory stay.
pub fn discard(run_dir: &Path) -> Result<()> {
    for (path, log) in logs_of(run_dir, &record::read_all(run_dir))? {
        if !log.properties.contains_key(FLIGHT_PROPERTY) {
            continue;
        }
        match fs::remove_file(&path) {
            // Another launch that ended at the same time removed it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.with_context(|| format!("cannot remove {}", path.display()))?,
        }
    }
    Ok(())
}

/// Returns the logs of the processes of these launches.
fn logs_of(run_dir: &Path, launches: &[LaunchRecord]) -> Result<Vec<(PathBuf, RankLog)>> {
    let mut found = Vec::new();
    for path in run_directory::logs(run_dir)? {
        let Ok(log) = RankLog::open(&path) else { continue };
        let launch = log.properties.get("env.RANKSCOPE_LAUNCH");
        if launches.iter().any(|known| Some(&known.launch) == launch) {
            found.push((path, log));
        }
    }
    Ok(found)
}
