//! File names that do not exist yet.

use crate::model::export_directory;
use std::path::{Path, PathBuf};

/// Returns `view-N.EXTENSION` in the [`export_directory`] of a session, with the first free number.
pub fn free_name(session: &Path, extension: &str) -> PathBuf {
    let folder = export_directory(session);
    let mut number = 1;
    loop {
        let path = folder.join(format!("view-{number}.{extension}"));
        if !path.exists() {
            return path;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let session = folder.path().join("session");
        std::fs::create_dir(&session).expect("made");
        assert_eq!(free_name(&session, "svg"), folder.path().join("view-1.svg"));
        std::fs::write(folder.path().join("view-1.svg"), "").expect("written");
        assert_eq!(free_name(&session, "svg"), folder.path().join("view-2.svg"));
        assert_eq!(free_name(&session, "png"), folder.path().join("view-1.png"));
        assert_eq!(free_name(folder.path(), "svg"), folder.path().join("view-2.svg"));
    }
}
