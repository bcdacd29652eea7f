//! A store in a directory: each entry is written under another name, and then renamed.

use super::entry::EntryName;
use super::error::StoreError;
use super::problem::Problem;
use super::{ENTRIES, LARGEST_ENTRY};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Beginning of the name of a file that is being written.
const UNFINISHED: &str = ".unfinished-";
/// Tries to write next to somebody who removes the folder because it is empty.
const TRIES: usize = 10;

/// The directory of a store.
#[derive(Clone, Debug)]
pub struct DirectoryStore {
    /// The directory, as given.
    pub path: PathBuf,
}

impl DirectoryStore {
    /// False before the first entry.
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

    /// The path of an entry.
    pub fn path_of(&self, name: &EntryName) -> PathBuf {
        self.entries().join(name.path())
    }

    /// Writes an entry: when this returns it is on the disk, whole and under its name.
    pub fn add(&self, name: &EntryName, bytes: &[u8]) -> Result<(), StoreError> {
        self.exists()?;
        let folder = self.entries().join(name.folder());
        let path = self.path_of(name);
        for last in (0..TRIES).map(|attempt| attempt + 1 == TRIES) {
            make_durable(&folder)?;
            match write(&folder, &path, bytes) {
                // Somebody took the empty folder away.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !last => {}
                written => return written.map_err(StoreError::io("write", &path)),
            }
        }
        Ok(())
    }

    /// Removes entries, and the folders that are then empty. What is gone already is no error.
    pub fn remove(&self, names: &[EntryName]) -> Result<(), StoreError> {
        for name in names {
            let path = self.path_of(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io("remove", &path)(error));
                }
                _ => {}
            }
            // Each fails, as it should, if there is anything in it.
            let folders = path.ancestors().skip(1).take(3);
            let _ = folders
                .take_while(|folder| fs::remove_dir(folder).is_ok())
                .count();
        }
        Ok(())
    }

    /// All entries in no order, and what is there that is none.
    pub fn names(&self) -> Result<(Vec<EntryName>, Vec<Problem>), StoreError> {
        let mut names = Vec::new();
        let mut problems = Vec::new();
        let root = self.entries();
        let first = list(&root).map_err(StoreError::io("read", &root))?;
        // Folders below the entries' own, with how deep they are.
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
                    Err(error) => problems.push(problem(&path, format!("cannot be read: {error}"))),
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

    /// The bytes of an entry.
    pub fn read(&self, name: &EntryName) -> Result<Vec<u8>, Problem> {
        let path = self.path_of(name);
        let read = || -> io::Result<Result<Vec<u8>, String>> {
            // Asked before it is opened: nobody writes into a pipe of that name.
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
            Err(error) => Err(problem(&path, format!("cannot be read: {error}"))),
        }
    }
}

/// What is said of an entry that is too large to be one.
pub(super) fn too_large(bytes: u64) -> String {
    format!("has {bytes} bytes; an entry has at most {LARGEST_ENTRY}, so this is something else")
}

fn problem(path: &Path, what: impl Into<String>) -> Problem {
    Problem {
        path: path.display().to_string(),
        what: what.into(),
    }
}

/// Names in a folder, without hidden files: those are being written, or belong to other tools.
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

/// Makes a folder, and sees to it that a power failure does not take it away again.
fn make_durable(folder: &Path) -> Result<(), StoreError> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(folder).map_err(StoreError::io("make", folder))?;
    for made in missing {
        if let Some(parent) = made.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_folder(parent);
        }
    }
    Ok(())
}

fn write(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    // As open to others as they have chosen by their umask, unlike a temporary file.
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync_folder(folder);
    Ok(())
}

/// Some file systems cannot do this for a folder; the entry is then as safe as they make it.
fn sync_folder(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}
