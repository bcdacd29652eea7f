//! Runs the real Perfetto engine (`tests/perfetto-engine`) on a trace.

use std::process::Command;

use crate::artefacts;
use crate::skip;

/// Returns the output of `tpwasm.mjs ARGUMENTS`. Skips and returns `None` if there is no engine.
///
/// # Panics
/// If it fails. `check` fails if the engine has complaints.
pub fn engine(arguments: &[&str]) -> Option<String> {
    let script = artefacts::root().join("tests/perfetto-engine/tpwasm.mjs");
    let run = |arguments: &[&str]| Command::new("node").arg(&script).args(arguments).output();
    if !run(&["version"]).is_ok_and(|output| output.status.success()) {
        skip("the Perfetto engine: node or its package is missing (make setup)");
        return None;
    }
    let output = run(arguments).expect("node runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(text)
}

/// Returns the single number that a query gives.
///
/// # Panics
/// If the query gives anything else.
pub fn count(trace: &str, query: &str) -> Option<u64> {
    let text = engine(&["query", trace, query])?;
    let number = text.lines().nth(1).and_then(|line| line.trim().parse().ok());
    Some(number.unwrap_or_else(|| panic!("{query}: {text}")))
}
