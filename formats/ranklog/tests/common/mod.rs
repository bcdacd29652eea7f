//! Shared by the tests of recorders.

use std::path::{Path, PathBuf};

/// Returns the path of the only log in a run directory.
pub fn only_log(directory: &Path) -> PathBuf {
    let entries = std::fs::read_dir(directory).expect("the run directory");
    let mut logs: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rslog"))
        .collect();
    assert_eq!(logs.len(), 1, "{logs:?}");
    logs.remove(0)
}
