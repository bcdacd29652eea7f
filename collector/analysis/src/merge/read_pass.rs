//! Reads the logs of many ranks before they are matched: one log per thread at a time.
//!
//! Readers and tables of all ranks at the same time take some 300 KiB per rank. Here each rank's log is read to its end,
//! its own tables are written, and what matching needs is kept in a temporary file.

use crate::merge::batch_runs::{BatchPlace, BatchRuns, BatchRunsWriter};
use crate::merge::error::MergeError;
use crate::merge::rank_tables::RankTables;
use crate::merge::shared_work::share_ranks;
use crate::merge::tables::{TableSizes, TablesFolder};
use crate::rank::{RankBatch, RankReader, RankSums};
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

/// A log that was read.
#[derive(Default)]
pub struct ReadLog {
    /// Sums over the whole log.
    pub sums: RankSums,
    /// Problems that were found in the records.
    pub problems: Vec<Problem>,
}

/// What one thread has read.
struct Reading {
    number: u32,
    batches: BatchRunsWriter,
    batch: RankBatch,
    ranks: Vec<(RankIndex, BatchPlace, ReadLog)>,
    tables: TableSizes,
}

/// Reads all logs, with `threads` threads. `done` is called with the number of logs that are read.
pub fn read_logs<'a>(
    (folder, session): (&TablesFolder, &Path),
    (ranks, threads): (usize, usize),
    limits: RowLimits,
    reader_of: impl Fn(RankIndex) -> RankReader<'a> + Sync,
    done: &mut dyn FnMut(usize),
) -> Result<ReadLogs, MergeError> {
    let start = |number: usize| {
        Ok(Reading {
            number: number as u32,
            batches: BatchRunsWriter::create(session)?,
            batch: RankBatch::default(),
            ranks: Vec::new(),
            tables: TableSizes::default(),
        })
    };
    let read = |reading: &mut Reading, rank: RankIndex| {
        let mut tables = RankTables::create(folder, rank, limits)?;
        let mut reader = reader_of(rank);
        let place = BatchPlace {
            file: reading.number,
            offset: reading.batches.offset(),
        };
        while reader.advance(&mut reading.batch) {
            reading.batches.write(&reading.batch)?;
            tables.write(&mut reading.batch)?;
        }
        reading.batches.end_rank()?;
        tables.finish(&mut reading.tables)?;
        let read = ReadLog {
            sums: reader.sums(),
            problems: reader.problems().to_vec(),
        };
        reading.ranks.push((rank, place, read));
        Ok(())
    };
    let mut files = Vec::new();
    let mut first = vec![BatchPlace::default(); ranks];
    let mut logs = Vec::new();
    logs.resize_with(ranks, ReadLog::default);
    let mut tables = TableSizes::default();
    for reading in share_ranks(ranks, threads, start, read, done)? {
        files.push(reading.batches.finish()?);
        tables.merge(reading.tables);
        for (rank, place, log) in reading.ranks {
            first[rank.index()] = place;
            logs[rank.index()] = log;
        }
    }
    Ok(ReadLogs {
        batches: BatchRuns::new(files, first),
        ranks: logs,
        tables,
    })
}
