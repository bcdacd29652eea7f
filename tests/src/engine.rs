//! Runs the real Perfetto engine (`tests/perfetto-engine`) on a trace.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::SystemTime;

use serde_json::Value;

use crate::artefacts;
use crate::skip;

/// Returns the output of `tpwasm.mjs ARGUMENTS`. Skips and returns `None` if there is no engine.
///
/// # Panics
/// If it fails. `check` fails if the engine has complaints.
pub fn engine(arguments: &[&str]) -> Option<String> {
    if !exists() {
        return None;
    }
    let output = node(arguments).output().expect("node runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(text)
}

fn node(arguments: &[&str]) -> Command {
    let mut command = Command::new("node");
    command
        .arg(artefacts::root().join("tests/perfetto-engine/tpwasm.mjs"))
        .args(arguments);
    command
}

/// Returns whether there is an engine, and skips if there is none. It is asked once: its start takes a second.
fn exists() -> bool {
    static EXISTS: OnceLock<bool> = OnceLock::new();
    let version = || node(&["version"]).output();
    let exists = *EXISTS.get_or_init(|| version().is_ok_and(|output| output.status.success()));
    if !exists {
        skip("the Perfetto engine: node or its package is missing (make setup)");
    }
    exists
}

/// An engine that has loaded a trace and answers queries about it, until dropped.
struct Loaded {
    trace: String,
    written: Option<SystemTime>,
    engine: Child,
    queries: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Loaded {
    fn new(trace: &str) -> Loaded {
        let mut engine = node(&["answer", trace])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs");
        let mut loaded = Loaded {
            trace: trace.to_owned(),
            written: written(trace),
            queries: engine.stdin.take().expect("a pipe"),
            answers: BufReader::new(engine.stdout.take().expect("a pipe")),
            engine,
        };
        loaded.answer("the trace");
        loaded
    }

    /// Returns the next answer.
    fn answer(&mut self, query: &str) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("a pipe");
        // An engine that fails says why on standard error, and ends.
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{query}: {error}: {line:?}"))
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let _ = self.engine.kill();
        let _ = self.engine.wait();
    }
}

fn written(trace: &str) -> Option<SystemTime> {
    std::fs::metadata(trace).ok()?.modified().ok()
}

/// Returns the single number that a query gives. Consecutive queries about one trace share an engine.
///
/// # Panics
/// If the query gives anything else.
pub fn count(trace: &str, query: &str) -> Option<u64> {
    static LAST: Mutex<Option<Loaded>> = Mutex::new(None);
    if !exists() {
        return None;
    }
    let mut last = LAST.lock().unwrap_or_else(|broken| broken.into_inner());
    // A query that failed leaves no engine behind.
    let mut loaded = match last.take() {
        Some(loaded) if loaded.trace == trace && loaded.written == written(trace) => loaded,
        _ => Loaded::new(trace),
    };
    writeln!(loaded.queries, "{}", query.replace('\n', " ")).expect("a pipe");
    let rows = loaded.answer(query);
    *last = Some(loaded);
    drop(last);
    // A JSON number cannot hold every number of the engine, so large ones are text.
    let number = match &rows[0][0] {
        Value::String(text) => text.parse().ok(),
        number => number.as_u64(),
    };
    Some(number.unwrap_or_else(|| panic!("{query}: {rows}")))
}
