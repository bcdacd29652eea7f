//! Builds the viewer's index (`formats::index`) from a session's tables, rank by rank, in memory that does not grow
//! with the run.
//!
//! In the order of the data: [`stream`] reads a table in order of time, [`parts`] computes where the rank's time went.
//! [`build`] creates the lanes of one rank, with its [`counters`], and [`ensure`] those of all ranks without an index.
//! The index is a separate pass. The merge writes tables as fast as it matches, and with a thousand ranks none has
//! memory to spare. Here, one rank at a time has all of the memory.

mod build;
mod classify;
mod counters;
mod ensure;
mod parts;
mod stream;

pub use build::build;
pub use ensure::{ensure, is_current};

use rankscope_formats::index::ViewError;
use rankscope_formats::session::TableError;
use std::path::PathBuf;

/// Error that prevents an index.
#[derive(Debug, thiserror::Error)]
pub enum ViewBuildError {
    /// A table could not be read.
    #[error("cannot index the session for the viewer: {0}")]
    Table(#[from] TableError),
    /// The index could not be written.
    #[error("cannot write the viewer's index: {0}")]
    View(#[from] ViewError),
    /// A session in an object store lacks indexes. Only a merge writes there.
    #[error("{missing} ranks of the session in {path} have no index; merge the run again: rankscope merge URL", path = path.display())]
    Remote {
        /// Path of the session.
        path: PathBuf,
        /// Number of ranks without an index.
        missing: usize,
    },
    /// A thread panicked, which is a bug.
    #[error("an indexing thread ended unexpectedly; please report this")]
    Worker,
}
