//! Resolution of a directory to a session.

use anyhow::{Context, Result, bail};
use rankscope_formats::session::{SUMMARY_FILE, Session};
use std::path::{Path, PathBuf};

/// Name of the session's directory inside a run directory.
pub const FOLDER: &str = "session";

/// Returns the session directory: `directory` itself, or the session inside a run directory.
pub fn locate(directory: &Path) -> Result<PathBuf> {
    for candidate in [directory.to_path_buf(), directory.join(FOLDER)] {
        if candidate.join(SUMMARY_FILE).is_file() {
            return Ok(candidate);
        }
    }
    if !directory.is_dir() {
        bail!("directory not found: {}", directory.display());
    }
    bail!(
        "{} has no session yet; merge its logs first: rankscope merge {}",
        directory.display(),
        directory.display()
    )
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
