//! An object that is being written, in parts if it is large. It appears when it is complete.

use crate::address::Address;
use crate::error::{RemoteError, io_error};
use crate::object::Version;
use crate::runtime::{handle, wait};
use crate::stores::store;
use object_store::buffered::BufWriter;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use rankscope_formats::files::Upload;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;

/// Size of a part. Smaller objects are written by one request.
pub const PART_BYTES: usize = 8 << 20;
/// Number of parts that are sent at the same time.
const CONCURRENT: usize = 4;
/// Number of bytes that are collected before they go to another thread.
const BUFFER_BYTES: usize = 1 << 20;

/// An object that is being written.
pub struct ObjectUpload {
    path: PathBuf,
    buffer: Vec<u8>,
    /// Absent while a thread of the runtime has it, and after an error.
    writer: Option<BufWriter>,
    store: Arc<dyn ObjectStore>,
    key: Key,
    bytes: u64,
    /// Version that was there before the first part was sent.
    before: Option<Version>,
}

/// Returns the version of an object, if there is one.
pub async fn present(store: &Arc<dyn ObjectStore>, key: &Key) -> Option<Version> {
    let meta = store.head(key).await.ok()?;
    Some(Version::of(meta))
}

/// Returns the version of an object whose multipart upload is complete although `error` says that the upload does not exist.
///
/// This happens if the store completes an upload, and its answer is lost. The client repeats the request, and the store no longer knows
/// the upload. `bytes` is the size of the object, and `before` the version that it replaces.
pub async fn completed(
    store: &Arc<dyn ObjectStore>,
    key: &Key,
    bytes: u64,
    before: Option<&Version>,
    error: &object_store::Error,
) -> Option<Version> {
    if !matches!(error, object_store::Error::NotFound { .. }) {
        return None;
    }
    let found = present(store, key).await?;
    (found.bytes == bytes && found.e_tag.is_some() && Some(&found) != before).then_some(found)
}

impl ObjectUpload {
    /// Starts to write. Sends nothing yet.
    pub fn create(path: &Path) -> Result<Self, RemoteError> {
        let address = Address::of(path)?;
        let store = store(&address)?;
        let writer = BufWriter::with_capacity(Arc::clone(&store), address.key.clone(), PART_BYTES)
            .with_max_concurrency(CONCURRENT);
        Ok(Self {
            path: path.to_path_buf(),
            buffer: Vec::new(),
            writer: Some(writer),
            store,
            key: address.key,
            bytes: 0,
            before: None,
        })
    }

    /// Gives the buffered bytes to the writer, which sends whole parts.
    fn send(&mut self) -> io::Result<()> {
        let mut writer = self.writer.take().ok_or_else(failed_before)?;
        let bytes = std::mem::take(&mut self.buffer);
        let before = self.bytes;
        self.bytes += bytes.len() as u64;
        if before <= PART_BYTES as u64 && self.bytes > PART_BYTES as u64 {
            let (store, key) = (Arc::clone(&self.store), self.key.clone());
            self.before = wait(async move { present(&store, &key).await })?;
        }
        let (writer, outcome, bytes) = wait(async move {
            let outcome = writer.write_all(&bytes).await;
            (writer, outcome, bytes)
        })?;
        self.writer = Some(writer);
        self.buffer = bytes;
        self.buffer.clear();
        outcome.map_err(store_error)
    }
}

impl Write for ObjectUpload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    /// Does nothing, because nobody can read an unfinished object.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Upload for ObjectUpload {
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.send()?;
        let mut writer = self.writer.take().ok_or_else(failed_before)?;
        let (writer, outcome) = wait(async move {
            let outcome = writer.shutdown().await;
            (writer, outcome)
        })?;
        if let Err(error) = outcome {
            let error = match error.downcast::<object_store::Error>() {
                Ok(error) => error,
                Err(error) => {
                    // `drop` removes the parts. A small object has none.
                    self.writer = Some(writer).filter(|_| self.bytes > PART_BYTES as u64);
                    return Err(error);
                }
            };
            let (store, key) = (Arc::clone(&self.store), self.key.clone());
            let (bytes, before) = (self.bytes, self.before.take());
            let (is_complete, error) = wait(async move {
                let version = completed(&store, &key, bytes, before.as_ref(), &error).await;
                (version.is_some(), error)
            })?;
            if !is_complete {
                // A small object has no parts to remove.
                self.writer = Some(writer).filter(|_| bytes > PART_BYTES as u64);
                return Err(io_error(error));
            }
        }
        if let Some(directory) = self.path.parent() {
            crate::state().listings.forget(directory);
        }
        Ok(())
    }
}

impl Drop for ObjectUpload {
    fn drop(&mut self) {
        if let (Some(mut writer), Ok(handle)) = (self.writer.take(), handle()) {
            let (done, ended) = std::sync::mpsc::sync_channel(1);
            handle.spawn(async move {
                // Parts of an upload that cannot be removed are invisible. A rule of the bucket removes them.
                let _ = writer.abort().await;
                let _ = done.send(());
            });
            let _ = ended.recv();
        }
    }
}

fn failed_before() -> io::Error {
    io::Error::other("an earlier part could not be written")
}

/// Returns the error of the store inside an error of the writer.
fn store_error(error: io::Error) -> io::Error {
    match error.downcast::<object_store::Error>() {
        Ok(error) => io_error(error),
        Err(error) => error,
    }
}
