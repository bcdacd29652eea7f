//! File of a period with the numbers that its logs have at its end ([`Carried`]). The merge of the next period needs them.

use crate::ingest::between::LogId;
use crate::merge::checked_file;
use crate::rank::Carried;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Name of the file in the session directory of a period.
pub const CARRIED_FILE: &str = "carried";

/// Numbers of the logs of a run.
pub type CarriedLogs = BTreeMap<LogId, Arc<Carried>>;

/// Version of what is counted, and how. Files of other versions are not read.
const VERSION: u32 = 1;

/// Content of the file.
#[derive(Serialize, Deserialize)]
struct CarriedFile {
    version: u32,
    logs: Vec<(LogId, Arc<Carried>)>,
}

/// Writes the numbers of logs. A log whose numbers are unknown has no entry.
pub fn write(period: &Path, logs: &CarriedLogs) -> io::Result<()> {
    let content = CarriedFile {
        version: VERSION,
        logs: logs.iter().map(|(id, carried)| (*id, carried.clone())).collect(),
    };
    checked_file::write(&period.join(CARRIED_FILE), &content).map(drop)
}

/// Reads the numbers of logs. A period without the file has none.
///
/// # Errors
/// The file cannot be read, or another version wrote it.
pub fn read(period: &Path) -> io::Result<CarriedLogs> {
    let path = period.join(CARRIED_FILE);
    if !path.exists() {
        return Ok(CarriedLogs::new());
    }
    let (content, _) = checked_file::read::<CarriedFile>(&path)?;
    if content.version != VERSION {
        return Err(io::Error::other(format!(
            "{}: it has version {}, and this program reads version {VERSION}",
            path.display(),
            content.version
        )));
    }
    Ok(content.logs.into_iter().collect())
}
