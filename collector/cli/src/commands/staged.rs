//! Merges of runs in object stores: the logs are copied to this machine and merged here, and the results are copied back.
//!
//! A merge reads each log several times and at many places, and the logs of a run are read whole anyway.

use super::progress::Progress;
use super::results::{HEATMAPS, REPORT, SHARED_REPORT, TRACE};
use anyhow::{Context, Result, bail};
use rankscope_analysis::model::units;
use rankscope_formats::files::is_remote;
use rankscope_formats::session::{SESSION_DIRECTORY, SUMMARY_FILE};
use rankscope_ranklog::place::Room;
use rankscope_remote::copy::{self, Copied};
use rankscope_report::Places;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Results in a run directory. They are neither copied nor kept when the run is merged again.
const RESULTS: [&str; 3] = ["session/", REPORT, TRACE];
/// Other files in a run directory that a merge does not read.
const NOT_READ: [&str; 3] = [HEATMAPS, SHARED_REPORT, "view-notes.json"];
/// Needed space, compared with that of the logs: they, the session and the trace.
const SPACE_PER_LOG_BYTE: u64 = 3;

/// Copies of the inputs of a merge, and the place of its output.
pub struct Staged {
    /// Removed with this value.
    scratch: TempDir,
    /// Directories of this machine, in the order of the arguments.
    pub directories: Vec<PathBuf>,
    /// Copies, and the URLs from which they came.
    pub origins: Vec<(PathBuf, PathBuf)>,
    /// Directory of this machine that gets the output.
    pub output: PathBuf,
    /// Where the output goes from there.
    upload_to: Option<PathBuf>,
}

impl Staged {
    /// Creates a directory for copies below `scratch`, or below the directory for temporary files.
    pub fn create(scratch: Option<&Path>) -> Result<Self> {
        let parent = scratch.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let scratch = tempfile::Builder::new()
            .prefix("rankscope-merge-")
            .tempdir_in(&parent)
            .with_context(|| {
                format!(
                    "cannot create a directory for copies in {}; name another with --scratch",
                    parent.display()
                )
            })?;
        Ok(Self {
            scratch,
            directories: Vec::new(),
            origins: Vec::new(),
            output: PathBuf::new(),
            upload_to: None,
        })
    }

    /// Returns the directory of the copies.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Copies the logs of all directories in object stores.
    pub fn fetch(&mut self, directories: &[PathBuf], output: &Path, progress: &Progress) -> Result<()> {
        for (number, directory) in directories.iter().enumerate() {
            if !is_remote(directory) {
                self.directories.push(directory.clone());
                continue;
            }
            let copied = self.scratch.path().join(format!("run-{number}"));
            self.fetch_one(directory, &copied, progress)?;
            self.origins.push((copied.clone(), directory.clone()));
            self.directories.push(copied);
        }
        if is_remote(output) {
            self.output = self.scratch.path().join("output");
            self.upload_to = Some(output.to_path_buf());
        } else {
            self.output = output.to_path_buf();
        }
        Ok(())
    }

    fn fetch_one(&self, directory: &Path, to: &Path, progress: &Progress) -> Result<()> {
        progress.report("listing the run", None);
        let is_input = |name: &str| {
            !RESULTS
                .iter()
                .chain(&NOT_READ)
                .any(|other| name.starts_with(other))
        };
        let files = copy::find(directory, is_input)?;
        if !files.iter().any(|(name, _)| name.ends_with(".rslog")) {
            bail!("no rank logs (*.rslog) in {}", directory.display());
        }
        let bytes: u64 = files.iter().map(|(_, version)| version.bytes).sum();
        self.check_space(directory, bytes)?;
        std::fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
        copy::download(directory, &files, to, &mut |done| {
            progress.report("copying logs", Some(done.bytes as f64 / bytes.max(1) as f64));
        })?;
        Ok(())
    }

    fn check_space(&self, directory: &Path, bytes: u64) -> Result<()> {
        let Ok(room) = Room::of(self.scratch.path(), Some(0)) else {
            // The copy then gives the error.
            return Ok(());
        };
        let needed = bytes.saturating_mul(SPACE_PER_LOG_BYTE);
        if room.free_bytes < needed {
            bail!(
                "the logs of {} have {}, and merging them here needs about {}, but {} has {} free; name another directory with --scratch",
                directory.display(),
                units::bytes(bytes),
                units::bytes(needed),
                self.scratch
                    .path()
                    .parent()
                    .unwrap_or(self.scratch.path())
                    .display(),
                units::bytes(room.free_bytes)
            );
        }
        Ok(())
    }

    /// Copies the output to its object store, and names the results there.
    pub fn deliver(&self, places: &mut Places, progress: &Progress) -> Result<Option<Copied>> {
        let Some(url) = &self.upload_to else {
            return Ok(None);
        };
        let summary = format!("{SESSION_DIRECTORY}/{SUMMARY_FILE}");
        let copied = copy::upload(&self.output, url, &summary, &RESULTS, &mut |_| {
            progress.report("copying the session", None);
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
