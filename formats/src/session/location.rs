//! Where the session of a run is.

use super::SUMMARY_FILE;
use crate::files::{self, Found};
use std::io;
use std::path::{Path, PathBuf};

/// Name of the session's directory in a run directory.
pub const SESSION_DIRECTORY: &str = "session";
/// Name of the directory that an import creates in a directory of traces.
pub const IMPORTED_DIRECTORY: &str = "rankscope";

/// Returns the session of a directory: itself, the one in a run directory, or the one of imported traces. The summary of a session
/// may be named, too. `None`: there is no session.
///
/// # Errors
/// A directory cannot be read, or an object store cannot be reached.
pub fn find_session(directory: &Path) -> io::Result<Option<PathBuf>> {
    if directory.file_name().is_some_and(|name| name == SUMMARY_FILE) && is_file(directory)? {
        let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
        return Ok(Some(parent.unwrap_or(Path::new(".")).to_path_buf()));
    }
    let imported = directory.join(IMPORTED_DIRECTORY);
    let candidates = [
        directory.to_path_buf(),
        directory.join(SESSION_DIRECTORY),
        imported.clone(),
        imported.join(SESSION_DIRECTORY),
    ];
    for candidate in candidates {
        if is_file(&candidate.join(SUMMARY_FILE))? {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// Returns the directory for files that belong to a session and survive another merge: that of the run. A session at the root of a
/// bucket has none, and is returned itself.
pub fn beside_session(session: &Path) -> &Path {
    match session.parent() {
        Some(run) if !files::is_remote(session) || files::is_remote(run) => run,
        _ => session,
    }
}

fn is_file(path: &Path) -> io::Result<bool> {
    Ok(matches!(files::find(path)?, Found::File(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_beside_a_session_are_in_its_run() {
        for (session, run) in [
            ("run/session", "run"),
            ("s3://bucket/run/session", "s3://bucket/run"),
            ("s3://bucket/session", "s3://bucket"),
            ("s3://bucket", "s3://bucket"),
        ] {
            assert_eq!(beside_session(Path::new(session)), Path::new(run), "{session}");
        }
    }

    #[test]
    fn a_session_is_found_from_its_run_its_traces_and_its_summary() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for session in ["plain", "run/session", "traces/rankscope/session"] {
            fs::create_dir_all(folder.path().join(session)).expect("made");
            fs::write(folder.path().join(session).join(SUMMARY_FILE), "{}").expect("written");
        }
        let found = |name: &str| find_session(&folder.path().join(name)).expect("readable");
        for (given, session) in [
            ("plain", "plain"),
            ("plain/session.json", "plain"),
            ("run", "run/session"),
            ("run/session", "run/session"),
            ("traces", "traces/rankscope/session"),
        ] {
            assert_eq!(found(given), Some(folder.path().join(session)), "{given}");
        }
        assert_eq!(found("nothing"), None);
        assert_eq!(found(""), None, "a directory of runs");
    }
}
