//! Where the things are that a summary points to.

use std::path::PathBuf;

/// Files that belong to a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The session directory.
    pub session: PathBuf,
    /// The trace, if one was written.
    pub trace: Option<PathBuf>,
    /// The page, if it was written.
    pub report: Option<PathBuf>,
}
