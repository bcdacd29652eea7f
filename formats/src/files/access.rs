//! Existence, lists and whole files, on this machine or in an object store.

use super::remote::{Found, is_remote, remote};
use super::requests::requests;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name in the directory.
    pub name: String,
    /// True for a directory.
    pub is_directory: bool,
    /// Size of a file, in bytes; 0 for a directory.
    pub bytes: u64,
}

/// Returns what a path is. Devices and pipes count as files.
///
/// # Errors
/// The path cannot be examined, or the object store cannot be reached.
pub fn find(path: &Path) -> io::Result<Found> {
    if is_remote(path) {
        return remote()?.find(path);
    }
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(Found::Directory),
        Ok(metadata) => Ok(Found::File(metadata.len())),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(Found::Nothing)
        }
        Err(error) => Err(error),
    }
}

/// Returns true unless it is certain that `path` is no file. If it cannot be examined, opening it gives the reason, so that no table
/// counts as missing because of an error.
pub fn may_exist(path: &Path) -> bool {
    find(path).map_or(true, |found| matches!(found, Found::File(_)))
}

/// Lists a directory, sorted by name. Names that are not UTF-8 are left out: rankscope writes none.
///
/// # Errors
/// The directory does not exist or cannot be read.
pub fn list(directory: &Path) -> io::Result<Vec<Entry>> {
    if is_remote(directory) {
        let found = remote()?.list(directory)?;
        let entry = |(name, found)| Entry {
            name,
            is_directory: found == Found::Directory,
            bytes: match found {
                Found::File(bytes) => bytes,
                _ => 0,
            },
        };
        return Ok(found.into_iter().map(entry).collect());
    }
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // Links count as what they point to. A broken link is no entry.
        let (Ok(name), Ok(metadata)) = (entry.file_name().into_string(), fs::metadata(entry.path())) else {
            continue;
        };
        let is_directory = metadata.is_dir();
        entries.push(Entry {
            name,
            is_directory,
            bytes: if is_directory { 0 } else { metadata.len() },
        });
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Reads a whole file.
///
/// # Errors
/// The file does not exist or cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !is_remote(path) {
        return fs::read(path);
    }
    let file = remote()?.open(path)?;
    let mut bytes = Vec::new();
    for chunk in file.read(&requests(&(0..file.bytes())).collect::<Vec<_>>())? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Opens a file that is read from its start to its end. An object is read whole before the first byte is returned.
///
/// # Errors
/// The file does not exist or cannot be opened.
pub fn open_stream(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if is_remote(path) {
        return Ok(Box::new(io::Cursor::new(read(path)?)));
    }
    Ok(Box::new(BufReader::new(File::open(path)?)))
}

/// Creates a directory and its parents. Object stores have none.
///
/// # Errors
/// The directory cannot be created.
pub fn create_directory(path: &Path) -> io::Result<()> {
    match is_remote(path) {
        true => Ok(()),
        false => fs::create_dir_all(path),
    }
}

/// Removes a file. A missing file is no error.
///
/// # Errors
/// The file cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    let removed = match is_remote(path) {
        true => remote()?.remove(path),
        false => fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_listed_by_name_with_sizes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("b")).expect("made");
        fs::write(folder.path().join("c"), b"123").expect("written");
        std::os::unix::fs::symlink("c", folder.path().join("a")).expect("linked");
        std::os::unix::fs::symlink("nothing", folder.path().join("d")).expect("linked");
        let listed = list(folder.path()).expect("listed");
        let shown: Vec<(&str, bool, u64)> = listed
            .iter()
            .map(|entry| (entry.name.as_str(), entry.is_directory, entry.bytes))
            .collect();
        assert_eq!(shown, [("a", false, 3), ("b", true, 0), ("c", false, 3)]);
        assert!(list(&folder.path().join("nothing")).is_err());
    }

    #[test]
    fn without_a_store_a_url_is_an_error_that_says_so() {
        let error = read(Path::new("s3://bucket/key")).expect_err("no store");
        assert!(error.to_string().contains("object stores"), "{error}");
        assert!(find(Path::new("s3://bucket/key")).is_err());
        assert!(may_exist(Path::new("s3://bucket/key")), "it is not certain");
    }
}
