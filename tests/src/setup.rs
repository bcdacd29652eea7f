//! Answers of the scripts in `tests/setup`.

use std::process::{Command, Stdio};

use crate::{artefacts, skip};

/// Runs a script of `tests/setup` and returns the path that it prints. `None`, and a skip, if what it installs is missing.
pub fn path(script: &str) -> Option<std::path::PathBuf> {
    let output = Command::new(artefacts::root().join("tests/setup").join(script))
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("tests/setup/{script}: {error}"));
    if !output.status.success() {
        skip(&format!("tests/setup/{script} failed"));
        return None;
    }
    Some(String::from_utf8_lossy(&output.stdout).trim().into())
}
