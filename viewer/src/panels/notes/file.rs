//! The notes file of a session: versioned JSON that is replaced completely or not at all.

use super::Note;
use rankscope_formats::files;
use rankscope_formats::session::{SESSION_DIRECTORY, beside_session};
use rankscope_formats::whole_file::WholeFile;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of the file.
pub const NAME: &str = "view-notes.json";

/// Version of the layout. A reader refuses newer versions.
const VERSION: u32 = 1;

/// Returns the path of the notes of a session.
///
/// The file is in the run directory, next to the session, so that another merge does not remove it. For a session
/// without a run directory it is inside the session.
pub fn path_of(session: &Path) -> PathBuf {
    // A session may be given as `.`. A path that cannot be resolved is used as it is.
    let full = fs::canonicalize(session).unwrap_or_else(|_| session.to_path_buf());
    match full.file_name().is_some_and(|name| name == SESSION_DIRECTORY) {
        true => beside_session(&full).join(NAME),
        false => full.join(NAME),
    }
}

/// Error of reading notes.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system reported an error.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is damaged, or is no notes file.
    #[error("{}, byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Byte offset of the problem in the file.
        offset: usize,
        /// Description of the problem.
        what: String,
    },
    /// A newer program wrote the file.
    #[error("{} has version {found}; this program reads versions up to {VERSION}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of its layout.
        found: u32,
    },
}

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    notes: &'a [Note],
}

#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Deserialize)]
struct Read {
    notes: Vec<Note>,
}

/// Reads the notes of a file. A missing file has none.
pub fn read(path: &Path) -> Result<Vec<Note>, ReadError> {
    let bytes = match files::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(ReadError::Io {
                path: path.to_path_buf(),
                source,
            });
        }
    };
    let damaged = |offset: usize, what: String| ReadError::Damaged {
        path: path.to_path_buf(),
        offset,
        what,
    };
    let text = std::str::from_utf8(&bytes)
        .map_err(|error| damaged(error.valid_up_to(), "not valid UTF-8".to_owned()))?;
    let not_json =
        |error: serde_json::Error| damaged(offset(text, error.line(), error.column()), message(&error));
    // The version comes first, because a newer layout is not damage.
    let head: Head = serde_json::from_str(text).map_err(not_json)?;
    if head.version > VERSION {
        return Err(ReadError::Newer {
            path: path.to_path_buf(),
            found: head.version,
        });
    }
    let read: Read = serde_json::from_str(text).map_err(not_json)?;
    Ok(read.notes)
}

/// Returns the byte offset of a line and column, which count from 1, columns in bytes.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before = text.split_inclusive('\n').take(line.saturating_sub(1));
    let start: usize = before.map(str::len).sum();
    (start + column.saturating_sub(1)).min(text.len())
}

/// Returns the message without line and column, because the error has an offset instead.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).map_or(text.clone(), str::to_owned)
}

/// Replaces the file. The new content is on the disk before it gets the name.
pub fn write(path: &Path, notes: &[Note]) -> io::Result<()> {
    let written = Written {
        version: VERSION,
        notes,
    };
    let mut text = serde_json::to_vec_pretty(&written)?;
    text.push(b'\n');
    let mut file = WholeFile::create(path)?;
    file.write_all(&text)?;
    file.finish_durably()
}
