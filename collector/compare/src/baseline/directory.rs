//! Store in a directory. Each entry is written under a temporary name and then renamed.

use super::entry::EntryName;
use super::error::StoreError;
use super::problem::Problem;
use super::{ENTRIES, LARGEST_ENTRY};
use rankscope_formats::whole_file::WholeFile;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Maximum number of attempts to write while another process removes the empty directory.
const TRIES: usize = 10;

/// Store in a directory.
#[derive(Clone, Debug)]
pub struct DirectoryStore {
    /// Directory as given.
    pub path: PathBuf,
}

impl DirectoryStore {
    /// Returns false before the first entry.
    pub fn exists(&self) -> Result<bool, StoreError> {
        match fs::metadata(&self.path) {
            Ok(meta) if !meta.is_dir() => Err(StoreError::NotADirectory {
                path: self.path.clone(),
            }),
            Ok(_) => Ok(self.entries().is_dir()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError::io("read", &self.path)(error)),
        }
    }

    fn entries(&self) -> PathBuf {
        self.path.join(ENTRIES)
    }

    /// Returns the path of an entry.
    pub fn path_of(&self, name: &EntryName) -> PathBuf {
        self.entries().join(name.path())
    }

    /// Writes an entry. On return it is durable, complete and has its final name.
    pub fn add(&self, name: &EntryName, bytes: &[u8]) -> Result<(), StoreError> {
        self.exists()?;
        let folder = self.entries().join(name.folder());
        let path = self.path_of(name);
        for last in (0..TRIES).map(|attempt| attempt + 1 == TRIES) {
            make_durable(&folder)?;
            match write(&path, bytes) {
                // Another process removed the empty directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !last => {}
                written => return written.map_err(StoreError::io("write", &path)),
            }
        }
        Ok(())
    }

    /// Removes entries, and directories that become empty. A missing entry is not an error.
    pub fn remove(&self, names: &[EntryName]) -> Result<(), StoreError> {
        for name in names {
            let path = self.path_of(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io("remove", &path)(error));
                }
                _ => {}
            }
            // `remove_dir` fails if the directory has content, as intended.
            let folders = path.ancestors().skip(1).take(3);
            let _ = folders
                .take_while(|folder| fs::remove_dir(folder).is_ok())
                .count();
        }
        Ok(())
    }

    /// Returns all entries in no order, and files that are not entries.
    pub fn names(&self) -> Result<(Vec<EntryName>, Vec<Problem>), StoreError> {
        let mut names = Vec::new();
        let mut problems = Vec::new();
        let root = self.entries();
        let first = list(&root).map_err(StoreError::io("read", &root))?;
        // Directories below the root of the entries, with their depth.
        let mut waiting: Vec<(String, usize)> = first.into_iter().map(|name| (name, 1)).collect();
        while let Some((below, depth)) = waiting.pop() {
            let path = root.join(&below);
            if path.is_dir() && depth < 4 {
                match list(&path) {
                    Ok(inside) => {
                        waiting.extend(
                            inside
                                .into_iter()
                                .map(|name| (format!("{below}/{name}"), depth + 1)),
                        );
                    }
                    Err(error) => problems.push(problem(&path, format!("cannot read it: {error}"))),
                }
            } else if let Some(name) = EntryName::from_path(&below) {
                names.push(name);
            } else {
                problems.push(problem(&path, "is not an entry of a baseline; remove it"));
            }
        }
        problems.sort_by(|one, other| one.path.cmp(&other.path));
        Ok((names, problems))
    }

    /// Reads the bytes of an entry.
    pub fn read(&self, name: &EntryName) -> Result<Vec<u8>, Problem> {
        let path = self.path_of(name);
        let read = || -> io::Result<Result<Vec<u8>, String>> {
            // Checked before opening, because opening a pipe of that name would block.
            let meta = fs::metadata(&path)?;
            if !meta.is_file() {
                return Ok(Err("is not a file; remove it".to_owned()));
            }
            if meta.len() > LARGEST_ENTRY {
                return Ok(Err(too_large(meta.len())));
            }
            let mut bytes = Vec::new();
            File::open(&path)?.take(LARGEST_ENTRY).read_to_end(&mut bytes)?;
            Ok(Ok(bytes))
        };
        match read() {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(what)) => Err(problem(&path, what)),
            Err(error) => Err(problem(&path, format!("cannot read it: {error}"))),
        }
    }
}

/// Returns the problem of a file that is too large for an entry.
pub(super) fn too_large(bytes: u64) -> String {
    format!("has {bytes} bytes; an entry has at most {LARGEST_ENTRY}, so this is something else")
}

fn problem(path: &Path, what: impl Into<String>) -> Problem {
    Problem {
        path: path.display().to_string(),
        what: what.into(),
    }
}

/// Lists the names in a directory without hidden files. These are being written, or belong to other tools.
fn list(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    Ok(names)
}

/// Creates a directory durably, so that it survives a power failure.
fn make_durable(folder: &Path) -> Result<(), StoreError> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
    for made in missing {
        if let Some(parent) = made.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_folder(parent);
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes)?;
    file.finish_durably()
}

/// Synchronises a directory. Some file systems cannot do this; the entry is then only as durable as they make it.
fn sync_folder(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}
