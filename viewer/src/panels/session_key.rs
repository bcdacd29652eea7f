//! What tells one session from another: what a panel has made of one is of no use for the next.

use crate::model::Opened;
use std::path::PathBuf;

/// A session as it was merged once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKey {
    path: PathBuf,
    written_unix_ns: i64,
}

impl SessionKey {
    /// Of an open session.
    pub fn of(opened: &Opened) -> Self {
        Self {
            path: opened.path.clone(),
            written_unix_ns: opened.session.written_unix_ns,
        }
    }

    /// True of the session that it was made of.
    pub fn is_of(&self, opened: &Opened) -> bool {
        self.path == opened.path && self.written_unix_ns == opened.session.written_unix_ns
    }
}
