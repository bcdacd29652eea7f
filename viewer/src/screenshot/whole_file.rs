//! Files that exist completely or not at all.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

/// Writes a file under a temporary name first. Only a complete file replaces the previous one.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut unfinished: OsString = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    fs::write(&unfinished, bytes)
        .and_then(|()| fs::rename(&unfinished, path))
        .inspect_err(|_| {
            // An incomplete file has no use. The caller gets the original error.
            let _ = fs::remove_file(&unfinished);
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a");
        write(&path, b"one").expect("written");
        write(&path, b"two").expect("replaced");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).expect("made");
        assert!(write(&taken, b"three").is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 2);
    }
}
