//! Errors that prevent a merge.

use crate::ingest::IngestError;
use rankscope_formats::session::TableError;
use std::io;
use std::path::PathBuf;

/// Error that prevents a merge. Partly readable logs are no error; they are in the session's problems.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// No log could be read.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// A table could not be written.
    #[error("cannot write the session: {0}")]
    Table(#[from] TableError),
    /// The session directory cannot be written.
    #[error("cannot write the session to {path}: {source}")]
    Output {
        /// The directory or file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The session directory contains other files.
    #[error("{0} is not empty and contains no session; name another directory")]
    Occupied(PathBuf),
    /// The session has other periods, or cannot be read.
    #[error("{0}")]
    Periods(String),
    /// Units did not run.
    #[error("{0}")]
    Units(String),
    /// A decoding thread panicked, which is a bug.
    #[error("a decoding thread ended unexpectedly; please report this")]
    Worker,
}
