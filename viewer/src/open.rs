//! Opens sessions. Runs are merged first, and torch.profiler traces are imported first.
//!
//! The program `rankscope` next to the viewer does both. This module only determines which of them a path needs.

use rankscope_formats::files::is_remote;
use rankscope_formats::session::{
    IMPORTED_DIRECTORY, Periods, SESSION_DIRECTORY, SUMMARY_FILE, Session, find_periods, find_session,
};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime};

/// Progress of opening a session.
#[derive(Debug)]
pub enum Opening {
    /// Description of the current activity.
    Doing(String),
    /// The session is open.
    Done(Box<(PathBuf, Session)>),
    /// The session cannot be opened; the text has the reason and advice.
    Failed(String),
}

/// Kind of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A session directory.
    Session(PathBuf),
    /// A run that is not merged yet.
    Run(PathBuf),
    /// Traces of torch.profiler, and the directory for the run that is imported from them.
    Traces(Vec<PathBuf>, PathBuf),
}

/// Determines what `paths` are. Otherwise returns the reason why they cannot be opened.
pub fn find(paths: &[PathBuf]) -> Result<Found, String> {
    let [path] = paths else {
        let Some(first) = paths.first() else {
            return Err("no path: name a run, a session or torch.profiler traces".to_owned());
        };
        if let Some(remote) = paths.iter().find(|path| is_remote(path)) {
            return Err(format!(
                "{}: open the session of an object store alone, without other paths",
                remote.display()
            ));
        }
        let parent = first.parent().unwrap_or(Path::new("."));
        let output = parent.join(format!("{IMPORTED_DIRECTORY}-{:08x}", key_of(paths)));
        return Ok(found_traces(paths.to_vec(), output));
    };
    let cannot_open = |error: std::io::Error| format!("cannot open {}: {error}", path.display());
    let session = find_session(path).map_err(cannot_open)?;
    // One period that was opened without a word would look like the whole run.
    if session.is_none()
        && let Some(in_periods) = find_periods(path).map_err(cannot_open)?
        && let Some(list) = Periods::read(&in_periods).map_err(|error| error.to_string())?
    {
        return Err(list.one_is_needed(path, &in_periods));
    }
    if is_remote(path) {
        let advice = || {
            format!(
                "{0} has no session; merge its logs first: rankscope merge {0}",
                path.display()
            )
        };
        return session.map(Found::Session).ok_or_else(advice);
    }
    if let Some(session) = session {
        // Traces that were added later are imported together with the others.
        let is_of_traces = session.starts_with(path.join(IMPORTED_DIRECTORY)) && path.is_dir();
        if is_of_traces && has(path, 0, &is_trace) {
            return Ok(found_traces(vec![path.clone()], path.join(IMPORTED_DIRECTORY)));
        }
        return Ok(Found::Session(session));
    }
    if path.is_file() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if is_trace(path) {
            // ASCII lower case keeps the length of the name, so the index is valid in both.
            let lower = name.to_ascii_lowercase();
            let stem = lower.trim_end_matches(".gz").trim_end_matches(".json").len();
            let output = path.with_file_name(format!("{}.{IMPORTED_DIRECTORY}", &name[..stem]));
            return Ok(found_traces(vec![path.clone()], output));
        }
        return Err(format!(
            "{} is neither a session nor a torch.profiler trace (.json or .json.gz)",
            path.display()
        ));
    }
    if !path.is_dir() {
        return Err(format!("{} does not exist", path.display()));
    }
    if has(path, 2, &|file| {
        file.extension().is_some_and(|extension| extension == "rslog")
    }) {
        return Ok(Found::Run(path.clone()));
    }
    if has(path, 1, &is_trace) {
        return Ok(found_traces(vec![path.clone()], path.join(IMPORTED_DIRECTORY)));
    }
    Err(format!(
        "{} contains no session, recording or torch.profiler trace; record a run with: rankscope run -o {} -- CMD",
        path.display(),
        path.display()
    ))
}

/// Returns the imported session if it is newer than all traces. Otherwise returns the traces for an import.
fn found_traces(traces: Vec<PathBuf>, output: PathBuf) -> Found {
    let session = output.join(SESSION_DIRECTORY);
    let written = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let newest: Option<SystemTime> = traces
        .iter()
        .flat_map(|path| match std::fs::read_dir(path) {
            Ok(entries) => entries
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| is_trace(path))
                .collect(),
            Err(_) => vec![path.clone()],
        })
        .filter_map(|path| written(&path))
        .max();
    match written(&session.join(SUMMARY_FILE)) {
        Some(made) if newest.is_none_or(|newest| newest <= made) => Found::Session(session),
        _ => Found::Traces(traces, output),
    }
}

/// Returns a hash of these paths that does not depend on their order.
fn key_of(paths: &[PathBuf]) -> u32 {
    let mut sorted: Vec<&PathBuf> = paths.iter().collect();
    sorted.sort();
    let bytes = sorted
        .iter()
        .flat_map(|path| path.as_os_str().as_encoded_bytes().iter().chain(&[0]));
    // FNV-1a.
    bytes.fold(0x811c_9dc5, |hash: u32, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

fn is_trace(path: &Path) -> bool {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    name.ends_with(".json") || name.ends_with(".json.gz")
}

fn has(directory: &Path, depth: usize, matches: &dyn Fn(&Path) -> bool) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            depth > 0 && has(&path, depth - 1, matches)
        } else {
            matches(&path)
        }
    })
}

/// Opens `paths` on a background thread. Calls `news` whenever there is something to show.
pub fn start(paths: Vec<PathBuf>, news: impl Fn() + Send + 'static) -> Receiver<Opening> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let send = |opening| {
            // The window may have closed meanwhile.
            let _ = sender.send(opening);
            news();
        };
        let outcome = open(&paths, &|what| {
            send(Opening::Doing(what));
        });
        send(match outcome {
            Ok(opened) => Opening::Done(Box::new(opened)),
            Err(why) => Opening::Failed(why),
        });
    });
    receiver
}

/// Opens `paths`. Merges or imports them first if there is no session.
pub fn open(paths: &[PathBuf], report: &dyn Fn(String)) -> Result<(PathBuf, Session), String> {
    let session = match find(paths)? {
        Found::Session(session) => session,
        Found::Run(run) => {
            report(format!("Merging {}", run.display()));
            program(&["merge".as_ref(), run.as_os_str()])?;
            run.join(SESSION_DIRECTORY)
        }
        Found::Traces(traces, output) => {
            let session = output.join(SESSION_DIRECTORY);
            report(format!("Importing into {}", output.display()));
            let mut arguments = vec!["import".as_ref(), "kineto".as_ref()];
            arguments.extend(traces.iter().map(|trace| trace.as_os_str()));
            arguments.extend(["-o".as_ref(), output.as_os_str()]);
            program(&arguments)?;
            session
        }
    };
    let read = Session::read(&session).map_err(|error| {
        format!(
            "cannot use the session in {}: {error}. Create it again: rankscope merge",
            session.display()
        )
    })?;
    Ok((session, read))
}

/// Runs `rankscope`: the one next to this program, or else the one on the PATH. Returns its output, or its error
/// message.
pub(crate) fn program(arguments: &[&std::ffi::OsStr]) -> Result<String, String> {
    program_until(arguments, &AtomicBool::new(false))
}

/// Runs `rankscope` like [`program`], and kills it as soon as `over` is set.
pub(crate) fn program_until(arguments: &[&std::ffi::OsStr], over: &AtomicBool) -> Result<String, String> {
    let sibling = std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name("rankscope"))
        .filter(|program| program.is_file());
    let program = sibling.unwrap_or_else(|| PathBuf::from("rankscope"));
    let failed = |error: std::io::Error| format!("cannot run {}: {error}", program.display());
    // The output goes into files, because a full pipe would block the child.
    let (mut printed, mut complained) = (
        tempfile::tempfile().map_err(failed)?,
        tempfile::tempfile().map_err(failed)?,
    );
    let mut child = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(printed.try_clone().map_err(failed)?)
        .stderr(complained.try_clone().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if over.load(Ordering::Relaxed) {
            let _ = child.kill();
            let _ = child.wait();
            return Err("cancelled".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut text = String::new();
    // A run with a finding (1) and an inconclusive run (3) are merged successfully.
    let is_done = status.success() || matches!(status.code(), Some(1 | 3));
    let output = if is_done { &mut printed } else { &mut complained };
    output
        .rewind()
        .and_then(|()| output.read_to_string(&mut text))
        .map_err(failed)?;
    if is_done {
        Ok(text)
    } else {
        Err(text.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_path_is_a_session_a_run_or_traces() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path();
        for file in [
            "run/session/session.json",
            "log/host/rank0.rslog",
            "traces/rank0.pt.trace.json.gz",
            "one.json",
            "other.txt",
        ] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, "{}").expect("written");
        }
        let found = |name: &str| find(&[root.join(name)]);
        // One file is already imported and the other is not. Their names are equal up to the second dot.
        for file in [
            "a.1.pt.trace.json",
            "a.1.pt.trace.rankscope/session/session.json",
            "a.2.pt.trace.json",
        ] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, "{}").expect("written");
        }
        let imported = root.join("a.1.pt.trace.rankscope/session");
        assert_eq!(found("a.1.pt.trace.json"), Ok(Found::Session(imported)));
        let second = root.join("a.2.pt.trace.json");
        let output = root.join("a.2.pt.trace.rankscope");
        assert_eq!(
            found("a.2.pt.trace.json"),
            Ok(Found::Traces(vec![second.clone()], output))
        );
        let several = [root.join("one.json"), second];
        let other = [several[1].clone(), several[0].clone()];
        let (Ok(Found::Traces(_, one)), Ok(Found::Traces(_, same))) = (find(&several), find(&other)) else {
            panic!("traces")
        };
        assert_eq!(one, same);
        assert_ne!(one, root.join("rankscope"));
        assert_eq!(found("run"), Ok(Found::Session(root.join("run/session"))));
        assert_eq!(found("run/session"), Ok(Found::Session(root.join("run/session"))));
        assert_eq!(
            found("run/session/session.json"),
            Ok(Found::Session(root.join("run/session")))
        );
        assert_eq!(found("log"), Ok(Found::Run(root.join("log"))));
        assert_eq!(
            found("traces"),
            Ok(Found::Traces(
                vec![root.join("traces")],
                root.join("traces/rankscope")
            ))
        );
        assert_eq!(
            found("one.json"),
            Ok(Found::Traces(
                vec![root.join("one.json")],
                root.join("one.rankscope")
            ))
        );
        let list = root.join("long/session/periods.json");
        fs::create_dir_all(list.parent().expect("a parent")).expect("made");
        fs::write(
            &list,
            r#"{"version": 1, "tool": {"name": "", "version": ""}, "directories": [], "length_ns": 1, "origin_unix_ns": 0, "periods": []}"#,
        )
        .expect("written");
        fs::write(root.join("long/rank-0.rslog"), "").expect("written");
        assert!(found("long").is_err_and(|why| why.contains("is merged in periods")));
        assert!(found("other.txt").is_err_and(|why| why.contains("other.txt")));
        assert!(found("nothing").is_err_and(|why| why.contains("nothing")));
    }
}
