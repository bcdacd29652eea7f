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

    /// Returns the directories with copies.
    pub(super) fn copies(&self) -> Vec<PathBuf> {
        self.origins.iter().map(|(copied, _)| copied.clone()).collect()
    }

    /// Replaces the paths of copies in a text by those of the originals.
    pub(super) fn name_origin(&self, text: &mut String) {
        for (copied, origin) in &self.origins {
            let copied = copied.display().to_string();
            if text.contains(&copied) {
                *text = replace_path(text, &copied, &origin.display().to_string());
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

/// Replaces a path in a text. Longer names that begin with it stay.
fn replace_path(text: &str, path: &str, by: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(path) {
        let goes_on = |next: char| next.is_alphanumeric() || matches!(next, '-' | '_');
        let is_longer = after.chars().next().is_some_and(goes_on);
        replaced.push_str(before);
        replaced.push_str(if is_longer { path } else { by });
        rest = after;
    }
    replaced + rest
}

/// Returns a path that other processes resolve to the same file. Links stay, because mounts may differ between machines.
/// Only `..` is resolved: executors with restricted directories refuse it.
pub fn shared_path(path: &Path) -> io::Result<PathBuf> {
    if path.components().any(|part| part == Component::ParentDir) {
        return path.canonicalize();
    }
    std::path::absolute(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_paths_are_replaced() {
        let replaced = |text| replace_path(text, "/tmp/run-1", "s3://runs/node1");
        assert_eq!(replaced("/tmp/run-1/a.rslog"), "s3://runs/node1/a.rslog");
        assert_eq!(
            replaced("/tmp/run-10/a: not /tmp/run-1."),
            "/tmp/run-10/a: not s3://runs/node1."
        );
        assert_eq!(replaced("/tmp/run-1"), "s3://runs/node1");
        assert_eq!(replaced("none"), "none");
    }
}
