//! The machine and the environment. All facts are read through it. Tests read a prepared directory tree instead.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Maximum size of a file that is read, in bytes. The rest is ignored.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum number of names that are read from a directory.
const MAX_NAMES: usize = 16_384;

/// Size of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Size in bytes.
    pub total_bytes: u64,
    /// Free space for this user in bytes; `None` if it is not known.
    pub free_bytes: Option<u64>,
}

/// Root directory, environment variables and working directory. All paths of facts are paths below this root.
#[derive(Clone, Debug)]
pub struct Surroundings {
    root: PathBuf,
    environment: BTreeMap<String, String>,
    working_directory: PathBuf,
}

impl Surroundings {
    /// This machine, with the environment of this process.
    pub fn system() -> Self {
        let environment = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
        Self {
            root: PathBuf::from("/"),
            environment: environment.collect(),
            working_directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
        }
    }

    /// A prepared directory tree instead of the root directory. Nothing in it is executed.
    pub fn prepared(root: &Path, environment: BTreeMap<String, String>) -> Self {
        Self {
            root: root.to_path_buf(),
            environment,
            working_directory: PathBuf::from("/"),
        }
    }

    /// Returns the same environment with another root directory.
    #[must_use]
    pub fn with_root(mut self, root: &Path) -> Self {
        self.root = root.to_path_buf();
        self.working_directory = PathBuf::from("/");
        self
    }

    /// Whether this is the machine itself, so that programs may be started and system calls describe it.
    pub fn is_system(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Returns the path of the file on this machine, which differs in a prepared tree.
    pub fn place(&self, path: &Path) -> PathBuf {
        let absolute = self.absolute(path);
        if self.is_system() {
            return absolute;
        }
        let inside: PathBuf = absolute
            .components()
            .filter(|part| !matches!(part, Component::RootDir))
            .collect();
        self.root.join(inside)
    }

    /// Returns the path without symbolic links, as seen below the root; the path itself if it cannot be resolved.
    pub fn resolved(&self, path: &Path) -> PathBuf {
        let found = fs::canonicalize(self.place(path)).ok();
        let root = fs::canonicalize(&self.root).unwrap_or_else(|_| self.root.clone());
        found
            .and_then(|found| Some(Path::new("/").join(found.strip_prefix(root).ok()?)))
            .unwrap_or_else(|| self.absolute(path))
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        self.working_directory.join(path)
    }

    /// Returns the text of a file without white space around it; `None` if there is none.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = self.read_bytes(path)?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// Returns the first bytes of a file; `None` if there is none.
    pub fn read_bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = self.open(path)?;
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Opens a regular file; `None` if there is none. Opening a pipe or a device could block, or have an effect.
    pub fn open(&self, path: impl AsRef<Path>) -> Option<File> {
        let place = self.place(path.as_ref());
        place.is_file().then(|| File::open(place).ok())?
    }

    /// Returns the sorted names in a directory; empty if there is no such directory.
    pub fn list(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.place(path.as_ref())) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .take(MAX_NAMES)
            .map(|entry| text(entry.file_name()))
            .collect();
        names.sort();
        names
    }

    /// Whether there is a file, directory or device of this name.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.place(path.as_ref()).exists()
    }

    /// Returns the value of a variable, if it is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// Returns all variables, also empty ones.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.environment
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the size of the file system that is mounted here. In a prepared tree it comes from /proc/mounts.
    pub fn capacity(&self, mount: &str) -> Option<Capacity> {
        if self.is_system() {
            return measured(Path::new(mount));
        }
        let mounts = self.read("/proc/mounts")?;
        let options = mounts.lines().find_map(|line| {
            // Device, place, type, options.
            let mut fields = line.split_ascii_whitespace().skip(1);
            (fields.next()? == mount).then(|| fields.nth(1))?
        })?;
        let size = options
            .split(',')
            .find_map(|option| option.strip_prefix("size="))?;
        let kibibytes: u64 = size.strip_suffix('k')?.parse().ok()?;
        Some(Capacity {
            total_bytes: kibibytes.checked_mul(1024)?,
            free_bytes: None,
        })
    }

    /// Whether this user is root. The loader honours a preload for setuid programs of root.
    pub fn is_root(&self) -> bool {
        let effective = self
            .status("Uid:")
            .and_then(|ids| ids.split_ascii_whitespace().nth(1).map(str::to_owned));
        effective.is_some_and(|id| id == "0")
    }

    /// Whether this process has a capability, by its number in `linux/capability.h`.
    pub fn has_capability(&self, number: u32) -> bool {
        let set = self
            .status("CapEff:")
            .and_then(|set| u64::from_str_radix(&set, 16).ok());
        set.is_some_and(|set| set >> number & 1 == 1)
    }

    /// Returns a field of this process's status.
    fn status(&self, field: &str) -> Option<String> {
        let status = self.read("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        Some(line.trim().to_owned())
    }
}

fn text(value: OsString) -> String {
    value.to_string_lossy().into_owned()
}

/// Asks the system for the size of a file system.
fn measured(path: &Path) -> Option<Capacity> {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut space = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path is NUL-terminated, and `space` is valid memory for the result.
    let outcome = unsafe { libc::statvfs(name.as_ptr(), space.as_mut_ptr()) };
    if outcome != 0 {
        return None;
    }
    // SAFETY: all zero is a valid value, and the call has filled it in.
    let space = unsafe { space.assume_init() };
    Some(Capacity {
        total_bytes: space.f_frsize.saturating_mul(space.f_blocks),
        free_bytes: Some(space.f_frsize.saturating_mul(space.f_bavail)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let here = Surroundings::prepared(dir.path(), BTreeMap::new());
        let name =
            std::ffi::CString::new(here.place(Path::new("/pipe")).as_os_str().as_bytes()).expect("no NUL");
        // SAFETY: the name is NUL-terminated.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        // A pipe without a writer would block for ever.
        assert!(here.exists("/pipe") && here.open("/pipe").is_none());
        assert_eq!(here.read("/pipe"), None);
        fs::write(here.place(Path::new("/file")), " text \n").expect("written");
        assert_eq!(here.read("/file").as_deref(), Some("text"));
    }
}
