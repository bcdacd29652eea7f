//! Rows of one table of all ranks in a temporary file. The tables of many ranks are then written one after the other,
//! and not all at the same time.

use crate::merge::temporary_file::{TemporaryFile, TemporaryFolder, TemporaryWriter};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{PackedRows, Table, TableError, TableWriter, Unpacker};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::marker::PhantomData;
use std::path::Path;

/// Size of the head of a part: offset of the previous part of the rank plus one, bytes, rows.
const HEAD_BYTES: usize = 16;

/// Rows that are being written.
pub struct RowRunsWriter<T: Table> {
    file: TemporaryWriter,
    /// Offset of the last part of each rank, plus one; 0 if there is none. Each part names the one before it, so memory
    /// does not grow with the number of parts.
    last: Vec<u64>,
    table: PhantomData<T>,
}

impl<T: Table> RowRunsWriter<T> {
    /// Creates the file.
    pub fn create(folder: &TemporaryFolder, ranks: usize) -> Result<Self, TableError> {
        Ok(Self {
            file: folder.create(T::NAME)?,
            last: vec![0; ranks],
            table: PhantomData,
        })
    }

    /// Appends rows of a rank as one part, and removes them from `rows`. All parts of a rank come from the same `rows`.
    pub fn write(&mut self, rank: RankIndex, rows: &mut PackedRows<T>) -> Result<(), TableError> {
        let Some(last) = self.last.get_mut(rank.index()).filter(|_| !rows.is_empty()) else {
            return Ok(());
        };
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&last.to_le_bytes());
        let sizes = [rows.bytes().len(), rows.len()].map(u32::try_from);
        let [Ok(bytes), Ok(count)] = sizes else {
            return Err(self.file.too_large());
        };
        head[8..12].copy_from_slice(&bytes.to_le_bytes());
        head[12..].copy_from_slice(&count.to_le_bytes());
        *last = self.file.offset() + 1;
        self.file.append(&head)?;
        self.file.append(rows.bytes())?;
        rows.clear();
        Ok(())
    }

    /// Ends writing.
    pub fn finish(self) -> Result<RowRuns<T>, TableError> {
        Ok(RowRuns {
            file: self.file.finish()?,
            last: (0..).map(RankIndex).zip(self.last).collect(),
            table: PhantomData,
        })
    }
}

/// Rows of some ranks in a file that another process can open.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunsPlace {
    bytes: u64,
    last: BTreeMap<RankIndex, u64>,
}

/// Rows that were written.
pub struct RowRuns<T: Table> {
    file: TemporaryFile,
    /// Offset of the last part of each rank, plus one; 0 if there is none.
    last: BTreeMap<RankIndex, u64>,
    table: PhantomData<T>,
}

/// Part of a rank's rows.
struct Part {
    offset: u64,
    bytes: u32,
    rows: u32,
}

impl<T: Table> RowRuns<T> {
    /// Opens rows that another process wrote to a file with a name.
    pub fn open(path: &Path, place: RunsPlace) -> io::Result<Self> {
        Ok(Self {
            file: TemporaryFile::open(path, place.bytes)?,
            last: place.last,
            table: PhantomData,
        })
    }

    /// Returns the place of the rows of some ranks.
    pub fn place(&self, ranks: &[RankIndex]) -> RunsPlace {
        let known = ranks
            .iter()
            .filter_map(|rank| Some((*rank, *self.last.get(rank)?)));
        RunsPlace {
            bytes: self.file.bytes(),
            last: known.collect(),
        }
    }

    /// Returns true if a rank has rows.
    pub fn has(&self, rank: RankIndex) -> bool {
        self.last.get(&rank).is_some_and(|&last| last > 0)
    }

    /// Writes the rows of a rank to its table, in the parts in which they came.
    pub fn copy(&self, rank: RankIndex, table: &mut TableWriter<T>) -> Result<(), TableError> {
        let mut unpacker = Unpacker::default();
        let (mut packed, mut rows) = (Vec::new(), Vec::new());
        for part in self.parts(rank)?.iter().rev() {
            packed.resize(part.bytes as usize, 0);
            self.file.read(part.offset, &mut packed)?;
            let unpacked = unpacker.unpack(&packed, part.rows as usize, &mut rows);
            unpacked.ok_or_else(|| self.file.damaged())?;
            table.write(&mut rows)?;
        }
        Ok(())
    }

    /// Returns the parts of a rank, the last one first.
    fn parts(&self, rank: RankIndex) -> Result<Vec<Part>, TableError> {
        let mut parts = Vec::new();
        let mut next = self.last.get(&rank).copied().unwrap_or(0);
        while let Some(offset) = next.checked_sub(1) {
            let mut head = [0; HEAD_BYTES];
            self.file.read(offset, &mut head)?;
            let [before, sizes] = [0, 8].map(|at| {
                let mut word = [0; 8];
                word.copy_from_slice(&head[at..at + 8]);
                u64::from_le_bytes(word)
            });
            parts.push(Part {
                offset: offset + HEAD_BYTES as u64,
                bytes: sizes as u32,
                rows: (sizes >> 32) as u32,
            });
            next = before;
        }
        Ok(parts)
    }
}
