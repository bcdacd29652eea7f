//! The last seconds of a running job as a session.

use rankscope_analysis::ingest::part::Last;
use rankscope_analysis::{MergeError, MergeOptions, merge_last, summarize_last};
use rankscope_formats::session::Session;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// The last part of a run.
#[derive(Debug)]
pub struct Window {
    /// Its figures.
    pub session: Session,
    /// Time at which reading began.
    pub taken: SystemTime,
    /// Time that reading took.
    pub cost: Duration,
}

/// An error that prevents reading a window.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// No folder for the tables could be made.
    #[error("cannot make a folder for the tables of the last seconds: {0}")]
    Folder(#[from] io::Error),
    /// The logs could not be merged.
    #[error(transparent)]
    Merge(#[from] MergeError),
}

/// Reads windows of one run, one after the other.
#[derive(Debug)]
pub struct WindowReader {
    directories: Vec<PathBuf>,
    last: Last,
    /// Missing if no tables are written.
    folder: Option<TempDir>,
}

impl WindowReader {
    /// Creates a reader of the last part of these run directories. It writes the tables of a window into a temporary
    /// folder.
    pub fn new(directories: Vec<PathBuf>, last: Last) -> Result<Self, WindowError> {
        Ok(Self {
            directories,
            last,
            folder: Some(TempDir::with_prefix("rankscope-live-")?),
        })
    }

    /// Creates a reader of sessions without tables. A read of thousands of ranks then takes a fraction of the time.
    pub fn without_tables(directories: Vec<PathBuf>, last: Last) -> Self {
        Self {
            directories,
            last,
            folder: None,
        }
    }

    /// Changes the length of the windows from the next read on.
    pub fn set_last(&mut self, last: Last) {
        self.last = last;
    }

    /// Reads the last part as it is now. The tables of the previous window are replaced.
    pub fn read(&mut self) -> Result<Window, WindowError> {
        let (taken, started) = (SystemTime::now(), Instant::now());
        let session = match &self.folder {
            Some(folder) => {
                let options = MergeOptions {
                    directories: self.directories.clone(),
                    output: folder.path().join("session"),
                    threads: Some(1),
                    most_pending: None,
                };
                merge_last(&options, self.last, &mut |_| {})?
            }
            None => summarize_last(&self.directories, self.last)?,
        };
        Ok(Window {
            session,
            taken,
            cost: started.elapsed(),
        })
    }

    /// Returns the folder of the tables of the last window, if this reader writes tables.
    pub fn tables(&self) -> Option<&Path> {
        self.folder.as_ref().map(TempDir::path)
    }
}
