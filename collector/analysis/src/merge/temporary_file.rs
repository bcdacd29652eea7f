//! Temporary files of a merge. They have no name, so nothing remains of them, however the merge ends.

use rankscope_formats::session::TableError;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Number of the next file, so that two threads never name theirs alike.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Temporary file that is written.
pub struct TemporaryWriter {
    file: File,
    path: PathBuf,
    written: u64,
    buffer: Vec<u8>,
}

impl TemporaryWriter {
    /// Creates a file in a directory.
    pub fn create(directory: &Path) -> Result<Self, TableError> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(".temporary-{}-{number}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .and_then(|file| fs::remove_file(&path).map(|()| file));
        match file {
            Ok(file) => Ok(Self {
                file,
                path,
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
        Ok(TemporaryFile {
            file: self.file,
            path: self.path,
        })
    }
}

/// Temporary file that was written.
pub struct TemporaryFile {
    file: File,
    path: PathBuf,
}

impl TemporaryFile {
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
            source: std::io::Error::other("the temporary file does not contain what was written to it"),
        }
    }
}
