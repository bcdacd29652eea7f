//! `cut.json`: where the logs were cut at the end of a period. The next period starts at the same ticks, so that no operation is in
//! both or in none.

use super::periods::PeriodsError;
use crate::{files, whole_file};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// Name of the file in the session directory of a period.
pub const CUT_FILE: &str = "cut.json";

/// Ticks at which logs were cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeriodCut {
    /// Time of the cut, in nanoseconds since 1970.
    pub unix_ns: i64,
    /// The logs: nonce of the process, process ID, tick of the cut, tick from which the next period is read, and last tick that the
    /// log had when the period was merged.
    pub logs: Vec<(u64, u32, u64, u64, u64)>,
}

impl PeriodCut {
    /// Reads the cut at the end of a period. Returns `None` if the period has none.
    pub fn read(period: &Path) -> Result<Option<Self>, PeriodsError> {
        let path = period.join(CUT_FILE);
        let name = || path.display().to_string();
        match files::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|source| PeriodsError::Format { path: name(), source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(PeriodsError::Io { path: name(), source }),
        }
    }

    /// Writes the cut at the end of a period. The file appears completely or not at all.
    pub fn write(&self, period: &Path) -> io::Result<()> {
        let text = super::layout::to_text(self)?;
        whole_file::write(&period.join(CUT_FILE), &text)
    }
}
