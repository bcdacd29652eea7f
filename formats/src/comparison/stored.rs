//! Entry of a baseline: a file with the run summaries of one batch.

use super::RunSummary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the layout of an entry.
pub const STORED_VERSION: u32 = 1;

/// Oldest reader that understands entries of this version. A reader accepts every entry whose `readable_from` is at
/// most its own [`STORED_VERSION`]. It ignores fields that it does not know.
pub const READABLE_FROM: u32 = 1;

/// Batch: runs that were recorded together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoredBatch {
    /// [`STORED_VERSION`] of the program that wrote the entry.
    pub version: u32,
    /// Oldest reader that understands the entry: see [`READABLE_FROM`].
    pub readable_from: u32,
    /// Branch of the runs.
    pub branch: String,
    /// Machine, or kind of machine, on which the runs were recorded.
    pub machine: String,
    /// Name of the job.
    pub job: String,
    /// Commit of the recorded program, if it was given or found.
    #[serde(default)]
    pub commit: Option<String>,
    /// Time at which the entry was added, in nanoseconds since 1970.
    pub added_unix_ns: i64,
    /// Summaries of the runs.
    pub runs: Vec<RunSummary>,
}

/// Error while reading an entry.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// The file is damaged, or is not an entry.
    #[error("line {line}, column {column}: {source}")]
    Format {
        /// Line of the error.
        line: usize,
        /// Column of the error.
        column: usize,
        /// Cause of the error.
        source: serde_json::Error,
    },
    /// A newer program is needed to read the entry.
    #[error("it has layout {version}, which takes a newer rankscope: this one reads up to {STORED_VERSION}")]
    Newer {
        /// Version of the entry's layout.
        version: u32,
    },
    /// The checksum does not match the content.
    #[error("its checksum is wrong: the file was damaged or edited")]
    Checksum,
}

#[derive(Deserialize)]
struct Head {
    version: u32,
    readable_from: u32,
}

/// Prefix of the last line of a file: the checksum of all lines before it.
const CHECKSUM: &str = "crc32 ";

impl StoredBatch {
    /// Returns the file content: one line of JSON that people can read, and one line with its checksum.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(format!("{CHECKSUM}{sum:08x}\n").as_bytes());
        Ok(bytes)
    }

    /// Parses the content of a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoredError> {
        let format = |source: serde_json::Error| StoredError::Format {
            line: source.line(),
            column: source.column(),
            source,
        };
        // The version is read first, because a newer layout may differ in everything else.
        let mut first = serde_json::Deserializer::from_slice(bytes);
        let head = Head::deserialize(&mut first).map_err(format)?;
        if head.readable_from > STORED_VERSION {
            return Err(StoredError::Newer {
                version: head.version,
            });
        }
        let trimmed = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let cut = trimmed
            .iter()
            .rposition(|&byte| byte == b'\n')
            .ok_or(StoredError::Checksum)?;
        let (text, last) = trimmed.split_at(cut + 1);
        let expected = format!("{CHECKSUM}{:08x}", crc32fast::hash(text));
        if last != expected.as_bytes() {
            return Err(StoredError::Checksum);
        }
        serde_json::from_slice(text).map_err(format)
    }
}
