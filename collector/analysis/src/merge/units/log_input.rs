//! A log that a unit opens without looking at frames outside of its part.

use crate::merge::units::error::UnitError;
use rankscope_ranklog::log_index::LogIndex;
use rankscope_ranklog::reader::RankLog;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Path and index of a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogInput {
    /// Absolute path, as bytes.
    path: Vec<u8>,
    nonce: u64,
    pid: u32,
    small_frames: Vec<u64>,
    resume: u64,
    until: u64,
    last_ticks: u64,
}

impl LogInput {
    /// Names a log by its absolute path.
    pub fn new(path: &Path, index: LogIndex) -> Self {
        Self {
            path: path.as_os_str().as_bytes().to_vec(),
            nonce: index.nonce,
            pid: index.pid,
            small_frames: index.small_frames,
            resume: index.resume,
            until: index.until,
            last_ticks: index.last_ticks,
        }
    }

    /// Returns the path.
    pub fn path(&self) -> PathBuf {
        OsString::from_vec(self.path.clone()).into()
    }

    /// Opens the log. `allows` decides about the files that this process may read.
    pub fn open(self, allows: &dyn Fn(&Path) -> bool) -> Result<RankLog, UnitError> {
        let path = self.path();
        if !allows(&path) {
            return Err(UnitError::no_access(&path));
        }
        let index = LogIndex {
            nonce: self.nonce,
            pid: self.pid,
            small_frames: self.small_frames,
            resume: self.resume,
            until: self.until,
            last_ticks: self.last_ticks,
        };
        let opened = RankLog::open_part(&path, &index);
        let log = opened.map_err(|error| UnitError::Io(io::Error::other(error.to_string())))?;
        log.ok_or_else(|| {
            UnitError::Refused(format!(
                "{}: the log was replaced since the merge began; merge again",
                path.display()
            ))
        })
    }
}
