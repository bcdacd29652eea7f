//! Where the session of a run is.

use super::SUMMARY_FILE;
use super::period_cut::CUT_FILE;
use super::periods::{PERIODS_DIRECTORY, PERIODS_FILE, Periods};
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
    find_with(directory, SUMMARY_FILE)
}

/// Returns the session directory of a run that was merged in periods. It is found as by [`find_session`], and has a list of periods
/// instead of a summary. `None`: there is no list.
///
/// # Errors
/// A directory cannot be read, or an object store cannot be reached.
pub fn find_periods(directory: &Path) -> io::Result<Option<PathBuf>> {
    find_with(directory, PERIODS_FILE)
}

/// Returns all sessions of a directory, in order of time: the only one, or those of all periods. The list is empty without a session.
///
/// # Errors
/// As [`find_session`], or the list of periods cannot be read.
pub fn sessions_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    if let Some(session) = find_session(directory)? {
        return Ok(vec![session]);
    }
    let Some(session) = find_periods(directory)? else {
        return Ok(Vec::new());
    };
    let list = Periods::read(&session).map_err(io::Error::other)?;
    let periods = list.into_iter().flat_map(|list| list.periods);
    Ok(periods.map(|period| period.path(&session)).collect())
}

/// Returns the session of a directory that has this file.
fn find_with(directory: &Path, file: &str) -> io::Result<Option<PathBuf>> {
    if directory.file_name().is_some_and(|name| name == file) && is_file(directory)? {
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
        if is_file(&candidate.join(file))? {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// Returns the directory for files that belong to a session and survive another merge: that of the run. A session at the root of a
/// bucket has none, and is returned itself. So is the session of a period: the files of all periods would otherwise be the same.
pub fn beside_session(session: &Path) -> &Path {
    if is_period(session) {
        return session;
    }
    match session.parent() {
        Some(run) if !files::is_remote(session) || files::is_remote(run) => run,
        _ => session,
    }
}

/// Returns true for the session of a period: `session/periods/NAME`, or the name alone if it has a cut.
fn is_period(session: &Path) -> bool {
    let is_named =
        |path: Option<&Path>, name: &str| path.and_then(Path::file_name).is_some_and(|own| own == name);
    let is_inside =
        is_named(session.parent(), PERIODS_DIRECTORY) && !is_named(Some(session), SESSION_DIRECTORY);
    is_inside || (!files::is_remote(session) && session.join(CUT_FILE).is_file())
}

fn is_file(path: &Path) -> io::Result<bool> {
    Ok(matches!(files::find(path)?, Found::File(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::periods::test_support::list_of;
    use std::fs;

    #[test]
    fn files_beside_a_session_are_in_its_run() {
        for (session, run) in [
            ("run/session", "run"),
            ("s3://bucket/run/session", "s3://bucket/run"),
            ("s3://bucket/session", "s3://bucket"),
            ("s3://bucket", "s3://bucket"),
            (
                "run/session/periods/20261128T170000Z",
                "run/session/periods/20261128T170000Z",
            ),
            (
                "s3://bucket/run/session/periods/20261128T170000Z",
                "s3://bucket/run/session/periods/20261128T170000Z",
            ),
            ("periods/session", "periods"),
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

    #[test]
    fn a_run_in_periods_has_a_session_for_each() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let run = folder.path().join("run");
        let session = run.join("session");
        let names = ["20261128T170000Z", "20261128T180000Z"];
        let list = list_of(&names);
        for period in &list.periods {
            let path = period.path(&session);
            fs::create_dir_all(&path).expect("made");
            fs::write(path.join(SUMMARY_FILE), "{}").expect("written");
        }
        list.write(&session).expect("written");
        // A merge was interrupted here.
        fs::create_dir_all(session.join("periods/20261128T190000Z")).expect("made");
        for given in [run.clone(), session.clone(), session.join(PERIODS_FILE)] {
            assert_eq!(find_session(&given).expect("readable"), None);
            assert_eq!(find_periods(&given).expect("readable"), Some(session.clone()));
            let sessions = names.map(|name| session.join("periods").join(name));
            assert_eq!(
                sessions_of(&given).expect("readable"),
                sessions,
                "{}",
                given.display()
            );
        }
        let first = session.join("periods").join(names[0]);
        assert_eq!(sessions_of(&first).expect("readable"), [first.as_path()]);
        assert_eq!(find_periods(&first).expect("readable"), None);
        assert_eq!(
            sessions_of(folder.path()).expect("readable"),
            Vec::<PathBuf>::new()
        );
        fs::write(session.join(PERIODS_FILE), "[]").expect("written");
        let error = sessions_of(&run).expect_err("no list");
        assert!(error.to_string().contains("periods.json"), "{error}");
    }
}
