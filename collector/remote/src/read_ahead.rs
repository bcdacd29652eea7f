//! Files that are probably read next. A session has a file per rank, and most readers go from rank to rank. Without this, they would
//! wait for the store once per rank.

use crate::object::Object;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::task::JoinHandle;

/// Number of files that are opened ahead.
const FILES: u64 = 16;
/// Maximum number of files that were opened ahead and not used yet. Each holds at most [`crate::object::HEAD_BYTES`].
const MAX_HELD: usize = 64;
/// Largest distance between two ranks that one reader opens in succession. Several threads open them slightly out of order.
const NEAR: u64 = 4;

/// Files that are opened ahead, and the progress of readers.
#[derive(Default)]
pub struct ReadAhead(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// By directory and extension.
    readers: HashMap<(PathBuf, String), Reader>,
    /// Files that were opened ahead, the oldest first.
    held: VecDeque<(PathBuf, JoinHandle<io::Result<Object>>)>,
}

/// Progress of a reader.
struct Reader {
    /// Rank that was opened last.
    last: u64,
    /// Lowest rank above that was not opened ahead, and lowest rank below that was.
    next: (u64, u64),
}

impl ReadAhead {
    /// Takes a file that was opened ahead.
    pub fn take(&self, path: &Path) -> Option<JoinHandle<io::Result<Object>>> {
        let mut inner = self.lock();
        let at = inner.held.iter().position(|(held, _)| held == path)?;
        inner.held.remove(at).map(|(_, task)| task)
    }

    /// Returns the files to open ahead, now that `path` is opened.
    pub fn next(&self, path: &Path) -> Vec<PathBuf> {
        let Some((directory, rank, extension)) = rank_of(path) else {
            return Vec::new();
        };
        let mut inner = self.lock();
        let key = (directory.to_path_buf(), extension.to_owned());
        let Some(reader) = inner.readers.get_mut(&key) else {
            let next = (rank + 1, rank);
            inner.readers.insert(key, Reader { last: rank, next });
            return Vec::new();
        };
        let last = std::mem::replace(&mut reader.last, rank);
        if rank == last || rank.abs_diff(last) > NEAR {
            reader.next = (rank + 1, rank);
            return Vec::new();
        }
        let ranks = if rank > last {
            let from = reader.next.0.max(rank + 1);
            reader.next.0 = (rank + 1 + FILES).max(from);
            from..reader.next.0
        } else {
            let to = reader.next.1.min(rank);
            reader.next.1 = rank.saturating_sub(FILES).min(to);
            reader.next.1..to
        };
        ranks
            .map(|rank| directory.join(format!("rank={rank}.{extension}")))
            .collect()
    }

    /// Holds a file that is being opened. The oldest ones that nobody took are dropped.
    pub fn hold(&self, path: PathBuf, task: JoinHandle<io::Result<Object>>) {
        let mut inner = self.lock();
        inner.held.push_back((path, task));
        if inner.held.len() > MAX_HELD
            && let Some((_, oldest)) = inner.held.pop_front()
        {
            oldest.abort();
        }
    }

    /// Forgets the files of a directory and those inside.
    pub fn forget(&self, directory: &Path) {
        let mut inner = self.lock();
        inner.held.retain(|(path, _)| !path.starts_with(directory));
        inner.readers.retain(|(of, _), _| !of.starts_with(directory));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // If a thread panicked while it held the lock, at worst a file is opened again.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the directory, the rank and the extension of a file such as `rank=7.parquet`.
pub fn rank_of(path: &Path) -> Option<(&Path, u64, &str)> {
    let (rank, extension) = path
        .file_name()?
        .to_str()?
        .strip_prefix("rank=")?
        .split_once('.')?;
    Some((path.parent()?, rank.parse().ok()?, extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(rank: u64) -> PathBuf {
        PathBuf::from(format!("s3://b/session/view/rank={rank}.view"))
    }

    fn ranks(paths: &[PathBuf]) -> Vec<u64> {
        paths
            .iter()
            .map(|path| rank_of(path).expect("a rank").1)
            .collect()
    }

    #[test]
    fn a_reader_that_goes_up_or_down_is_followed() {
        let ahead = ReadAhead::default();
        assert!(ahead.next(&path(100)).is_empty());
        assert_eq!(ranks(&ahead.next(&path(101))), (102..118).collect::<Vec<_>>());
        assert_eq!(ranks(&ahead.next(&path(102))), [118]);
        assert_eq!(ranks(&ahead.next(&path(104))), [119, 120]);
        // Slightly out of order.
        assert_eq!(ranks(&ahead.next(&path(103))), (87..100).collect::<Vec<_>>());
        assert!(ahead.next(&path(500)).is_empty(), "a jump");
        assert_eq!(ranks(&ahead.next(&path(499))), (483..499).collect::<Vec<_>>());
        assert_eq!(ranks(&ahead.next(&path(498))), [482]);
        assert!(ahead.next(&path(2)).is_empty(), "a jump");
        assert_eq!(ranks(&ahead.next(&path(1))), [0]);
        assert!(ahead.next(Path::new("s3://b/session/session.json")).is_empty());
    }
}
