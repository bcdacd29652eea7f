//! The file of notes beside a session: JSON with a version, replaced as a whole or not at all.

use super::Note;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What the file is called.
pub const NAME: &str = "view-notes.json";

/// Version of the layout; a reader refuses what is newer.
const VERSION: u32 = 1;

/// Where the notes of a session lie: beside it in its run, so that merging anew does not remove them; in it where it
/// stands alone.
pub fn path_of(session: &Path) -> PathBuf {
    // A session may be named from inside, as `.`; what cannot be resolved is taken as it is.
    let full = fs::canonicalize(session).unwrap_or_else(|_| session.to_path_buf());
    match full.parent() {
        Some(run) if full.file_name().is_some_and(|name| name == "session") => run.join(NAME),
        _ => full.join(NAME),
    }
}

/// Notes could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refused.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is damaged, or not a file of notes.
    #[error("{}, byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, bytes from its begin.
        offset: usize,
        /// What is wrong there.
        what: String,
    },
    /// A newer program wrote it.
    #[error("{} has layout {found}; this program reads up to {VERSION}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its layout.
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

/// The notes in a file; none where there is no file.
pub fn read(path: &Path) -> Result<Vec<Note>, ReadError> {
    let bytes = match fs::read(path) {
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
        .map_err(|error| damaged(error.valid_up_to(), "not a text in UTF-8".to_owned()))?;
    let not_json =
        |error: serde_json::Error| damaged(offset(text, error.line(), error.column()), message(&error));
    // The version first: a newer layout is no damage.
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

/// Where a line and column, counted from 1 in bytes, lie from the begin.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before = text.split_inclusive('\n').take(line.saturating_sub(1));
    let start: usize = before.map(str::len).sum();
    (start + column.saturating_sub(1)).min(text.len())
}

/// What is wrong, without line and column: these are told as an offset.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).map_or(text.clone(), str::to_owned)
}

/// Replaces the file, on the disk before it has its name.
pub fn write(path: &Path, notes: &[Note]) -> io::Result<()> {
    let written = Written {
        version: VERSION,
        notes,
    };
    let mut text = serde_json::to_vec_pretty(&written)?;
    text.push(b'\n');
    // Two viewers that write at once must not write into one file.
    let unfinished = path.with_extension(format!("json.{}.unfinished", std::process::id()));
    let mut file = File::create(&unfinished)?;
    let done = file
        .write_all(&text)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&unfinished, path));
    if done.is_err() {
        // Of no use to anybody; that it could not be written is what is told.
        let _ = fs::remove_file(&unfinished);
    }
    done
}
