//! Real NCCL libraries of several versions, against which the tables are checked (`tests/setup/nccl.sh`).

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::artefacts::root;
use crate::skip;

/// A real library.
#[derive(Debug, Clone)]
pub struct Nccl {
    /// Version, such as `2.28.9`.
    pub version: String,
    /// Directory of its `libnccl.so.2`.
    pub directory: PathBuf,
}

impl Nccl {
    /// Returns all tested versions, oldest first. Missing ones are fetched.
    pub fn all() -> &'static [Nccl] {
        static FOUND: OnceLock<Vec<Nccl>> = OnceLock::new();
        FOUND.get_or_init(|| {
            let script = root().join("tests/setup/nccl.sh");
            let output = Command::new(&script)
                .output()
                .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{} failed", script.display());
            let found: Vec<Nccl> = String::from_utf8_lossy(&output.stdout)
                .lines()
                .map(|line| {
                    let directory = PathBuf::from(line);
                    let version = directory
                        .file_name()
                        .expect("a version")
                        .to_string_lossy()
                        .into_owned();
                    Nccl { version, directory }
                })
                .collect();
            if found.is_empty() {
                skip("no real NCCL library");
            }
            found
        })
    }

    /// Returns the major and minor number.
    pub fn series(&self) -> (u32, u32) {
        series(&self.version)
    }
}

/// Returns the major and minor number of a version.
///
/// # Panics
/// If the text has none.
pub fn series(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|number| number.parse().expect("a number"));
    (
        numbers.next().expect("a major number"),
        numbers.next().expect("a minor number"),
    )
}
