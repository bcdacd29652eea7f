//! Reads the logs of many ranks before they are matched: one log per thread at a time.
//!
//! Another program may read most of them ([`crate::merge::units`]).
//!
//! Readers and tables of all ranks at the same time take about 365 KiB per rank. Here each rank's log is read to its end,
//! its own tables are written, and what matching needs is kept in a temporary file.

use crate::merge::batch_runs::{BatchPlace, BatchRuns, BatchRunsWriter};
use crate::merge::error::MergeError;
use crate::merge::rank_tables::RankTables;
use crate::merge::shared_work::share_ranks;
use crate::merge::tables::{TableSizes, TablesFolder};
use crate::rank::{Carried, RankBatch, RankReader, RankSums};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::RowLimits;
use rankscope_ranklog::reader::Problem;
use std::path::Path;

/// Logs that were read.
pub struct ReadLogs {
    /// The batches of all ranks.
    pub batches: BatchRuns,
    /// Sums and problems of each rank.
    pub ranks: Vec<ReadLog>,
    /// Tables that were written.
    pub tables: TableSizes,
}

impl ReadLogs {
    /// Creates the result for this number of ranks, none of which is read.
    pub fn new(ranks: usize) -> Self {
        let mut logs = Vec::new();
        logs.resize_with(ranks, ReadLog::default);
        Self {
            batches: BatchRuns::new(ranks),
            ranks: logs,
            tables: TableSizes::default(),
        }
    }
}

/// A log that was read.
#[derive(Default)]
pub struct ReadLog {
    /// Sums over the whole log.
    pub sums: RankSums,
    /// Problems that were found in the records.
    pub problems: Vec<Problem>,
    /// Numbers for the next part of the log.
    pub carried: Option<Carried>,
}

/// What one thread has read.
struct Reading {
    batches: BatchRunsWriter,
    /// Ranks, and the offsets of their batches.
    ranks: Vec<(RankIndex, u64, ReadLog)>,
    tables: TableSizes,
}

/// Reads the logs of these ranks, with `threads` threads, and adds them to `all`. `progress` is called with the
/// number of logs that are read.
///
/// # Errors
/// A table or a temporary file cannot be written. No further log is then begun.
pub fn read_logs<'a>(
    (folder, session): (&TablesFolder, &Path),
    (ranks, threads): (&[RankIndex], usize),
    limits: RowLimits,
    reader_of: impl Fn(RankIndex) -> RankReader<'a> + Sync,
    all: &mut ReadLogs,
    progress: &mut dyn FnMut(usize),
) -> Result<(), MergeError> {
    let start = |_| {
        Ok(Reading {
            batches: BatchRunsWriter::create(session)?,
            ranks: Vec::new(),
            tables: TableSizes::default(),
        })
    };
    let read = |reading: &mut Reading, rank: RankIndex| {
        let offset = reading.batches.offset();
        let (batches, tables) = (&mut reading.batches, &mut reading.tables);
        let read = read_rank(rank, &mut reader_of(rank), folder, limits, batches, tables)?;
        reading.ranks.push((rank, offset, read));
        Ok(())
    };
    for reading in share_ranks(ranks, threads, start, read, progress)? {
        let file = all.batches.add_file(reading.batches.finish()?);
        all.tables.merge(reading.tables);
        for (rank, offset, log) in reading.ranks {
            all.batches.begin(rank, BatchPlace { file, offset });
            all.ranks[rank.index()] = log;
        }
    }
    Ok(())
}

/// Reads the log of a rank to its end: writes the tables that come from it alone, and its batches.
pub fn read_rank(
    rank: RankIndex,
    reader: &mut RankReader<'_>,
    folder: &TablesFolder,
    limits: RowLimits,
    batches: &mut BatchRunsWriter,
    sizes: &mut TableSizes,
) -> Result<ReadLog, MergeError> {
    let mut tables = RankTables::create(folder, rank, limits)?;
    let mut batch = RankBatch::default();
    while reader.advance(&mut batch) {
        batches.write(&batch)?;
        tables.write(&mut batch)?;
    }
    batches.end_rank()?;
    tables.finish(sizes)?;
    Ok(ReadLog {
        sums: reader.sums(),
        problems: reader.problems().to_vec(),
        carried: reader.carried().last().cloned(),
    })
}
