//! Resolution of a directory to a session.

use anyhow::{Context, Result, bail};
use rankscope_formats::files::{self, Found};
use rankscope_formats::session::{Periods, Session, find_periods, find_session};
use std::path::{Path, PathBuf};

/// Returns the session of a directory: itself, or the one in a run directory. A run in periods has several, so the error names them.
pub fn locate(directory: &Path) -> Result<PathBuf> {
    let shown = directory.display();
    let cannot_open = || format!("cannot open {shown}");
    if let Some(session) = find_session(directory).with_context(cannot_open)? {
        return Ok(session);
    }
    if let Some((session, list)) = in_periods(directory)? {
        bail!(list.one_is_needed(directory, &session));
    }
    if files::find(directory).with_context(cannot_open)? != Found::Directory {
        bail!("directory not found: {shown}");
    }
    bail!("{shown} has no session yet; merge its logs first: rankscope merge {shown}")
}

/// Returns the session directory of a run that was merged in periods, and its list. `None`: the run was merged as a whole, or was not
/// merged.
pub fn in_periods(directory: &Path) -> Result<Option<(PathBuf, Periods)>> {
    let cannot_open = || format!("cannot open {}", directory.display());
    if find_session(directory).with_context(cannot_open)?.is_some() {
        return Ok(None);
    }
    let Some(session) = find_periods(directory).with_context(cannot_open)? else {
        return Ok(None);
    };
    Ok(Periods::read(&session)?.map(|list| (session, list)))
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
