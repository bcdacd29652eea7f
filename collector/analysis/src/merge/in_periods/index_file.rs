//! File of a session in periods with the indexes of its logs. With it, a later merge does not look at what is in final periods.

use crate::merge::checked_file;
use rankscope_ranklog::log_index::LogIndex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Name of the file in the session directory.
const INDEX_FILE: &str = "logs";
/// Version of the layout. Files of other versions are ignored.
const VERSION: u32 = 1;

/// Content of the file.
#[derive(Serialize, Deserialize)]
struct IndexFile {
    version: u32,
    /// Time from which the logs are read, in nanoseconds since 1970.
    from_unix_ns: i64,
    logs: Vec<Indexed>,
}

#[derive(Serialize, Deserialize)]
struct Indexed {
    path: Vec<u8>,
    nonce: u64,
    pid: u32,
    resume: u64,
    small_frames: Vec<u64>,
}

/// Writes the indexes with which logs are read from a time on, in nanoseconds since 1970.
pub fn write<'a>(
    session: &Path,
    from_unix_ns: i64,
    logs: impl Iterator<Item = (&'a Path, LogIndex)>,
) -> io::Result<()> {
    let content = IndexFile {
        version: VERSION,
        from_unix_ns,
        logs: logs
            .map(|(path, index)| Indexed {
                path: path.as_os_str().as_bytes().to_vec(),
                nonce: index.nonce,
                pid: index.pid,
                resume: index.resume,
                small_frames: index.small_frames,
            })
            .collect(),
    };
    checked_file::write(&session.join(INDEX_FILE), &content).map(drop)
}

/// Reads the indexes of logs that are read from a time on, in nanoseconds since 1970, by their paths. There are none if the file is
/// missing, damaged, or of another version or a later time. The logs are then opened completely.
pub fn read(session: &Path, from_unix_ns: i64) -> BTreeMap<PathBuf, LogIndex> {
    let read = checked_file::read::<IndexFile>(&session.join(INDEX_FILE));
    let is_usable = |content: &IndexFile| content.version == VERSION && content.from_unix_ns <= from_unix_ns;
    let content = read.ok().filter(|(content, _)| is_usable(content));
    let logs = content.into_iter().flat_map(|(content, _)| content.logs);
    logs.map(|log| {
        let index = LogIndex {
            nonce: log.nonce,
            pid: log.pid,
            small_frames: log.small_frames,
            resume: log.resume,
            until: u64::MAX,
            last_ticks: 0,
        };
        (OsString::from_vec(log.path).into(), index)
    })
    .collect()
}
