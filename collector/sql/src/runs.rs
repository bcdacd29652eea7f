//! Runs whose sessions are queried, and their names.

use anyhow::{Context, Result, bail};
use rankscope_formats::files::{self, is_remote};
use rankscope_formats::session::{PERIODS_DIRECTORY, SESSION_DIRECTORY, Session, sessions_of};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// A run with a session.
pub struct Run {
    /// Name: the value of the column `run`, unique among the runs.
    pub name: String,
    /// Path of the session directory, absolute.
    pub path: PathBuf,
    /// Summary of the session.
    pub session: Session,
}

/// All runs of a query, in the order in which they were given.
pub struct Runs(pub Vec<Run>);

impl Runs {
    /// Reads the summaries of the sessions in these directories. Each is a run directory that was merged, a session directory, or a
    /// directory of runs. Each period of a run in periods is a run. A session that is given twice counts once.
    pub fn open(directories: &[PathBuf]) -> Result<Self> {
        let mut sessions: Vec<PathBuf> = Vec::new();
        let mut known = BTreeSet::new();
        for directory in directories {
            for session in sessions_in(directory)? {
                let cannot_resolve = || format!("cannot resolve {}", session.display());
                if is_remote(&session) {
                    if known.insert(session.clone()) {
                        sessions.push(session);
                    }
                    continue;
                }
                let file = session.canonicalize().with_context(cannot_resolve)?;
                if known.insert(file) {
                    // Keep the link's name for a linked run.
                    sessions.push(std::path::absolute(&session).with_context(cannot_resolve)?);
                }
            }
        }
        let names = names(&sessions);
        let runs = sessions.into_iter().zip(names).map(|(path, name)| {
            let session = Session::read(&path).with_context(|| {
                format!(
                    "invalid session; merge the run again: rankscope merge {}",
                    run_of_period(&path).unwrap_or(run_of(&path)).display()
                )
            })?;
            Ok(Run { name, path, session })
        });
        Ok(Self(runs.collect::<Result<_>>()?))
    }
}

/// Returns the sessions of a directory: itself, the session inside, all periods inside, or those of the runs inside, by name.
fn sessions_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let cannot_read = || format!("cannot read the directory {}", directory.display());
    let own = sessions_of(directory).with_context(cannot_read)?;
    if !own.is_empty() {
        return Ok(own);
    }
    let mut inside: Vec<PathBuf> = Vec::new();
    for entry in files::list(directory).with_context(cannot_read)? {
        if entry.is_directory {
            inside.extend(sessions_of(&directory.join(entry.name)).with_context(cannot_read)?);
        }
    }
    if inside.is_empty() {
        bail!(
            "{} has no session yet; merge its logs first: rankscope merge {}",
            directory.display(),
            directory.display()
        );
    }
    inside.sort();
    Ok(inside)
}

/// Names each run by the shortest path suffix that is unique. A period is named by its run and its start.
fn names(sessions: &[PathBuf]) -> Vec<String> {
    let parts: Vec<Vec<String>> = sessions.iter().map(|session| parts(session)).collect();
    let mut lengths: Vec<usize> = sessions
        .iter()
        .map(|session| if run_of_period(session).is_some() { 2 } else { 1 })
        .collect();
    let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
    loop {
        let names: Vec<String> = parts
            .iter()
            .zip(&lengths)
            .map(|(parts, &length)| {
                let last: Vec<&str> = parts.iter().take(length).rev().map(String::as_str).collect();
                last.join("/")
            })
            .collect();
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        names.iter().for_each(|name| *uses.entry(name).or_default() += 1);
        let shared: Vec<usize> = (0..names.len())
            .filter(|&at| uses[names[at].as_str()] > 1 && lengths[at] < longest)
            .collect();
        if shared.is_empty() {
            return names;
        }
        shared.into_iter().for_each(|at| lengths[at] += 1);
    }
}

/// Returns the parts of a run's path, the last first. After the name of a period come those of its run.
fn parts(session: &Path) -> Vec<String> {
    let (period, run) = match run_of_period(session) {
        Some(run) => (session.file_name(), run),
        None => (None, run_of(session)),
    };
    let names = run.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let names = period.into_iter().chain(names);
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Returns the run directory of a session directory, or the directory itself.
fn run_of(session: &Path) -> &Path {
    match session.file_name() {
        Some(name) if name == SESSION_DIRECTORY => session.parent().unwrap_or(session),
        _ => session,
    }
}

/// Returns the run directory of the session of a period.
fn run_of_period(session: &Path) -> Option<&Path> {
    let periods = session
        .parent()
        .filter(|parent| parent.ends_with(PERIODS_DIRECTORY))?;
    periods.parent().map(run_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_the_shortest_names_that_differ() {
        let paths = ["/a/one/session", "/a/two/session", "/b/two/session", "/b/plain"].map(PathBuf::from);
        assert_eq!(names(&paths), ["one", "a/two", "b/two", "plain"]);
        let periods = [
            "/a/one/session/periods/20261128T170000Z",
            "/a/one/session/periods/20261128T180000Z",
            "/a/two/session/periods/20261128T180000Z",
        ];
        assert_eq!(
            names(&periods.map(PathBuf::from)),
            [
                "one/20261128T170000Z",
                "one/20261128T180000Z",
                "two/20261128T180000Z"
            ]
        );
    }
}
