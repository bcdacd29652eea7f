//! What an object store must do for the readers and writers of sessions, and the one that this program uses.

use bytes::Bytes;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Beginnings of paths that name objects: Amazon S3, Google Cloud Storage, Azure Blob Storage.
const SCHEMES: [&str; 7] = [
    "s3://", "s3a://", "gs://", "az://", "azure://", "abfs://", "abfss://",
];

/// Returns true if a path names objects of an object store.
pub fn is_remote(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    SCHEMES.iter().any(|scheme| bytes.starts_with(scheme.as_bytes()))
}

/// Access to object stores. Every function may be called on any thread, and blocks until it has the result.
///
/// Errors name no path: the callers add it.
pub trait Remote: Send + Sync {
    /// Returns what a path is.
    fn find(&self, path: &Path) -> io::Result<Found>;

    /// Returns the names directly below a directory, sorted, with the sizes of files.
    fn list(&self, directory: &Path) -> io::Result<Vec<(String, Found)>>;

    /// Opens a file that is probably read as a whole. All its reads are of one version of the object.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn RemoteFile>>;

    /// As [`Remote::open`], but reads nothing yet, for readers that need only parts of the file.
    fn open_parts(&self, path: &Path) -> io::Result<Arc<dyn RemoteFile>>;

    /// Starts to write a file. It exists only after [`Upload::finish`].
    fn create(&self, path: &Path) -> io::Result<Box<dyn Upload>>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// What a path in an object store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// An object, and its size in bytes.
    File(u64),
    /// A prefix of the names of objects.
    Directory,
    /// Neither.
    Nothing,
}

/// An open object.
pub trait RemoteFile: Send + Sync {
    /// Returns the size, in bytes.
    fn bytes(&self) -> u64;

    /// Reads ranges, which end at most at the end of the file. Several are read at once.
    ///
    /// # Errors
    /// The object was replaced meanwhile, or cannot be read.
    fn read(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>>;
}

/// An object that is being written. If it is dropped before [`Upload::finish`], nothing is created or replaced.
pub trait Upload: Write + Send {
    /// Completes the object.
    ///
    /// # Errors
    /// A part could not be written.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

static REMOTE: OnceLock<Box<dyn Remote>> = OnceLock::new();

/// Sets the access to object stores for the whole program. Only the first call has an effect.
pub fn register(remote: Box<dyn Remote>) {
    let _ = REMOTE.set(remote);
}

/// Returns the access to object stores.
///
/// # Errors
/// The program registered none.
pub fn remote() -> io::Result<&'static dyn Remote> {
    REMOTE.get().map(AsRef::as_ref).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::Unsupported,
            "this program was built without access to object stores",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_stay_urls_when_they_are_joined() {
        let run = Path::new("s3://bucket/run");
        assert!(is_remote(run));
        let session = run.join("session").join("session.json");
        assert_eq!(session, Path::new("s3://bucket/run/session/session.json"));
        assert!(is_remote(&session));
        let parent = session.parent().and_then(Path::parent);
        assert_eq!(
            parent.map(|path| path.display().to_string()).as_deref(),
            Some("s3://bucket/run")
        );
        for local in [
            "run",
            "/s3/run",
            "s3:/bucket",
            "./s3://bucket",
            "file:///run",
            "S3",
        ] {
            assert!(!is_remote(Path::new(local)), "{local}");
        }
    }
}
