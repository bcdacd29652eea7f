//! A baseline's entry: the summaries of a batch of runs, as a file.

use super::RunSummary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of an entry's layout.
pub const STORED_VERSION: u32 = 1;

/// The oldest reader that understands entries of this version. A reader takes every entry whose `readable_from` is not above its
/// own [`STORED_VERSION`], and ignores fields that it does not know.
pub const READABLE_FROM: u32 = 1;

/// Runs that were recorded together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoredBatch {
    /// [`STORED_VERSION`] of the program that wrote it.
    pub version: u32,
    /// See [`READABLE_FROM`].
    pub readable_from: u32,
    /// Branch that the runs are of.
    pub branch: String,
    /// Machine, or kind of machine, that they ran on.
    pub machine: String,
    /// Job that ran.
    pub job: String,
    /// Commit of the program that ran, where it was given or found.
    #[serde(default)]
    pub commit: Option<String>,
    /// When it was added, ns since 1970.
    pub added_unix_ns: i64,
    /// The runs.
    pub runs: Vec<RunSummary>,
}

/// An entry could not be read.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// It is damaged, or something else.
    #[error("line {line}, column {column}: {source}")]
    Format {
        /// Where: the line.
        line: usize,
        /// The column.
        column: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// It takes a newer program.
    #[error("it has layout {version}, which takes a newer rankscope: this one reads up to {STORED_VERSION}")]
    Newer {
        /// Its layout.
        version: u32,
    },
    /// Its checksum is another.
    #[error("its checksum is wrong: the file was damaged or edited")]
    Checksum,
}

#[derive(Deserialize)]
struct Head {
    version: u32,
    readable_from: u32,
}

/// The last line of a file: the checksum of the lines before.
const CHECKSUM: &str = "crc32 ";

impl StoredBatch {
    /// As a file: a line of JSON for people who look into it, and a line with its checksum.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(format!("{CHECKSUM}{sum:08x}\n").as_bytes());
        Ok(bytes)
    }

    /// Reads a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoredError> {
        let format = |source: serde_json::Error| StoredError::Format {
            line: source.line(),
            column: source.column(),
            source,
        };
        // The layout first: a newer one may be laid out otherwise in every other respect.
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
