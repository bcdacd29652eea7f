//! What is opened: a session as it is, a run that is merged first, traces of torch.profiler that are imported first.
//!
//! Merging and importing are the program's, which lies beside the viewer: here is only asked which of them it takes.

use rankscope_formats::session::{SUMMARY_FILE, Session};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// The session inside a run directory.
const FOLDER: &str = "session";
/// What an import makes inside a folder of traces.
const IMPORTED: &str = "rankscope";

/// What is on the way to a window.
#[derive(Debug)]
pub enum Opening {
    /// This is being done.
    Doing(String),
    /// Here it is.
    Done(Box<(PathBuf, Session)>),
    /// It cannot be opened: why, and what to do.
    Failed(String),
}

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A session's directory.
    Session(PathBuf),
    /// A run that was not merged.
    Run(PathBuf),
    /// Traces of torch.profiler, and where the run goes that is made of them.
    Traces(Vec<PathBuf>, PathBuf),
}

/// Finds out what paths are; else what is wrong with them.
pub fn find(paths: &[PathBuf]) -> Result<Found, String> {
    let [path] = paths else {
        let Some(first) = paths.first() else {
            return Err("name a run, a session or traces of torch.profiler".to_owned());
        };
        let parent = first.parent().unwrap_or(Path::new("."));
        return Ok(Found::Traces(paths.to_vec(), parent.join(IMPORTED)));
    };
    let candidates = [
        path.clone(),
        path.join(FOLDER),
        path.join(IMPORTED),
        path.join(IMPORTED).join(FOLDER),
    ];
    if let Some(session) = candidates
        .into_iter()
        .find(|candidate| candidate.join(SUMMARY_FILE).is_file())
    {
        return Ok(Found::Session(session));
    }
    if path.is_file() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == SUMMARY_FILE {
            return Ok(Found::Session(
                path.parent().unwrap_or(Path::new(".")).to_path_buf(),
            ));
        }
        if is_trace(path) {
            let stem = name.split('.').next().unwrap_or("trace");
            return Ok(Found::Traces(
                vec![path.clone()],
                path.with_file_name(format!("{stem}.{IMPORTED}")),
            ));
        }
        return Err(format!(
            "{} is no session and no trace of torch.profiler (.json or .json.gz)",
            path.display()
        ));
    }
    if !path.is_dir() {
        return Err(format!("there is nothing at {}", path.display()));
    }
    if has(path, 2, &|file| {
        file.extension().is_some_and(|extension| extension == "rslog")
    }) {
        return Ok(Found::Run(path.clone()));
    }
    if has(path, 1, &is_trace) {
        return Ok(Found::Traces(vec![path.clone()], path.join(IMPORTED)));
    }
    Err(format!(
        "{} holds no session, no recording and no trace of torch.profiler; record a run with: rankscope run -o {} -- CMD",
        path.display(),
        path.display()
    ))
}

fn is_trace(path: &Path) -> bool {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    name.ends_with(".json") || name.ends_with(".json.gz")
}

fn has(directory: &Path, depth: usize, wanted: &dyn Fn(&Path) -> bool) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            depth > 0 && has(&path, depth - 1, wanted)
        } else {
            wanted(&path)
        }
    })
}

/// Opens on a thread of its own; `news` is called whenever there is something to show.
pub fn start(paths: Vec<PathBuf>, news: impl Fn() + Send + 'static) -> Receiver<Opening> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let tell = |opening| {
            let is_wanted = sender.send(opening).is_ok();
            news();
            is_wanted
        };
        let outcome = open(&paths, &|what| {
            tell(Opening::Doing(what));
        });
        tell(match outcome {
            Ok(opened) => Opening::Done(Box::new(opened)),
            Err(why) => Opening::Failed(why),
        });
    });
    receiver
}

/// Opens what is there, making a session of it first where there is none.
pub fn open(paths: &[PathBuf], tell: &dyn Fn(String)) -> Result<(PathBuf, Session), String> {
    let session = match find(paths)? {
        Found::Session(session) => session,
        Found::Run(run) => {
            tell(format!("merging {}", run.display()));
            program(&["merge".as_ref(), run.as_os_str()])?;
            run.join(FOLDER)
        }
        Found::Traces(traces, output) => {
            let session = output.join(FOLDER);
            if !session.join(SUMMARY_FILE).is_file() {
                tell(format!("importing into {}", output.display()));
                let mut arguments = vec!["import".as_ref(), "kineto".as_ref()];
                arguments.extend(traces.iter().map(|trace| trace.as_os_str()));
                arguments.extend(["-o".as_ref(), output.as_os_str()]);
                program(&arguments)?;
            }
            session
        }
    };
    let read = Session::read(&session).map_err(|error| {
        format!(
            "the session in {} cannot be used: {error}. Make it anew: rankscope merge",
            session.display()
        )
    })?;
    Ok((session, read))
}

/// Runs rankscope itself: that beside this program, else that on the path. What it printed, or what it complained of.
pub(crate) fn program(arguments: &[&std::ffi::OsStr]) -> Result<String, String> {
    let beside = std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name("rankscope"))
        .filter(|program| program.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from("rankscope"));
    let output = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    // An inconclusive run (3) and one with a finding (1) are merged all the same.
    if output.status.success() || matches!(output.status.code(), Some(1 | 3)) {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_path_is_what_lies_there() {
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
        assert!(found("other.txt").is_err_and(|why| why.contains("other.txt")));
        assert!(found("nothing").is_err_and(|why| why.contains("nothing")));
    }
}
