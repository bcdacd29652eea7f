//! Paths of a session's files.

use std::path::PathBuf;

/// Files that belong to a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Session directory.
    pub session: PathBuf,
    /// Trace, if it was written.
    pub trace: Option<PathBuf>,
    /// HTML page, if it was written.
    pub report: Option<PathBuf>,
}
