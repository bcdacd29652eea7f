//! A Parquet file, on this machine or in an object store. Of an object, only the footer and the needed columns are read.

use super::remote::{RemoteFile, is_remote, remote};
use super::requests::{request_count, requests};
use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Number of bytes from the end of an object that are read first. The footer is usually inside.
const TAIL_BYTES: u64 = 64 << 10;
/// Objects up to this size are read whole: one request is cheaper than two.
const WHOLE_BYTES: u64 = 1 << 20;
/// Largest gap between two ranges that is read as well, because another request would cost more.
const GAP_BYTES: u64 = 128 << 10;
/// Number of row groups whose bytes are kept. A batch of rows may span two.
const KEPT_GROUPS: usize = 2;

/// An open Parquet file.
pub enum OpenFile {
    /// A file of this machine.
    Local(File),
    /// An object.
    Remote(Ranged),
}

/// Opens a file.
///
/// # Errors
/// It does not exist or cannot be opened.
pub fn open(path: &Path) -> io::Result<OpenFile> {
    if is_remote(path) {
        return Ok(OpenFile::Remote(Ranged::new(remote()?.open(path)?)));
    }
    Ok(OpenFile::Local(File::open(path)?))
}

impl OpenFile {
    /// Opens the file at `path`, which this is, for another reader. An object is not requested again.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn again(&self, path: &Path) -> io::Result<Self> {
        match self {
            // A duplicated descriptor would share its position.
            Self::Local(_) => Ok(Self::Local(File::open(path)?)),
            Self::Remote(ranged) => Ok(Self::Remote(Ranged {
                file: Arc::clone(&ranged.file),
                planned: Vec::new(),
                held: Arc::new(Mutex::new(Held {
                    tail: ranged.tail(),
                    groups: VecDeque::new(),
                })),
            })),
        }
    }

    /// Sets which columns of which row groups are read next, so that an object is read in few large ranges. `reads` returns true for
    /// the number of such a column.
    pub fn plan(&mut self, metadata: &ParquetMetaData, groups: &[usize], reads: impl Fn(usize) -> bool) {
        let Self::Remote(ranged) = self else {
            return;
        };
        let ranges_of = |&group: &usize| -> Option<Vec<Range<u64>>> {
            let columns = metadata.row_groups().get(group)?.columns().iter().enumerate();
            let ranges = columns.filter(|(column, _)| reads(*column)).map(|(_, column)| {
                let (start, bytes) = column.byte_range();
                start..start.saturating_add(bytes)
            });
            Some(joined(ranges.collect(), ranged.file.bytes()))
        };
        ranged.planned = groups.iter().filter_map(ranges_of).collect();
    }
}

impl Length for OpenFile {
    fn len(&self) -> u64 {
        match self {
            Self::Local(file) => file.len(),
            Self::Remote(ranged) => ranged.file.bytes(),
        }
    }
}

impl ChunkReader for OpenFile {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        match self {
            Self::Local(file) => {
                let mut file = file.try_clone()?;
                file.seek(SeekFrom::Start(start))?;
                Ok(Box::new(BufReader::new(file)))
            }
            Self::Remote(ranged) => Ok(Box::new(Sequential {
                ranged: ranged.clone(),
                at: start,
                bytes: Bytes::new(),
            })),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        match self {
            Self::Local(file) => file.get_bytes(start, length),
            Self::Remote(ranged) => {
                let missing = || ParquetError::EOF(format!("the file ends before byte {start} + {length}"));
                let end = start.checked_add(length as u64).ok_or_else(missing)?;
                if end > ranged.file.bytes() {
                    return Err(missing());
                }
                Ok(ranged.bytes(start..end)?)
            }
        }
    }
}

/// An object that is read by ranges.
#[derive(Clone)]
pub struct Ranged {
    file: Arc<dyn RemoteFile>,
    /// Ranges that are read together, one list per row group.
    planned: Vec<Vec<Range<u64>>>,
    held: Arc<Mutex<Held>>,
}

/// Bytes that were read and may be used again.
#[derive(Default)]
struct Held {
    tail: Vec<Part>,
    /// Numbers in the plan, and their bytes.
    groups: VecDeque<(usize, Vec<Part>)>,
}

/// Bytes at an offset of the object.
#[derive(Clone)]
struct Part {
    start: u64,
    bytes: Bytes,
}

impl Part {
    fn get(&self, range: &Range<u64>) -> Option<Bytes> {
        let from = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        let to = usize::try_from(range.end.checked_sub(self.start)?).ok()?;
        (from <= to && to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }
}

fn get(parts: &[Part], range: &Range<u64>) -> Option<Bytes> {
    parts.iter().find_map(|part| part.get(range))
}

impl Ranged {
    fn new(file: Arc<dyn RemoteFile>) -> Self {
        Self {
            file,
            planned: Vec::new(),
            held: Arc::default(),
        }
    }

    /// Returns what is known of the end of the object.
    fn tail(&self) -> Vec<Part> {
        self.held.lock().map(|held| held.tail.clone()).unwrap_or_default()
    }

    /// Returns the bytes of a range inside the object.
    fn bytes(&self, range: Range<u64>) -> io::Result<Bytes> {
        let poisoned = |_| io::Error::other("another thread failed while it read this object");
        let too_short = || io::Error::new(io::ErrorKind::UnexpectedEof, "the object is shorter than it was");
        let mut held = self.held.lock().map_err(poisoned)?;
        let known = held.groups.iter().map(|(_, parts)| parts).chain([&held.tail]);
        if let Some(bytes) = known.filter_map(|parts| get(parts, &range)).next() {
            return Ok(bytes);
        }
        let contains = |planned: &Range<u64>| planned.start <= range.start && range.end <= planned.end;
        if let Some(group) = self.planned.iter().position(|ranges| ranges.iter().any(contains)) {
            let parts = self.read(&self.planned[group])?;
            let bytes = get(&parts, &range);
            if held.groups.len() >= KEPT_GROUPS {
                held.groups.pop_front();
            }
            held.groups.push_back((group, parts));
            return bytes.ok_or_else(too_short);
        }
        let all = self.file.bytes();
        let tail_start = if all <= WHOLE_BYTES { 0 } else { all - TAIL_BYTES };
        let is_of_tail = held.tail.is_empty() && range.start >= tail_start;
        let wanted = if is_of_tail {
            tail_start..all
        } else {
            range.clone()
        };
        let parts = self.read(std::slice::from_ref(&wanted))?;
        let bytes = get(&parts, &range);
        if is_of_tail {
            held.tail = parts;
        }
        bytes.ok_or_else(too_short)
    }

    fn read(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Part>> {
        let read = self
            .file
            .read(&ranges.iter().flat_map(requests).collect::<Vec<_>>())?;
        let mut parts: Vec<Part> = Vec::with_capacity(ranges.len());
        let mut read = read.into_iter();
        for range in ranges {
            let mut of_range: Vec<Bytes> = read.by_ref().take(request_count(range)).collect();
            let bytes = match of_range.len() {
                1 => of_range.swap_remove(0),
                _ => of_range.concat().into(),
            };
            parts.push(Part {
                start: range.start,
                bytes,
            });
        }
        Ok(parts)
    }
}

/// Sorts ranges, and joins those that nearly touch. Cuts them at the end of the file, because a damaged file may contain any range.
fn joined(mut ranges: Vec<Range<u64>>, file_bytes: u64) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let range = range.start..range.end.min(file_bytes);
        if range.is_empty() {
            continue;
        }
        match all.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(GAP_BYTES) => {
                last.end = last.end.max(range.end)
            }
            _ => all.push(range),
        }
    }
    all
}

/// Reads an object from an offset.
struct Sequential {
    ranged: Ranged,
    at: u64,
    bytes: Bytes,
}

/// Number of bytes that are read at once from an object outside of the plan.
const STEP_BYTES: u64 = 64 << 10;

impl Read for Sequential {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() {
            let end = self.ranged.file.bytes();
            if self.at >= end {
                return Ok(0);
            }
            self.bytes = self.ranged.from(self.at)?;
            self.at += self.bytes.len() as u64;
        }
        let count = out.len().min(self.bytes.len());
        out[..count].copy_from_slice(&self.bytes.split_to(count));
        Ok(count)
    }
}

impl Ranged {
    /// Returns some bytes from an offset, as many as are known without another request.
    fn from(&self, at: u64) -> io::Result<Bytes> {
        let planned = self.planned.iter().flatten();
        let planned_end = planned
            .filter(|range| range.contains(&at))
            .map(|range| range.end)
            .next();
        let end = planned_end
            .unwrap_or(self.file.bytes())
            .min(at.saturating_add(STEP_BYTES));
        self.bytes(at..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An object in memory that lists its reads.
    struct Memory {
        bytes: Bytes,
        reads: Mutex<Vec<Range<u64>>>,
    }

    impl RemoteFile for Memory {
        fn bytes(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
            self.reads.lock().expect("no panic").extend_from_slice(ranges);
            let of = |range: &Range<u64>| self.bytes.slice(range.start as usize..range.end as usize);
            Ok(ranges.iter().map(of).collect())
        }
    }

    fn memory(bytes: usize) -> Arc<Memory> {
        Arc::new(Memory {
            bytes: (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect(),
            reads: Mutex::default(),
        })
    }

    #[test]
    fn a_small_object_is_read_once() {
        let file = memory(1000);
        let open = OpenFile::Remote(Ranged::new(file.clone()));
        assert_eq!(open.get_bytes(992, 8).expect("read"), file.bytes.slice(992..));
        assert_eq!(open.get_bytes(3, 8).expect("read"), file.bytes.slice(3..11));
        let mut all = Vec::new();
        open.get_read(0)
            .expect("open")
            .read_to_end(&mut all)
            .expect("read");
        assert_eq!(all, file.bytes);
        let reads = file.reads.lock().expect("reads").clone();
        assert!(matches!(&reads[..], [Range { start: 0, end: 1000 }]), "{reads:?}");
        assert!(open.get_bytes(999, 2).is_err());
        assert!(open.get_bytes(u64::MAX, 2).is_err());
    }

    #[test]
    fn a_large_object_is_read_by_planned_ranges() {
        let file = memory(3 << 20);
        let mut ranged = Ranged::new(file.clone());
        ranged.planned = vec![vec![0..100_000, 500_000..600_000], vec![1 << 20..(1 << 20) + 50]];
        let open = OpenFile::Remote(ranged);
        for start in [7u64, 99_000, 500_000, 1 << 20, 500, 599_000] {
            let bytes = open.get_bytes(start, 50).expect("read");
            assert_eq!(
                bytes,
                file.bytes.slice(start as usize..start as usize + 50),
                "{start}"
            );
        }
        let mut three = [0; 3];
        open.get_read(550_000)
            .expect("open")
            .read_exact(&mut three)
            .expect("read");
        assert_eq!(three, file.bytes[550_000..550_003]);
        let expected = [0..100_000, 500_000..600_000, 1 << 20..(1 << 20) + 50];
        assert_eq!(*file.reads.lock().expect("reads"), expected);
    }

    proptest! {
        #[test]
        fn joined_ranges_cover_the_ranges(
            ranges in proptest::collection::vec((0u64..1 << 22, 0u64..1 << 20), 0..20),
        ) {
            let ranges: Vec<Range<u64>> = ranges.into_iter().map(|(start, bytes)| start..start + bytes).collect();
            let all = joined(ranges.clone(), 1 << 22);
            for range in ranges {
                let range = range.start..range.end.min(1 << 22);
                prop_assert!(range.is_empty()
                    || all.iter().any(|other| other.start <= range.start && range.end <= other.end));
            }
            for pair in all.windows(2) {
                prop_assert!(pair[0].end + GAP_BYTES < pair[1].start);
            }
        }
    }
}
