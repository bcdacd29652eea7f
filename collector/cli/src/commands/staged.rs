//! Merges of runs in object stores: the logs are copied to this machine and merged here, and the results are copied back.
//!
//! A merge reads each log completely, several times and at many places. One copy costs less than these requests. A merge in periods is
//! repeated, so its copies can stay: the next merge then copies only what is new.

use super::merge_periods::refuse_periods;
use super::print::message as warn;
use super::progress::Progress;
use super::results::{REPORT, TRACE};
use crate::launch::lock::MergeLock;
use crate::launch::{record, run_directory};
use anyhow::{Context, Result, bail};
use rankscope_analysis::ingest;
use rankscope_analysis::model::units;
use rankscope_formats::files::is_remote;
use rankscope_formats::session::{SESSION_DIRECTORY, SUMMARY_FILE};
use rankscope_ranklog::place::Room;
use rankscope_remote::copy::{self, Copied, Upload};
use rankscope_remote::kept_copy;
use rankscope_report::Places;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Results in a run directory that a merge replaces: the session alone, or all.
const RESULTS: [&str; 3] = ["session/", REPORT, TRACE];
/// Space for logs, session and temporary files of a merge, in bytes per byte of the logs. Measured with 1,024 ranks and 10⁷
/// operations, whose logs are compressed well: 107 MB, 652 MB and 580 MB.
const SPACE_PER_LOG_BYTE: u64 = 13;
/// Space for the trace, in bytes: its default limit.
const TRACE_BYTES: u64 = 1 << 30;

/// Directory of the output below that of the copies.
const OUTPUT: &str = "output";
/// File that says what a directory of copies is for.
const ABOUT: &str = "about.txt";

/// Directory of the copies.
enum Scratch {
    /// It is removed at the end.
    Temporary(TempDir),
    /// It stays for the next merge. Only one merge at a time uses it.
    Kept { path: PathBuf, _lock: MergeLock },
}

/// Copies of the inputs of a merge, and the place of its output.
pub struct Staged {
    scratch: Scratch,
    /// Directories of this machine, in the order of the arguments.
    pub directories: Vec<PathBuf>,
    /// Copies of directories in object stores, and their URLs.
    pub origins: Vec<(PathBuf, PathBuf)>,
    /// Directory of this machine that gets the output.
    pub output: PathBuf,
    /// Time at which the newest log was copied to its object store, in nanoseconds since 1970.
    pub newest_unix_ns: Option<i64>,
    /// URL to which the output is copied from there.
    upload_to: Option<PathBuf>,
}

impl Staged {
    /// Opens the directory below `scratch` that keeps the copies of these directories from merge to merge.
    pub fn keep(scratch: &Path, directories: &[PathBuf], output: &Path) -> Result<Self> {
        let names = directories.iter().map(PathBuf::as_path).chain([output]);
        // The same path, with or without a slash at its end.
        let names: Vec<String> = names
            .map(|path| path.display().to_string().trim_end_matches('/').to_owned())
            .collect();
        let about = names.join("\n");
        let check = crc32fast::hash(about.as_bytes());
        let path = scratch.join(format!("rankscope-periods-{check:08x}"));
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        // Executors have another working directory.
        let path = path
            .canonicalize()
            .with_context(|| format!("cannot resolve {}", path.display()))?;
        let lock = MergeLock::take(&path)?;
        let note = path.join(ABOUT);
        fs::write(&note, format!("Copies for rankscope merge --every:\n{about}\n"))
            .with_context(|| format!("cannot write {}", note.display()))?;
        Ok(Self::of(Scratch::Kept { path, _lock: lock }))
    }

    /// Creates a directory for copies below `scratch`, or below the directory for temporary files.
    pub fn create(scratch: Option<&Path>) -> Result<Self> {
        let parent = scratch.map_or_else(std::env::temp_dir, Path::to_path_buf);
        // Executors have another working directory.
        let parent = parent.canonicalize().unwrap_or(parent);
        let scratch = tempfile::Builder::new()
            .prefix("rankscope-merge-")
            .tempdir_in(&parent)
            .with_context(|| {
                format!(
                    "cannot create a directory for copies in {}; name another with --scratch",
                    parent.display()
                )
            })?;
        Ok(Self::of(Scratch::Temporary(scratch)))
    }

    fn of(scratch: Scratch) -> Self {
        Self {
            scratch,
            directories: Vec::new(),
            origins: Vec::new(),
            output: PathBuf::new(),
            newest_unix_ns: None,
            upload_to: None,
        }
    }

    /// Returns the directory of the copies.
    fn scratch(&self) -> &Path {
        match &self.scratch {
            Scratch::Temporary(directory) => directory.path(),
            Scratch::Kept { path, .. } => path,
        }
    }

    /// Returns the directory that is removed at the end, if there is one.
    pub fn temporary(&self) -> Option<PathBuf> {
        match &self.scratch {
            Scratch::Temporary(directory) => Some(directory.path().to_path_buf()),
            Scratch::Kept { .. } => None,
        }
    }

    /// Returns the directories that this merge may have locked, if they stay.
    pub fn locked(&self) -> Vec<PathBuf> {
        match &self.scratch {
            Scratch::Temporary(_) => Vec::new(),
            Scratch::Kept { path, .. } => vec![path.join(OUTPUT), path.clone()],
        }
    }

    /// Copies the logs of all directories in object stores, and chooses the directory of the output.
    pub fn fetch(&mut self, directories: &[PathBuf], output: &Path, progress: &Progress) -> Result<()> {
        for (number, directory) in directories.iter().enumerate() {
            if !is_remote(directory) {
                self.directories.push(directory.clone());
                continue;
            }
            let copied = self.scratch().join(format!("run-{number}"));
            self.fetch_one(directory, &copied, progress)?;
            self.origins.push((copied.clone(), directory.clone()));
            self.directories.push(copied);
        }
        if is_remote(output) {
            self.output = self.scratch().join(OUTPUT);
            self.origins.push((self.output.clone(), output.to_path_buf()));
            self.upload_to = Some(output.to_path_buf());
        } else {
            self.output = output.to_path_buf();
        }
        Ok(())
    }

    fn fetch_one(&mut self, directory: &Path, to: &Path, progress: &Progress) -> Result<()> {
        progress.report("listing the run", None);
        let files = copy::find(directory, is_input)?;
        // A merge on this machine expects them there, too.
        let is_log = |name: &str| !name.contains('/') && run_directory::is_log(Path::new(name));
        if !files.iter().any(|(name, _)| is_log(name)) {
            bail!("no rank logs (*.rslog) in {}", directory.display());
        }
        let missing = kept_copy::missing(&files, to, grows)?;
        self.newest_unix_ns = self.newest_unix_ns.max(missing.newest_unix_ns);
        let bytes = missing.bytes;
        self.check_space(directory, bytes)?;
        missing.copy(directory, &mut |done| {
            progress.report("copying logs", Some(done.bytes as f64 / bytes.max(1) as f64));
        })?;
        Ok(())
    }

    fn check_space(&self, directory: &Path, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let Ok(room) = Room::of(self.scratch(), Some(0)) else {
            // The copy will report the error.
            return Ok(());
        };
        let (place, free) = (self.scratch().parent().unwrap_or(self.scratch()), room.free_bytes);
        let shown = format!(
            "copies of the logs of {} take {}, and {} has {} free; name another directory with --scratch",
            directory.display(),
            units::bytes(bytes),
            place.display(),
            units::bytes(free)
        );
        if free < bytes.saturating_mul(2) {
            bail!("{shown}");
        }
        if free
            < bytes
                .saturating_mul(SPACE_PER_LOG_BYTE)
                .saturating_add(TRACE_BYTES)
        {
            warn(&format!("the merge may run out of space: {shown}"));
        }
        Ok(())
    }

    /// Copies the output to its object store, if it goes to one. `places` then has the URLs of the results.
    pub fn deliver(
        &self,
        places: &mut Places,
        only_session: bool,
        progress: &Progress,
    ) -> Result<Option<Copied>> {
        let Some(url) = &self.upload_to else {
            return Ok(None);
        };
        refuse_periods(url)?;
        let summary = format!("{SESSION_DIRECTORY}/{SUMMARY_FILE}");
        let bytes = bytes_below(&self.output);
        let upload = Upload {
            from: &self.output,
            to: url,
            last: &summary,
            replaced: if only_session { &RESULTS[..1] } else { &RESULTS },
        };
        let copied = copy::upload(&upload, &mut |done| {
            progress.report(
                "copying the session",
                Some(done.bytes as f64 / bytes.max(1) as f64),
            );
        })?;
        for place in [
            Some(&mut places.session),
            places.report.as_mut(),
            places.trace.as_mut(),
        ]
        .into_iter()
        .flatten()
        {
            if let Ok(name) = place.strip_prefix(&self.output) {
                *place = url.join(name);
            }
        }
        Ok(Some(copied))
    }
}

/// Returns true if a recording program only appends to this file of a run directory.
fn grows(name: &str) -> bool {
    let path = Path::new(name);
    run_directory::is_log(path) || path.extension().is_some_and(|extension| extension == "jsonl")
}

/// Returns true if a merge reads this file of a run directory.
fn is_input(name: &str) -> bool {
    let is_result = RESULTS.iter().any(|result| copy::is_part_of(name, result));
    let is_launch = name
        .strip_prefix(record::FOLDER)
        .is_some_and(|rest| rest.starts_with('/'));
    !is_result && (is_launch || ingest::is_input(Path::new(name)))
}

/// Removes a directory of copies, which other threads may still be writing.
pub fn remove(scratch: &Path) {
    for _ in 0..20 {
        if fs::remove_dir_all(scratch).is_ok() || !scratch.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the size of all files below a directory, in bytes, for the display of progress.
fn bytes_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_inputs_of_a_merge_are_copied() {
        for name in [
            "rank-0.rslog",
            "node1/rank-0.rslog",
            "heatmaps-x.rslog",
            "launches/node0-1.json",
            "nccl-ras.json",
            "ray-timeline.json.gz",
        ] {
            assert!(is_input(name), "{name}");
        }
        for name in [
            "model.ckpt",
            "session/operations/rank=0.parquet",
            "report.html",
            "report.html.bak",
            "launches",
        ] {
            assert!(!is_input(name), "{name}");
        }
    }
}
