//! Sort of records by their end. As many as possible are sorted in memory, and the rest in unnamed files.

use rankscope_ranklog::record::{RECORD_BYTES, Record};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::PathBuf;

/// Maximum number of records held in memory: 18 MiB.
const MAX_HELD: usize = 1 << 18;
/// Size of a record and its lane, in bytes.
const ENTRY_BYTES: usize = RECORD_BYTES + 4;

/// Record and its lane.
pub type Entry = (u32, Record);

/// Collection of records.
pub struct Spool {
    held: Vec<Entry>,
    runs: Vec<File>,
    directory: PathBuf,
}

impl Spool {
    /// Creates an empty collection. Its files are in `directory` and have no name.
    pub fn new(directory: PathBuf) -> Self {
        Self {
            held: Vec::new(),
            runs: Vec::new(),
            directory,
        }
    }

    /// Adds a record.
    pub fn push(&mut self, lane: u32, record: Record) -> io::Result<()> {
        self.held.push((lane, record));
        if self.held.len() >= MAX_HELD {
            self.spill()?;
        }
        Ok(())
    }

    /// Moves all records from memory to a file.
    pub fn settle(&mut self) -> io::Result<()> {
        if self.held.is_empty() {
            Ok(())
        } else {
            self.spill()
        }
    }

    fn sort(&mut self) {
        // Times may be negative until the trace's base is added. The sort is stable for equal ends.
        self.held.sort_by_key(|(_, record)| record.leave_ticks as i64);
    }

    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let mut out = BufWriter::with_capacity(1 << 16, tempfile::tempfile_in(&self.directory)?);
        for (lane, record) in self.held.drain(..) {
            for word in record.to_words() {
                out.write_all(&word.to_le_bytes())?;
            }
            out.write_all(&lane.to_le_bytes())?;
        }
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        self.runs.push(file);
        Ok(())
    }

    /// Returns all records, sorted by end.
    pub fn sorted(mut self) -> io::Result<Sorted> {
        self.sort();
        let mut sorted = Sorted {
            runs: self
                .runs
                .drain(..)
                .map(|file| BufReader::with_capacity(1 << 16, file))
                .collect(),
            held: self.held.into_iter(),
            heads: BinaryHeap::new(),
        };
        for run in 0..=sorted.runs.len() {
            sorted.advance(run)?;
        }
        Ok(sorted)
    }
}

/// Next record of a run: its end, the run, and the record.
struct Head(Reverse<(i64, usize)>, Entry);

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl Eq for Head {}
impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

/// Records sorted by end.
pub struct Sorted {
    runs: Vec<BufReader<File>>,
    held: std::vec::IntoIter<Entry>,
    heads: BinaryHeap<Head>,
}

impl Sorted {
    /// Returns the next record; `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<Entry>> {
        let Some(Head(Reverse((_, run)), entry)) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(run)?;
        Ok(Some(entry))
    }

    /// Adds the next record of a run to the heads. The last run is the memory.
    fn advance(&mut self, run: usize) -> io::Result<()> {
        let next = match self.runs.get_mut(run) {
            None => self.held.next(),
            Some(file) => read_entry(file)?,
        };
        if let Some(entry) = next {
            self.heads
                .push(Head(Reverse((entry.1.leave_ticks as i64, run)), entry));
        }
        Ok(())
    }
}

fn read_entry(file: &mut BufReader<File>) -> io::Result<Option<Entry>> {
    let mut bytes = [0; ENTRY_BYTES];
    match file.read_exact(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let (record, lane) = bytes.split_at(RECORD_BYTES);
    let mut words = [0; RECORD_BYTES / 8];
    for (word, bytes) in words.iter_mut().zip(record.chunks_exact(8)) {
        *word = bytes
            .iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u64::from(byte));
    }
    let lane = lane
        .iter()
        .rev()
        .fold(0, |lane, &byte| lane << 8 | u32::from(byte));
    Ok(Some((lane, Record::from_words(words))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_ranklog::record::RecordKind;

    #[test]
    fn records_come_in_the_order_of_their_end_whether_they_were_spilled_or_not() {
        for count in [0, 1, 5, MAX_HELD as u64 * 2 + 7] {
            let mut spool = Spool::new(std::env::temp_dir());
            let mut state = 1u64;
            for number in 0..count {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let record = Record {
                    leave_ticks: state >> 40,
                    object: number,
                    peer: -1,
                    ..Record::new(RecordKind::Mark)
                };
                spool.push((number % 3) as u32, record).expect("written");
            }
            let mut sorted = spool.sorted().expect("readable");
            let (mut last, mut seen, mut sum) = (0, 0, 0);
            while let Some((lane, record)) = sorted.next().expect("readable") {
                assert!(record.leave_ticks >= last);
                assert_eq!(u64::from(lane), record.object % 3);
                (last, seen, sum) = (record.leave_ticks, seen + 1, sum + record.object);
            }
            assert_eq!((seen, sum), (count, count * count.saturating_sub(1) / 2));
        }
    }
}
