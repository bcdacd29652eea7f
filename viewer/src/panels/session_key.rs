//! Identity of a session. What a panel computed for one session is not valid for another.

use crate::model::Opened;
use std::path::PathBuf;

/// A session as written by one merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKey {
    path: PathBuf,
    written_unix_ns: i64,
}

impl SessionKey {
    /// Returns the key of an open session.
    pub fn of(opened: &Opened) -> Self {
        Self {
            path: opened.path.clone(),
            written_unix_ns: opened.session.written_unix_ns,
        }
    }

    /// Returns true if this is the key of `opened`.
    pub fn is_of(&self, opened: &Opened) -> bool {
        self.path == opened.path && self.written_unix_ns == opened.session.written_unix_ns
    }
}
