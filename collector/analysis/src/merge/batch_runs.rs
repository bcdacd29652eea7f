//! Batches of all ranks in temporary files. Many logs are then read one after the other, and not all at the same time.

use crate::merge::temporary_file::{TemporaryFile, TemporaryWriter};
use crate::rank::RankBatch;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::TableError;
use std::path::Path;

/// Marks the end of a rank, in the place of a length.
const END_OF_RANK: u32 = u32::MAX;

/// Batches that are being written, by one thread.
pub struct BatchRunsWriter {
    file: TemporaryWriter,
    packed: Vec<u8>,
}

impl BatchRunsWriter {
    /// Creates the file in a directory.
    pub fn create(directory: &Path) -> Result<Self, TableError> {
        Ok(Self::of(TemporaryWriter::create(directory)?))
    }

    /// Creates a file that another process reads.
    pub fn create_named(path: &Path) -> Result<Self, TableError> {
        Ok(Self::of(TemporaryWriter::create_named(path)?))
    }

    fn of(file: TemporaryWriter) -> Self {
        Self {
            file,
            packed: Vec::new(),
        }
    }

    /// Returns the offset at which the batches of the next rank begin.
    pub fn offset(&self) -> u64 {
        self.file.offset()
    }

    /// Appends a batch of the current rank.
    pub fn write(&mut self, batch: &RankBatch) -> Result<(), TableError> {
        self.packed.clear();
        batch.pack(&mut self.packed);
        // A batch has at most some thousand records.
        let length = u32::try_from(self.packed.len())
            .ok()
            .filter(|&length| length != END_OF_RANK);
        let length = length.ok_or_else(|| self.file.too_large())?;
        self.file.append(&length.to_le_bytes())?;
        self.file.append(&self.packed)
    }

    /// Ends the current rank.
    pub fn end_rank(&mut self) -> Result<(), TableError> {
        self.file.append(&END_OF_RANK.to_le_bytes())
    }

    /// Ends writing.
    pub fn finish(self) -> Result<TemporaryFile, TableError> {
        self.file.finish()
    }
}

/// Place of a rank's next batch.
#[derive(Clone, Copy, Default)]
pub struct BatchPlace {
    /// Number of the file.
    pub file: u32,
    /// Offset in the file.
    pub offset: u64,
}

/// Batches that were written.
pub struct BatchRuns {
    files: Vec<TemporaryFile>,
    next: Vec<BatchPlace>,
    packed: Vec<u8>,
}

impl BatchRuns {
    /// Creates the batches of this number of ranks, without files.
    pub fn new(ranks: usize) -> Self {
        Self {
            files: Vec::new(),
            next: vec![BatchPlace::default(); ranks],
            packed: Vec::new(),
        }
    }

    /// Adds a file, and returns its number.
    pub fn add_file(&mut self, file: TemporaryFile) -> u32 {
        self.files.push(file);
        self.files.len() as u32 - 1
    }

    /// Sets the place of the first batch of a rank.
    pub fn begin(&mut self, rank: RankIndex, place: BatchPlace) {
        self.next[rank.index()] = place;
    }

    /// Replaces `batch` with the next one of a rank. Returns false at its end; the batch is then empty.
    pub fn read(&mut self, rank: RankIndex, batch: &mut RankBatch) -> Result<bool, TableError> {
        let next = &mut self.next[rank.index()];
        let file = &self.files[next.file as usize];
        let mut length = [0; 4];
        file.read(next.offset, &mut length)?;
        let length = u32::from_le_bytes(length);
        if length == END_OF_RANK {
            *batch = RankBatch::default();
            return Ok(false);
        }
        self.packed.resize(length as usize, 0);
        file.read(next.offset + 4, &mut self.packed)?;
        next.offset += 4 + u64::from(length);
        batch.unpack(&self.packed).ok_or_else(|| file.damaged())?;
        Ok(true)
    }
}
