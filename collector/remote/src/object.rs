//! An open object. All reads are of the version that was opened.

use crate::address::Protocol;
use crate::error::io_error;
use crate::runtime::wait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use rankscope_formats::files::RemoteFile;
use serde::{Deserialize, Serialize};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Number of bytes from the start of an object that are read when it is opened. Most files of a session are smaller.
pub const HEAD_BYTES: u64 = 1 << 20;
/// Number of requests of one reader at the same time.
const CONCURRENT: usize = 16;

/// Size and version of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Size, in bytes.
    pub bytes: u64,
    /// Tag that changes with the content.
    pub e_tag: Option<String>,
    /// Time at which it was written, in nanoseconds since 1970, if it is from a list.
    pub written_unix_ns: Option<i64>,
}

impl Version {
    /// Returns the version of an object from the answer to a request for it.
    pub fn of(object: object_store::ObjectMeta) -> Self {
        Self {
            bytes: object.size,
            e_tag: object.e_tag,
            written_unix_ns: None,
        }
    }

    /// Returns the version of an object in a list. Only S3 promises the same tag in lists and answers.
    pub fn listed(object: object_store::ObjectMeta, protocol: Protocol) -> Self {
        Self {
            bytes: object.size,
            e_tag: object.e_tag.filter(|_| protocol == Protocol::S3),
            written_unix_ns: object.last_modified.timestamp_nanos_opt(),
        }
    }
}

/// An open object.
#[derive(Clone)]
pub struct Object {
    store: Arc<dyn ObjectStore>,
    key: Key,
    version: Version,
    /// Bytes from the start; empty, or [`HEAD_BYTES`], or all.
    head: Bytes,
}

impl Object {
    /// Opens an object. `known` is its version, if a list has it. Then the start of a large one is not read, because the readers of
    /// tables begin at the end.
    pub async fn open(store: Arc<dyn ObjectStore>, key: Key, known: Option<Version>) -> io::Result<Self> {
        if let Some(version) = known.filter(|known| known.e_tag.is_some() && known.bytes > HEAD_BYTES) {
            return Ok(Self::of_version(store, key, version));
        }
        let options = GetOptions {
            range: Some(GetRange::Bounded(0..HEAD_BYTES)),
            ..GetOptions::default()
        };
        let (version, head) = match store.get_opts(&key, options).await {
            Ok(result) => {
                let version = Version::of(result.meta.clone());
                (version, result.bytes().await.map_err(io_error)?)
            }
            // An empty object has no range.
            Err(error) if error.to_string().contains("416") => {
                let meta = store.head(&key).await.map_err(io_error)?;
                if meta.size > 0 {
                    return Err(io_error(error));
                }
                (Version::of(meta), Bytes::new())
            }
            Err(error) => return Err(io_error(error)),
        };
        tracing::debug!(%key, bytes = version.bytes, read = head.len(), "opened");
        Ok(Self {
            store,
            key,
            version,
            head,
        })
    }

    /// Opens an object whose version is known. Reads nothing.
    pub fn of_version(store: Arc<dyn ObjectStore>, key: Key, version: Version) -> Self {
        Self {
            store,
            key,
            version,
            head: Bytes::new(),
        }
    }

    /// Returns the version.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Reads ranges. Those of the start need no request.
    pub async fn read_ranges(self, ranges: Vec<Range<u64>>) -> io::Result<Vec<Bytes>> {
        let object = &self;
        stream::iter(ranges)
            .map(|range| object.read_range(range))
            .buffered(CONCURRENT)
            .try_collect()
            .await
    }

    /// Reads one range.
    pub async fn read_range(&self, range: Range<u64>) -> io::Result<Bytes> {
        if range.start >= range.end {
            return Ok(Bytes::new());
        }
        if range.end <= self.head.len() as u64 {
            return Ok(self.head.slice(range.start as usize..range.end as usize));
        }
        let bytes = range.end - range.start;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: self.version.e_tag.clone(),
            ..GetOptions::default()
        };
        tracing::debug!(key = %self.key, start = range.start, bytes, "read");
        let result = self.store.get_opts(&self.key, options).await.map_err(io_error)?;
        let read = result.bytes().await.map_err(io_error)?;
        if read.len() as u64 != bytes {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "the object store sent {} bytes of {bytes} from offset {}",
                    read.len(),
                    range.start
                ),
            ));
        }
        Ok(read)
    }
}

impl RemoteFile for Object {
    fn bytes(&self) -> u64 {
        self.version.bytes
    }

    fn read(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        // Bytes in memory need no thread.
        if let [range] = ranges
            && range.start <= range.end
            && range.end <= self.head.len() as u64
        {
            return Ok(vec![self.head.slice(range.start as usize..range.end as usize)]);
        }
        wait(self.clone().read_ranges(ranges.to_vec()))?
    }
}
