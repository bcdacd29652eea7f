//! Errors of an attempt at a unit.

use crate::merge::error::MergeError;
use std::io;
use std::path::Path;

/// Error that ends an attempt.
#[derive(Debug, thiserror::Error)]
pub enum UnitError {
    /// A file cannot be read or written. Another attempt may succeed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The unit is not for this process, or its logs have changed. Another attempt gives the same error.
    #[error("{0}")]
    Refused(String),
}

impl From<MergeError> for UnitError {
    fn from(error: MergeError) -> Self {
        Self::Io(io::Error::other(error.to_string()))
    }
}

impl UnitError {
    /// Returns the error for a file that this process may not use.
    pub fn no_access(path: &Path) -> Self {
        Self::Refused(format!(
            "{}: this executor may not use the file; name a directory above it with --root",
            path.display()
        ))
    }
}
