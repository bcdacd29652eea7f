//! Options of a merge, with their defaults.

use crate::matching::{MAX_PENDING, stride};
use rankscope_formats::session::Session;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Input and output of a merge.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// Run directories (or logs) of one job, from one node or several.
    pub directories: Vec<PathBuf>,
    /// Session directory. It is created; an earlier session in it is replaced.
    pub output: PathBuf,
    /// Number of threads in addition to the matching thread; `None` for one per processor.
    pub threads: Option<usize>,
    /// Maximum number of pending calls; `None` for enough for half a million.
    pub most_pending: Option<usize>,
    /// Directories with copies, and the URLs of the originals. The session names the URLs.
    pub origins: Vec<(PathBuf, PathBuf)>,
}

impl MergeOptions {
    /// Returns the options to merge run directories into a session directory, with all defaults.
    pub fn new(directories: Vec<PathBuf>, output: PathBuf) -> Self {
        Self {
            directories,
            output,
            threads: None,
            most_pending: None,
            origins: Vec::new(),
        }
    }

    /// Returns the options to merge one run directory into its folder `session`.
    pub fn of_run(directory: &Path) -> Self {
        Self::new(vec![directory.to_path_buf()], directory.join("session"))
    }

    /// Names the origins of copied files in a session.
    pub(super) fn name_origins(&self, session: &mut Session) {
        let restore = |text: &mut String| self.name_origin(text);
        session.directories.iter_mut().for_each(restore);
        session.ranks.iter_mut().for_each(|rank| restore(&mut rank.log));
        session
            .losses
            .iter_mut()
            .for_each(|loss| restore(&mut loss.source));
        for problem in &mut session.problems.listed {
            restore(&mut problem.what);
            problem.file.iter_mut().for_each(restore);
        }
    }

    /// Replaces the paths of copies in a text by those of the originals.
    pub(super) fn name_origin(&self, text: &mut String) {
        for (copied, origin) in &self.origins {
            let copied = copied.display().to_string();
            if text.contains(&copied) {
                *text = text.replace(&copied, &origin.display().to_string());
            }
        }
    }

    /// Returns a path for messages: that of the original if it is a copy.
    pub(super) fn shown(&self, path: &Path) -> String {
        let mut shown = path.display().to_string();
        self.name_origin(&mut shown);
        shown
    }

    /// Returns the number of decoding threads.
    pub(super) fn decoding_threads(&self) -> usize {
        self.threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from))
    }

    /// Returns the maximum number of pending calls of a job with this many ranks.
    pub(super) fn pending_limit(&self, ranks: usize) -> usize {
        self.most_pending
            .unwrap_or_else(|| MAX_PENDING.max(2 * ranks * stride(ranks)))
    }
}

/// Returns a path that other processes resolve to the same file. Links stay, because mounts may differ between machines.
/// Only `..` is resolved: executors with restricted directories refuse it.
pub fn shared_path(path: &Path) -> io::Result<PathBuf> {
    if path.components().any(|part| part == Component::ParentDir) {
        return path.canonicalize();
    }
    std::path::absolute(path)
}
