//! Resolution of a directory to a session.

use anyhow::{Context, Result, bail};
use rankscope_formats::files::{self, Found};
use rankscope_formats::session::{Session, find_session};
use std::path::{Path, PathBuf};

/// Returns the session of a directory: itself, or the one in a run directory.
pub fn locate(directory: &Path) -> Result<PathBuf> {
    let shown = directory.display();
    let cannot_open = || format!("cannot open {shown}");
    if let Some(session) = find_session(directory).with_context(cannot_open)? {
        return Ok(session);
    }
    if files::find(directory).with_context(cannot_open)? != Found::Directory {
        bail!("directory not found: {shown}");
    }
    bail!("{shown} has no session yet; merge its logs first: rankscope merge {shown}")
}

/// Reads the summary of the session in `directory`.
pub fn read(directory: &Path) -> Result<(PathBuf, Session)> {
    let path = locate(directory)?;
    let session = Session::read(&path).with_context(|| {
        format!(
            "invalid session; merge the run again: rankscope merge {}",
            directory.display()
        )
    })?;
    Ok((path, session))
}
