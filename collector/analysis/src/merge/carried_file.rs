//! File of a period with the numbers that its logs have at its end ([`Carried`]). The merge of the next period needs them.

use crate::ingest::between::LogId;
use crate::merge::checked_file;
use crate::merge::version::version;
use crate::rank::Carried;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Name of the file in the session directory of a period.
const CARRIED_FILE: &str = "carried";

/// Numbers of the logs of a run.
pub type CarriedLogs = BTreeMap<LogId, Arc<Carried>>;

/// Content of the file.
#[derive(Serialize, Deserialize)]
struct CarriedFile {
    /// Version of the program that wrote the file. Others may count otherwise.
    version: String,
    logs: Vec<(LogId, Arc<Carried>)>,
}

/// Writes the numbers of logs. Logs without any have no entry.
pub fn write(period: &Path, logs: &CarriedLogs) -> io::Result<()> {
    let logs = logs.iter().filter(|(_, carried)| !carried.is_empty());
    let content = CarriedFile {
        version: version(),
        logs: logs.map(|(id, carried)| (*id, carried.clone())).collect(),
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
    if content.version != version() {
        return Err(io::Error::other(format!(
            "{}: written by rankscope {}, and this is rankscope {}",
            path.display(),
            content.version,
            version()
        )));
    }
    Ok(content.logs.into_iter().collect())
}
