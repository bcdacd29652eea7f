//! The last seconds of a running job as a session.

use rankscope_analysis::ingest::part::Last;
use rankscope_analysis::{MergeError, MergeOptions, merge_last, summarize_last};
use rankscope_formats::session::{InstanceRow, Session};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// The last part of a run.
#[derive(Debug)]
pub struct Window {
    /// Its figures.
    pub session: Session,
    /// Its instances, in no particular order, if they were requested.
    pub instances: Vec<InstanceRow>,
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
    output: Output,
}

/// What a window has in addition to the session.
#[derive(Debug)]
enum Output {
    /// Nothing.
    Nothing,
    /// The rows of its instances, in memory.
    Instances,
    /// All tables, in this folder.
    Tables(TempDir),
}

impl WindowReader {
    /// Creates a reader of the last part of these run directories. It writes the tables of a window into a temporary
    /// folder.
    pub fn new(directories: Vec<PathBuf>, last: Last) -> Result<Self, WindowError> {
        Ok(Self {
            directories,
            last,
            output: Output::Tables(TempDir::with_prefix("rankscope-live-")?),
        })
    }

    /// Creates a reader of sessions without tables. A read of thousands of ranks then takes a fraction of the time.
    pub fn without_tables(directories: Vec<PathBuf>, last: Last) -> Self {
        Self {
            directories,
            last,
            output: Output::Nothing,
        }
    }

    /// Creates a reader of sessions without tables, and of the rows of their instances.
    pub fn with_instances(directories: Vec<PathBuf>, last: Last) -> Self {
        Self {
            directories,
            last,
            output: Output::Instances,
        }
    }

    /// Changes the length of the windows from the next read on.
    pub fn set_last(&mut self, last: Last) {
        self.last = last;
    }

    /// Reads the last part as it is now. The tables of the previous window are replaced.
    pub fn read(&mut self) -> Result<Window, WindowError> {
        let (taken, started) = (SystemTime::now(), Instant::now());
        let mut instances = Vec::new();
        let session = match &self.output {
            Output::Tables(folder) => {
                let options = MergeOptions {
                    directories: self.directories.clone(),
                    output: folder.path().join("session"),
                    threads: Some(1),
                    most_pending: None,
                    origins: Vec::new(),
                };
                merge_last(&options, self.last, &mut |_| {})?
            }
            Output::Instances => {
                let (sender, rows) = channel();
                let session = summarize_last(&self.directories, self.last, Some(sender))?;
                instances.extend(rows.into_iter().flatten());
                session
            }
            Output::Nothing => summarize_last(&self.directories, self.last, None)?,
        };
        Ok(Window {
            session,
            instances,
            taken,
            cost: started.elapsed(),
        })
    }

    /// Returns the folder of the tables of the last window, if this reader writes tables.
    pub fn tables(&self) -> Option<&Path> {
        match &self.output {
            Output::Tables(folder) => Some(folder.path()),
            Output::Nothing | Output::Instances => None,
        }
    }
}
