//! Opens the rank logs of run directories: finds them, completes them from live areas of this host, and opens all.
//!
//! A file that cannot be read becomes a problem. All other files are read nevertheless.

pub mod between;
pub mod gpu_samples;
pub mod hangs;
pub mod imported;
pub mod open_files;
pub mod part;
pub mod ras;
pub mod ray_tasks;
pub mod run_part;

use imported::NOTE;
use rankscope_formats::session::ProblemSummary;
use rankscope_ranklog::collect::{self, Collected};
use rankscope_ranklog::log_index::LogIndex;
use rankscope_ranklog::place::SEGMENT_EXTENSION;
use rankscope_ranklog::reader::{Ending, OpenError, RankLog};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum depth of the search below a run directory. One level per node or attempt is usual.
const MAX_DEPTH: usize = 3;
/// Maximum number of logs whose files stay open. Most systems permit 1,024 open files by default.
pub const MAX_OPEN_FILES: usize = 512;

/// An error that prevents reading any log.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The operating system reported an error.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Path of the directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The directories contain no rank log.
    #[error(
        "no rank log (*.{SEGMENT_EXTENSION}) in {0}: either no process of the job loaded the recorder (does the \
         launcher forward LD_PRELOAD?) or none of them communicated"
    )]
    Empty(String),
}

/// Open logs in the order of their names, and the problems met on the way.
pub struct Ingested {
    /// Open logs.
    pub logs: Vec<RankLog>,
    /// Files that could not be read or completed.
    pub problems: Vec<ProblemSummary>,
    /// Logs without an end: later records are missing.
    pub without_end: Vec<ProblemSummary>,
}

/// Finds, completes and opens the logs of these directories. A path may also be a log file.
pub fn ingest(directories: &[PathBuf]) -> Result<Ingested, IngestError> {
    ingest_with(directories, &[], &BTreeMap::new())
}

/// Opens logs as [`ingest`] does. Logs below `copies` are not completed: a live area belongs to the original. Logs with an index are
/// only read from where it begins.
pub fn ingest_with(
    directories: &[PathBuf],
    copies: &[PathBuf],
    indexes: &BTreeMap<PathBuf, LogIndex>,
) -> Result<Ingested, IngestError> {
    open_all(directories, Live::Completes { copies }, indexes)
}

/// What happens with the live areas of logs.
#[derive(Clone, Copy)]
enum Live<'a> {
    /// Those of dead processes go into their logs, unless the logs are copies.
    Completes { copies: &'a [PathBuf] },
    /// They are read where they are.
    StaysInPlace,
}

/// Opens a log, from where its index begins.
fn open(path: &Path, is_copy: bool, index: Option<&LogIndex>) -> Result<RankLog, OpenError> {
    if !is_copy {
        return match index {
            Some(index) => RankLog::open_with(path, index),
            None => RankLog::open(path),
        };
    }
    let part = match index {
        Some(index) => RankLog::open_part(path, index)?,
        None => None,
    };
    part.map_or_else(|| RankLog::open_with_live(path, None), Ok)
}

/// Opens logs without completing them, for a caller that reads a running job repeatedly. Live areas are read in place,
/// and each log is read once.
pub fn ingest_in_place(directories: &[PathBuf]) -> Result<Ingested, IngestError> {
    open_all(directories, Live::StaysInPlace, &BTreeMap::new())
}

fn open_all(
    directories: &[PathBuf],
    live: Live<'_>,
    indexes: &BTreeMap<PathBuf, LogIndex>,
) -> Result<Ingested, IngestError> {
    let mut paths = BTreeSet::new();
    let (mut problems, mut without_end) = (Vec::new(), Vec::new());
    for directory in directories {
        find_logs(directory, 0, &mut paths, &mut problems).map_err(|source| IngestError::Io {
            path: directory.clone(),
            source,
        })?;
    }
    if paths.is_empty() {
        let names: Vec<String> = directories
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        return Err(IngestError::Empty(names.join(", ")));
    }
    let has_many = paths.len() > MAX_OPEN_FILES;
    let mut logs = Vec::new();
    // A log may be reached twice, by a link or a copy. The random nonce of its process identifies it.
    let mut known = BTreeSet::new();
    for path in paths {
        let is_copy = match live {
            Live::Completes { copies } => copies.iter().any(|copy| path.starts_with(copy)),
            Live::StaysInPlace => false,
        };
        if matches!(live, Live::Completes { .. }) && !is_copy {
            complete(&path, &mut problems);
        }
        match open(&path, is_copy, indexes.get(&path)) {
            Ok(mut log) => {
                if has_many {
                    log.close_file();
                }
                if !known.insert((log.nonce, log.pid)) {
                    problems.push(problem(
                        &path,
                        "a copy of a log that was already read; it was excluded".to_owned(),
                    ));
                    continue;
                }
                match log.ending {
                    Ending::Torn => without_end.push(problem(
                        &path,
                        "the process did not close this log and its live area was not found, so its last records are \
                         missing (to complete a log of another machine, run `rankscope merge` on that machine)"
                            .to_owned(),
                    )),
                    // A caller that reads repeatedly expects running processes.
                    Ending::Running if matches!(live, Live::StaysInPlace) => {}
                    Ending::Running => without_end.push(problem(
                        &path,
                        "the process is still running: this session excludes what it records from now on".to_owned(),
                    )),
                    Ending::Closed | Ending::LiveArea => {}
                }
                let notes = log
                    .properties
                    .range(NOTE.to_owned()..)
                    .take_while(|(key, _)| key.starts_with(NOTE));
                problems.extend(notes.map(|(_, note)| problem(&path, note.clone())));
                logs.push(log);
            }
            Err(error) => problems.push(problem(&path, format!("the log could not be read: {error}"))),
        }
    }
    Ok(Ingested {
        logs,
        problems,
        without_end,
    })
}

/// Returns true if a merge reads a file of this name in a run directory.
pub fn is_input(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| extension == SEGMENT_EXTENSION)
        || hangs::is_report(path)
        || gpu_samples::is_samples(path)
        || ras::is_status(path)
        || ray_tasks::is_timeline(path)
}

/// Copies the live area of a dead process into its log, so that the run directory is complete.
fn complete(path: &Path, problems: &mut Vec<ProblemSummary>) {
    match collect::collect(path) {
        Ok(Collected::Nothing | Collected::StillRunning | Collected::Completed | Collected::Missing) => {}
        // The live area stays in place, and `open` reads it there.
        Err(error) => problems.push(problem(path, error.to_string())),
    }
}

fn problem(path: &Path, what: String) -> ProblemSummary {
    ProblemSummary::of_file(path, None, what)
}

fn find_logs(
    path: &Path,
    depth: usize,
    out: &mut BTreeSet<PathBuf>,
    problems: &mut Vec<ProblemSummary>,
) -> io::Result<()> {
    if fs::metadata(path)?.is_file() {
        out.insert(path.to_path_buf());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?.path();
        if entry
            .extension()
            .is_some_and(|extension| extension == SEGMENT_EXTENSION)
        {
            out.insert(entry);
        } else if depth < MAX_DEPTH
            && fs::symlink_metadata(&entry).is_ok_and(|meta| meta.is_dir())
            && let Err(error) = find_logs(&entry, depth + 1, out, problems)
        {
            problems.push(problem(
                &entry,
                format!("the directory could not be read: {error}"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_ranklog::recorder::{Options, Recorder};
    use std::time::Duration;

    #[test]
    fn the_error_for_a_directory_without_logs_says_what_to_look_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = ingest(&[folder.path().to_path_buf()]).err().expect("an error");
        assert!(error.to_string().contains("LD_PRELOAD"));
        assert!(ingest(&[folder.path().join("nothing")]).is_err());
    }

    /// A copy on the machine of the process names its live area, too. It belongs to the original.
    #[test]
    fn the_live_area_of_a_copy_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        // It is never freed, as in a real process.
        let recorder: &'static Recorder = Box::leak(Box::new(Recorder::new()));
        let mut options = Options::new(folder.path().to_path_buf());
        options.live_bytes = 1 << 20;
        options.min_free_bytes = Some(0);
        std::thread::spawn(move || recorder.run(&options, |_| {}, |_| 0, || {}));
        recorder.wait_until_settled(Duration::from_secs(10));
        let directories = [folder.path().to_path_buf()];
        let ending = |copies: &[PathBuf]| {
            let found = ingest_with(&directories, copies, &BTreeMap::new()).expect("logs");
            let log = found.logs.first().expect("a log");
            let live = PathBuf::from(log.properties.get("live_path").expect("a live area"));
            (log.ending, found.without_end.len(), live.exists())
        };
        assert_eq!(ending(&[]), (Ending::Running, 1, true));
        assert_eq!(ending(&directories), (Ending::Torn, 1, true));
        assert_eq!(ending(&[folder.path().join("other")]), (Ending::Running, 1, true));
        recorder.finish(Duration::from_secs(10));
    }

    #[test]
    fn a_file_that_is_not_a_log_is_a_problem() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("node1")).expect("mkdir");
        fs::write(folder.path().join("node1/x.rslog"), b"not a log").expect("write");
        let found = ingest(&[folder.path().to_path_buf()]).expect("ingest");
        assert!(found.logs.is_empty());
        assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
    }
}
