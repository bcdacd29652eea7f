//! Paths of the tested artefacts: the library and the program, as `make build` or `make portable` leaves them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

/// Variable with the directory of the artefacts, such as `target/portable`. Without it, tests use those of `make build`.
const DIRECTORY_VARIABLE: &str = "RANKSCOPE_ARTEFACTS";

/// Returns the root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is in the repository")
}

/// Returns cargo's target directory.
pub fn target_directory() -> PathBuf {
    let directory = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    };
    std::fs::create_dir_all(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    directory
}

/// Returns the library to preload: `librankscope.so`.
pub fn library() -> PathBuf {
    built(
        "librankscope.so",
        "rankscope-interpose",
        &["formats", "interpose"],
    )
}

/// Returns the command-line program: `rankscope`.
pub fn program() -> PathBuf {
    built("rankscope", "rankscope", &["formats", "collector"])
}

/// Returns an example program in Rust.
pub fn example(name: &str) -> PathBuf {
    built(name, name, &["formats", "interpose", "layer", "examples"])
}

fn built(file: &str, package: &str, sources: &[&str]) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE) {
        let path = root().join(directory).join(file);
        assert!(
            path.exists(),
            "{DIRECTORY_VARIABLE}: there is no {}",
            path.display()
        );
        return path;
    }
    let path = target_directory().join("release").join(file);
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|broken| broken.into_inner());
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--release", "-p", package])
            .current_dir(root())
            .status();
        assert!(
            matches!(status, Ok(status) if status.success()),
            "cargo build --release -p {package}: {status:?}"
        );
    }
    drop(guard);
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let Some(made) = modified(&path) else {
        panic!("{} was not built from {package}", path.display())
    };
    // The function does not rebuild, because the caller may have avoided a build on purpose. It must not test old code
    // silently either, so it warns.
    static CHECKED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut checked = CHECKED.lock().unwrap_or_else(|broken| broken.into_inner());
    if checked.insert(path.clone()) && sources.iter().any(|source| newer(&root().join(source), made)) {
        eprintln!(
            "warning: {} is older than its sources: run make build",
            path.display()
        );
    }
    path
}

fn newer(path: &Path, than: SystemTime) -> bool {
    if path.is_dir() {
        let Ok(entries) = path.read_dir() else {
            return false;
        };
        return entries.flatten().any(|entry| newer(&entry.path(), than));
    }
    let is_source = path.extension().is_some_and(|extension| extension == "rs");
    is_source
        && path
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|time| time > than)
}
