//! Which session is meant by a directory.

use anyhow::{Context, Result, bail};
use rankscope_formats::session::{SUMMARY_FILE, Session};
use std::path::{Path, PathBuf};

/// The session inside a run directory.
pub const FOLDER: &str = "session";

/// The session directory meant by `directory`: itself, or that of a run.
pub fn locate(directory: &Path) -> Result<PathBuf> {
    for candidate in [directory.to_path_buf(), directory.join(FOLDER)] {
        if candidate.join(SUMMARY_FILE).is_file() {
            return Ok(candidate);
        }
    }
    if !directory.is_dir() {
        bail!("there is no directory {}", directory.display());
    }
    bail!(
        "{} holds no session yet; make one from its recordings: rankscope merge {}",
        directory.display(),
        directory.display()
    )
}

/// Reads the summary of the session meant by `directory`.
pub fn read(directory: &Path) -> Result<(PathBuf, Session)> {
    let path = locate(directory)?;
    let session = Session::read(&path).with_context(|| {
        format!(
            "the session cannot be used; make it anew: rankscope merge {}",
            directory.display()
        )
    })?;
    Ok((path, session))
}
