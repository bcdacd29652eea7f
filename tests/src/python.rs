//! Pythons with PyTorch for the tests: the current wheel, and Debian's with a different Gloo.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::artefacts::{root, target_directory};
use crate::skip;

/// A Python with PyTorch.
#[derive(Debug, Clone)]
pub struct Python {
    /// `wheel` or `debian`.
    pub name: &'static str,
    /// Path of the interpreter.
    pub path: PathBuf,
}

impl Python {
    /// Returns the current wheel. Installs it if it is missing (`tests/setup/python.sh`).
    pub fn wheel() -> Option<Python> {
        static FOUND: OnceLock<Option<Python>> = OnceLock::new();
        FOUND.get_or_init(|| find("wheel")).clone()
    }

    /// Returns Debian's python3-torch: PyTorch 1.13, whose Gloo is a separate library.
    pub fn debian() -> Option<Python> {
        static FOUND: OnceLock<Option<Python>> = OnceLock::new();
        FOUND.get_or_init(|| find("debian")).clone()
    }

    /// Returns all that this machine has.
    pub fn all() -> Vec<Python> {
        [Python::wheel(), Python::debian()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Returns this Python's torchrun, complete except for the script and its arguments.
    pub fn torchrun(&self, ranks: usize) -> Command {
        let mut command = Command::new(&self.path);
        // Only newer versions of the launcher have dashes in the option.
        command.args([
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc_per_node",
            &ranks.to_string(),
        ]);
        if self.name == "debian" {
            // On Python 3.11 the launcher of PyTorch 1.13 fails without a redirection. This one is for a rank that does
            // not exist.
            let nobody = format!("{ranks}:1");
            command.args(["-r", &nobody, "-t", &nobody]);
        }
        command.env("OMP_NUM_THREADS", "1");
        command
    }
}

/// Time for which a found Python is not checked again. The check imports PyTorch, which takes seconds in every test
/// program.
const KNOWN_FOR: Duration = Duration::from_secs(3600);

fn find(name: &'static str) -> Option<Python> {
    let known = target_directory()
        .join("test-programs")
        .join(format!("python-{name}"));
    let age = || known.metadata().ok()?.modified().ok()?.elapsed().ok();
    if age().is_some_and(|age| age < KNOWN_FOR)
        && let Ok(path) = std::fs::read_to_string(&known)
        && Path::new(&path).is_file()
    {
        return Some(Python {
            name,
            path: PathBuf::from(path),
        });
    }
    let python = check(name)?;
    // Without the file, the next test program checks again.
    let _ = known.parent().map(std::fs::create_dir_all);
    let _ = std::fs::write(&known, python.path.as_os_str().as_encoded_bytes());
    Some(python)
}

fn check(name: &'static str) -> Option<Python> {
    let script = root().join("tests/setup/python.sh");
    let output = Command::new(&script).arg(name).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || path.is_empty() {
        let reported = String::from_utf8_lossy(&output.stderr);
        skip(&format!(
            "PyTorch ({name}): {}",
            reported.trim().lines().last().unwrap_or("not found")
        ));
        return None;
    }
    Some(Python {
        name,
        path: Path::new(&path).to_owned(),
    })
}
