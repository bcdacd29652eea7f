//! Files that exist completely or not at all.
//!
//! A file is written under a temporary name in the same directory. Only a complete file gets its name and replaces the
//! previous one. Devices and pipes, such as `/dev/stdout`, are written directly, because they cannot be replaced. Object stores
//! make an object visible when it is complete ([`crate::files`]).

use crate::files::{Upload, is_remote, remote};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Start of temporary names. It makes the files hidden, and is followed by the final name.
pub const UNFINISHED: &str = ".unfinished-";

/// File that is being written. If it is dropped before [`WholeFile::finish`], the temporary file is removed.
pub struct WholeFile(Place);

enum Place {
    Unfinished {
        file: NamedTempFile,
        path: PathBuf,
    },
    /// A device or a pipe.
    Direct(File),
    /// An object of an object store.
    Remote(Box<dyn Upload>),
}

impl WholeFile {
    /// Creates a temporary file in the directory of `path`. Several writers of the same path do not disturb each other:
    /// the last one to finish remains. If `path` is a symbolic link to a file, that file is replaced.
    pub fn create(path: &Path) -> io::Result<Self> {
        if is_remote(path) {
            return Ok(Self(Place::Remote(remote()?.create(path)?)));
        }
        let kind = fs::metadata(path).map(|metadata| metadata.file_type());
        if kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir()) {
            return Ok(Self(Place::Direct(OpenOptions::new().write(true).open(path)?)));
        }
        let target = match path.is_symlink() {
            // A link without a file is replaced itself.
            true => path.canonicalize().unwrap_or_else(|_| path.to_owned()),
            false => path.to_owned(),
        };
        let path = target.as_path();
        let mut prefix = OsString::from(UNFINISHED);
        prefix.push(path.file_name().unwrap_or(OsStr::new("file")));
        prefix.push("-");
        // The permissions follow the umask of the user. Those of temporary files would not.
        let file = tempfile::Builder::new()
            .prefix(&prefix)
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory(path))
            .map_err(without_temporary_name)?;
        let path = path.to_owned();
        Ok(Self(Place::Unfinished { file, path }))
    }

    /// Gives the file its name.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Place::Unfinished { file, path } => drop(file.persist(path)?),
            Place::Direct(_) => {}
            Place::Remote(upload) => upload.finish()?,
        }
        Ok(())
    }

    /// Gives the file its name after its content has reached the disk. File systems that cannot synchronise a directory
    /// decide themselves when the name becomes durable.
    pub fn finish_durably(self) -> io::Result<()> {
        if let Place::Unfinished { file, path } = self.0 {
            file.as_file().sync_all()?;
            file.persist(&path)?;
            let _ = File::open(directory(&path)).and_then(|directory| directory.sync_all());
            return Ok(());
        }
        // A completed object is durable.
        self.finish()
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.0 {
            Place::Unfinished { file, .. } => file.as_file_mut(),
            Place::Direct(file) => file,
            Place::Remote(upload) => upload,
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }
}

/// Writes a file completely or not at all.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Removes temporary files of `path` that killed writers left. Call it only if no other program writes the file.
pub fn remove_leftovers(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else {
        return Ok(());
    };
    let prefix = format!("{UNFINISHED}{name}-");
    for entry in fs::read_dir(directory(path))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns the directory of a path, which may be a mere name.
fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Returns the kind of the error alone. `tempfile` adds the temporary name, which means nothing to a user.
fn without_temporary_name(error: io::Error) -> io::Error {
    io::Error::from(error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .expect("listed")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn only_a_complete_file_replaces_the_previous_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a");
        write(&path, b"one").expect("written");
        write(&path, b"two").expect("replaced");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        let mut abandoned = WholeFile::create(&path).expect("created");
        abandoned.write_all(b"thr").expect("written");
        assert_eq!(names(folder.path()).len(), 2);
        drop(abandoned);
        let mut durable = WholeFile::create(&path).expect("created");
        durable.write_all(b"three").expect("written");
        durable.finish_durably().expect("finished");
        assert_eq!(fs::read(&path).expect("read"), b"three");

        let directory = folder.path().join("directory");
        fs::create_dir(&directory).expect("created");
        assert!(write(&directory, b"four").is_err());
        assert_eq!(
            names(folder.path()),
            ["a", "directory"],
            "no temporary file is left"
        );
    }

    #[test]
    fn devices_stay_devices_and_links_stay_links() {
        use std::os::unix::fs::{FileTypeExt, symlink};

        let folder = tempfile::tempdir().expect("a temporary folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        let null = folder.path().join("null");
        write(&file, b"one").expect("written");
        symlink("file", &link).expect("a link");
        symlink("/dev/null", &null).expect("a link");
        write(&link, b"two").expect("written");
        write(&null, b"three").expect("written");
        assert_eq!(fs::read(&file).expect("read"), b"two");
        assert!(link.is_symlink() && null.is_symlink());
        let device = fs::metadata("/dev/null").expect("a device").file_type();
        assert!(device.is_char_device());
        assert_eq!(names(folder.path()), ["file", "link", "null"]);
    }

    #[test]
    fn permissions_are_those_of_any_new_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, plain) = (folder.path().join("a"), folder.path().join("plain"));
        write(&path, b"one").expect("written");
        fs::write(&plain, b"one").expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
    }

    #[test]
    fn errors_do_not_name_the_temporary_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let error = write(&folder.path().join("missing/a"), b"one").expect_err("no such directory");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!error.to_string().contains("unfinished"), "{error}");
    }

    #[test]
    fn leftovers_of_a_killed_writer_are_removed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("trace.pftrace");
        write(&path, b"complete").expect("written");
        let Place::Unfinished { file, .. } = WholeFile::create(&path).expect("created").0 else {
            panic!("it is no device");
        };
        let (_, left) = file.keep().expect("left over");
        let other = folder.path().join(".unfinished-report.html-x");
        fs::write(&other, b"of another file").expect("written");
        assert!(left.exists());
        remove_leftovers(&path).expect("removed");
        assert_eq!(
            names(folder.path()),
            [".unfinished-report.html-x", "trace.pftrace"]
        );
    }
}
