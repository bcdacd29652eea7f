//! The bytes of an index: mapped, in memory, or in an object store.
//!
//! The end of an object is read first. It has the footer and usually all directories, which suffice for sums over any interval. Blocks
//! of spans are read when they are needed, in chunks, into an unnamed temporary file that is mapped ([`super::backing`]).

use super::backing::Region;
use crate::files::{self, RemoteFile};
use memmap2::Mmap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Number of bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Number of chunks from the end that are read when an object is opened.
const LAST_CHUNKS: usize = 2;

/// The bytes of a file.
pub(super) enum Contents {
    Mapped(Mmap),
    Owned(Vec<u8>),
    Remote(Remote),
}

impl Contents {
    /// Opens a file. It must not change any more.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if files::is_remote(path) {
            return Remote::open(path).map(Self::Remote);
        }
        let file = std::fs::File::open(path)?;
        // SAFETY: a mapped file must not change while a reference to it exists. An index is written under another name
        // and renamed when it is complete. Nobody writes to it afterwards: a new index is a new file, and mappings of
        // the old one stay valid. If a user truncates the file, the viewer is killed by a signal. All values in the
        // bytes are checked against bounds.
        unsafe { Mmap::map(&file) }.map(Self::Mapped)
    }

    /// Returns the number of bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Mapped(map) => map.len(),
            Self::Owned(bytes) => bytes.len(),
            Self::Remote(remote) => remote.chunks_end(),
        }
    }

    /// Returns a range, and reads it from the object store if necessary. `None`: it is outside of the file, or cannot be read.
    #[inline]
    pub(super) fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        match self {
            Self::Mapped(map) => map.get(range),
            Self::Owned(bytes) => bytes.get(range),
            Self::Remote(remote) => remote.get(range),
        }
    }

    /// Returns true if no range needs the object store any more.
    pub(super) fn is_resident(&self) -> bool {
        match self {
            Self::Mapped(_) | Self::Owned(_) => true,
            Self::Remote(remote) => remote.chunks.iter().all(|chunk| chunk.get().is_some()),
        }
    }

    /// Reads the rest of an object.
    pub(super) fn load(&self) {
        if let Self::Remote(remote) = self {
            remote.load(0..remote.chunks.len());
        }
    }

    /// Returns why ranges of an object could not be read.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        match self {
            Self::Mapped(_) | Self::Owned(_) => None,
            Self::Remote(remote) => remote.failure.get(),
        }
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.len())
    }
}

/// An object, of which parts are read.
pub(super) struct Remote {
    file: Arc<dyn RemoteFile>,
    /// As large as the object. Absent for an empty one, which cannot be mapped.
    memory: Option<Region>,
    /// For each chunk that was requested, whether its bytes are in the region. They do not change after this is set.
    chunks: Box<[OnceLock<bool>]>,
    /// First error of a request, or of writing into the region.
    failure: OnceLock<io::Error>,
}

impl Remote {
    fn open(path: &Path) -> io::Result<Self> {
        Self::new(files::remote()?.open_parts(path)?)
    }

    fn new(file: Arc<dyn RemoteFile>) -> io::Result<Self> {
        let bytes = usize::try_from(file.bytes())
            .map_err(|_| io::Error::other("the index is too large for this machine"))?;
        let memory = match bytes {
            0 => None,
            _ => Some(Region::create(bytes)?),
        };
        let remote = Self {
            file,
            memory,
            chunks: (0..bytes.div_ceil(CHUNK_BYTES))
                .map(|_| OnceLock::new())
                .collect(),
            failure: OnceLock::new(),
        };
        let chunks = remote.chunks.len();
        remote.load(chunks.saturating_sub(LAST_CHUNKS)..chunks);
        match remote.failure.get() {
            Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
            None => Ok(remote),
        }
    }

    fn chunks_end(&self) -> usize {
        self.memory.as_ref().map_or(0, Region::len)
    }

    fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start >= range.end {
            return (range.start == range.end && range.end <= self.chunks_end()).then_some(&[]);
        }
        let memory = self.memory.as_ref()?;
        if range.end > memory.len() {
            return None;
        }
        let chunks = range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES);
        let known = |chunks: Range<usize>| {
            self.chunks
                .get(chunks)
                .is_some_and(|chunks| chunks.iter().all(|chunk| chunk.get() == Some(&true)))
        };
        if !known(chunks.clone()) {
            self.load(chunks.clone());
            if !known(chunks) {
                return None;
            }
        }
        // SAFETY: all chunks of the range were written, and a chunk is written only before its `OnceLock` is set: nobody
        // writes to these bytes any more.
        unsafe { memory.get(range) }
    }

    /// Reads chunks that are not in memory yet, all at once.
    fn load(&self, chunks: Range<usize>) {
        let missing: Vec<usize> = chunks
            .filter(|&chunk| self.chunks.get(chunk).is_some_and(|chunk| chunk.get().is_none()))
            .collect();
        let mut runs: Vec<Range<usize>> = Vec::new();
        for chunk in missing {
            match runs.last_mut() {
                Some(run) if run.end == chunk => run.end += 1,
                _ => runs.push(chunk..chunk + 1),
            }
        }
        let bytes_of = |run: &Range<usize>| {
            (run.start * CHUNK_BYTES) as u64..((run.end * CHUNK_BYTES) as u64).min(self.file.bytes())
        };
        let ranges: Vec<Range<u64>> = runs.iter().map(bytes_of).collect();
        if ranges.is_empty() {
            return;
        }
        match self.file.read(&ranges) {
            Ok(read) => {
                for (run, bytes) in runs.iter().zip(read) {
                    for (chunk, part) in run.clone().zip(bytes.chunks(CHUNK_BYTES)) {
                        self.store(chunk, part);
                    }
                }
            }
            Err(error) => {
                let _ = self.failure.set(error);
                for chunk in runs.into_iter().flatten() {
                    let _ = self.chunks[chunk].set(false);
                }
            }
        }
    }

    /// Writes a chunk, unless another thread did so.
    fn store(&self, chunk: usize, bytes: &[u8]) {
        let start = chunk * CHUNK_BYTES;
        let (Some(state), Some(memory)) = (self.chunks.get(chunk), &self.memory) else {
            return;
        };
        state.get_or_init(|| {
            if bytes.len() != CHUNK_BYTES.min(memory.len() - start) {
                return false;
            }
            // Only one thread runs this for a chunk. A full disk is an error here.
            let written = memory.write(start, bytes);
            written.map_err(|error| self.failure.set(error)).is_ok()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Mutex;

    struct Memory {
        bytes: Vec<u8>,
        reads: Mutex<u64>,
        fails: bool,
    }

    impl RemoteFile for Memory {
        fn bytes(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read(&self, ranges: &[Range<u64>]) -> io::Result<Vec<bytes::Bytes>> {
            let mut reads = self.reads.lock().expect("no panic");
            *reads += 1;
            if self.fails && *reads > 1 {
                return Err(io::Error::other("the store is closed"));
            }
            let of = |range: &Range<u64>| {
                self.bytes[range.start as usize..range.end as usize]
                    .to_vec()
                    .into()
            };
            Ok(ranges.iter().map(of).collect())
        }
    }

    fn memory(bytes: usize, fails: bool) -> Arc<Memory> {
        Arc::new(Memory {
            bytes: (0..bytes).map(|at| (at * 7 + at / 999) as u8).collect(),
            reads: Mutex::default(),
            fails,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn any_range_is_that_of_the_object(
            bytes in 0usize..5 * CHUNK_BYTES,
            ranges in proptest::collection::vec((0usize..6 * CHUNK_BYTES, 0usize..3 * CHUNK_BYTES), 1..20),
            threads in 1usize..4,
        ) {
            let file = memory(bytes, false);
            let contents = Contents::Remote(Remote::new(file.clone()).expect("opened"));
            prop_assert_eq!(contents.len(), bytes);
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        for &(start, length) in &ranges {
                            assert_eq!(contents.get(start..start + length), file.bytes.get(start..start + length));
                        }
                    });
                }
            });
            contents.load();
            prop_assert!(contents.is_resident() && contents.failure().is_none());
            prop_assert_eq!(contents.get(0..bytes), Some(&file.bytes[..]));
        }
    }

    #[test]
    fn the_end_is_one_request_and_a_failure_is_kept() {
        let file = memory(10 * CHUNK_BYTES + 5, true);
        let contents = Contents::Remote(Remote::new(file.clone()).expect("opened"));
        let end = file.bytes.len();
        assert_eq!(contents.get(end - 100..end), Some(&file.bytes[end - 100..]));
        assert_eq!(*file.reads.lock().expect("reads"), 1);
        assert!(!contents.is_resident() && contents.failure().is_none());
        assert_eq!(contents.get(0..10), None);
        assert!(
            contents
                .failure()
                .is_some_and(|error| error.to_string().contains("closed"))
        );
    }
}
