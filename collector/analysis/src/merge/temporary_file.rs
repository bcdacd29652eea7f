//! Temporary files of a merge. They have no name, so nothing remains of them, however the merge ends. Only files that
//! another process reads have one.

use rankscope_formats::session::TableError;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Number of bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Where temporary files are created.
#[derive(Clone, Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    /// True if other processes read the files.
    is_shared: bool,
}

impl TemporaryFolder {
    /// Returns a folder for files without a name.
    pub fn unnamed(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            is_shared: false,
        }
    }

    /// Returns a folder for files that other processes read. Its owner removes it.
    pub fn shared(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            is_shared: true,
        }
    }

    /// Creates a file. Its name is new in the folder.
    pub fn create(&self, name: &str) -> Result<TemporaryWriter, TableError> {
        match self.is_shared {
            true => TemporaryWriter::create_named(&self.path.join(name)),
            false => TemporaryWriter::create(&self.path),
        }
    }
}

/// Temporary file that is written.
pub struct TemporaryWriter {
    file: File,
    /// Path of the file; of an unnamed file, the path of its directory.
    path: PathBuf,
    is_named: bool,
    written: u64,
    buffer: Vec<u8>,
}

impl TemporaryWriter {
    /// Creates a file in a directory.
    pub fn create(directory: &Path) -> Result<Self, TableError> {
        Self::of(tempfile::tempfile_in(directory), directory, false)
    }

    /// Creates a file with a name, for another process.
    pub fn create_named(path: &Path) -> Result<Self, TableError> {
        let file = File::options().read(true).write(true).create_new(true).open(path);
        Self::of(file, path, true)
    }

    fn of(file: io::Result<File>, path: &Path, is_named: bool) -> Result<Self, TableError> {
        let path = path.to_path_buf();
        match file {
            Ok(file) => Ok(Self {
                file,
                path,
                is_named,
                written: 0,
                buffer: Vec::new(),
            }),
            Err(source) => Err(TableError::Io { path, source }),
        }
    }

    /// Returns the offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Returns the error for a part whose length does not fit into its 32 bits.
    pub fn too_large(&self) -> TableError {
        TableError::Io {
            path: self.path.clone(),
            source: io::Error::other(
                "a part of this temporary file of the merge exceeds 4 GiB; please report this",
            ),
        }
    }

    /// Appends bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), TableError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TableError> {
        let written = self.file.write_all_at(&self.buffer, self.written);
        written.map_err(|source| TableError::Io {
            path: self.path.clone(),
            source,
        })?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is buffered. The file can then be read.
    pub fn finish(mut self) -> Result<TemporaryFile, TableError> {
        self.flush()?;
        let Self {
            mut file,
            path,
            is_named,
            written: bytes,
            ..
        } = self;
        if is_named {
            // On NFS, other machines see what was written once the file was closed.
            drop(file);
            file = match File::open(&path) {
                Ok(file) => file,
                Err(source) => return Err(TableError::Io { path, source }),
            };
        }
        Ok(TemporaryFile { file, path, bytes })
    }
}

/// Temporary file that was written.
pub struct TemporaryFile {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl TemporaryFile {
    /// Opens a file that another process wrote, of this size in bytes.
    pub fn open(path: &Path, bytes: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let found = file.metadata()?.len();
        if found != bytes {
            let what = format!("{found} bytes, and {bytes} were written");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(Self {
            file,
            path: path.to_path_buf(),
            bytes,
        })
    }

    /// Returns its size, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `bytes` from an offset on.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), TableError> {
        let read = self.file.read_exact_at(bytes, offset);
        read.map_err(|source| TableError::Io {
            path: self.path.clone(),
            source,
        })
    }

    /// Returns the error for bytes that are not what was written.
    pub fn damaged(&self) -> TableError {
        TableError::Io {
            path: self.path.clone(),
            source: io::Error::other(
                "this temporary file of the merge does not contain what was written to it: the disk may be faulty; merge again",
            ),
        }
    }
}
