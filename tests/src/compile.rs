//! Compiles the programs of `tests/programs/` when a test wants them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::artefacts::{root, target_directory};
use crate::skip;

/// The folder of the programs.
pub fn programs() -> PathBuf {
    root().join("tests/programs")
}

/// A C++ program on Debian's Gloo, or nothing (and a skip) where Gloo or a compiler is missing.
pub fn gloo(source: &str) -> Option<PathBuf> {
    if !Path::new("/usr/include/gloo/config.h").exists() {
        skip(&format!("{source}: no Gloo headers (Debian: libgloo-dev)"));
        return None;
    }
    compile("c++", source, &["-std=c++17", "-lgloo", "-pthread"])
}

/// A plain C program, with further arguments for the compiler.
pub fn c(source: &str, arguments: &[&str]) -> Option<PathBuf> {
    compile("cc", source, arguments)
}

fn compile(compiler: &str, source: &str, arguments: &[&str]) -> Option<PathBuf> {
    // Two tests that want the same program: the second finds it made.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|broken| broken.into_inner());

    let directory = target_directory().join("test-programs");
    std::fs::create_dir_all(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let input = programs().join(source);
    let output = directory.join(input.file_stem().expect("a source has a name"));
    if is_current(&output) {
        return Some(output);
    }
    // Made under another name and moved: another process may be running it.
    let fresh = directory.join(format!("{source}.{}", std::process::id()));
    let result = Command::new(compiler)
        .args(["-O1", "-g", "-o"])
        .arg(&fresh)
        .arg(&input)
        .args(arguments)
        .output();
    let result = match result {
        Ok(result) => result,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip(&format!("{source}: no {compiler} on this machine"));
            return None;
        }
        Err(error) => panic!("{compiler}: {error}"),
    };
    assert!(
        result.status.success(),
        "{source} does not compile:\n{}",
        String::from_utf8_lossy(&result.stderr)
    );
    std::fs::rename(&fresh, &output).unwrap_or_else(|error| panic!("{}: {error}", output.display()));
    Some(output)
}

/// Newer than every source: the headers count too.
fn is_current(output: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let Some(made) = modified(output) else {
        return false;
    };
    let Ok(entries) = programs().read_dir() else {
        return false;
    };
    entries
        .flatten()
        .all(|entry| modified(&entry.path()).is_some_and(|time| time <= made))
}
