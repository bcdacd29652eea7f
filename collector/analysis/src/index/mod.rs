//! Makes the viewer's index (`formats::view`) from a session's tables: rank by rank, in memory that does not grow with
//! the run.
//!
//! In the order of the data: [`stream`] reads a table in order of time, [`parts`] finds where the
//! rank's time went, [`build`] makes the lanes of one rank, [`ensure`] those of all ranks that lack an index. A pass of
//! its own, and not a part of the merge: that writes tables as fast as it matches, and of a thousand ranks none has
//! memory to spare; here one rank at a time has all of it.

mod build;
mod classify;
mod ensure;
mod parts;
mod stream;

pub use build::build;
pub use ensure::{ensure, is_current};

use rankscope_formats::index::ViewError;
use rankscope_formats::session::TableError;

/// An index could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ViewBuildError {
    /// A table could not be read.
    #[error("cannot index the session for the viewer: {0}")]
    Table(#[from] TableError),
    /// The index could not be written.
    #[error("cannot write the viewer's index: {0}")]
    View(#[from] ViewError),
    /// A thread died: a bug.
    #[error("an indexing thread ended unexpectedly; please report this")]
    Worker,
}
