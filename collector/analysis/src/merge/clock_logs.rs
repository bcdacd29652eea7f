//! Logs as the pass over clock evidence reads them: all at the same time, or, of many ranks, one per thread before.

use crate::measures::hosts::Hosts;
use crate::merge::batch_runs::{BatchPlace, BatchRuns, BatchRunsWriter};
use crate::merge::error::MergeError;
use crate::merge::shared_work::share_ranks;
use crate::model::operation::{Blocked, NO_STEP, NO_TIME, RankOperation};
use crate::rank::{RankBatch, RankReader};
use rankscope_formats::ids::RankIndex;
use std::path::Path;

/// Number of records that a rank advances at once. It is small, because sightings are judged by their neighbours in
/// time, and records of a rank that is ahead arrive out of order.
const STRIDE: usize = 64;

/// The logs of all ranks.
pub enum ClockLogs<'l> {
    /// Logs that are read at the same time. A log that ended has no reader.
    Reading(Vec<Option<RankReader<'l>>>),
    /// Logs that were read before.
    Read(BatchRuns),
}

impl<'l> ClockLogs<'l> {
    /// Opens all logs at the same time.
    pub fn open(ranks: usize, reader_of: impl Fn(RankIndex) -> RankReader<'l>) -> Self {
        let all = (0..ranks).map(|rank| Some(with_evidence(reader_of(RankIndex::of(rank)))));
        Self::Reading(all.collect())
    }

    /// Reads all logs into temporary files in `directory`, with `threads` threads. `progress` is called with the
    /// number of logs that are read.
    pub fn read(
        hosts: &Hosts<'_>,
        (directory, threads): (&Path, usize),
        ranks: usize,
        reader_of: impl Fn(RankIndex) -> RankReader<'l> + Sync,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Self, MergeError> {
        let start = |_| {
            Ok(Reading {
                batches: BatchRunsWriter::create(directory)?,
                batch: RankBatch::default(),
                ranks: Vec::new(),
            })
        };
        let read = |reading: &mut Reading, rank: RankIndex| {
            let mut reader = with_evidence(reader_of(rank));
            let offset = reading.batches.offset();
            while reader.advance(&mut reading.batch) {
                keep_evidence(&mut reading.batch, hosts);
                reading.batches.write(&reading.batch)?;
            }
            reading.batches.end_rank()?;
            reading.ranks.push((rank, offset));
            Ok(())
        };
        let mut all = BatchRuns::new(ranks);
        let ranks: Vec<_> = (0..ranks).map(RankIndex::of).collect();
        for reading in share_ranks(&ranks, threads, start, read, progress)? {
            let file = all.add_file(reading.batches.finish()?);
            for (rank, offset) in reading.ranks {
                all.begin(rank, BatchPlace { file, offset });
            }
        }
        Ok(Self::Read(all))
    }

    /// Replaces `batch` with the next one of a rank. Returns false at the end of its log.
    pub fn advance(&mut self, rank: usize, batch: &mut RankBatch) -> Result<bool, MergeError> {
        match self {
            Self::Reading(readers) => {
                let reader = &mut readers[rank];
                let goes_on = reader.as_mut().is_some_and(|reader| reader.advance(batch));
                if !goes_on {
                    *reader = None;
                }
                Ok(goes_on)
            }
            Self::Read(batches) => Ok(batches.read(RankIndex::of(rank), batch)?),
        }
    }
}

/// What one thread has read.
struct Reading {
    batches: BatchRunsWriter,
    batch: RankBatch,
    /// Ranks, and the offsets of their batches.
    ranks: Vec<(RankIndex, u64)>,
}

fn with_evidence(reader: RankReader<'_>) -> RankReader<'_> {
    reader.with_evidence().with_stride(STRIDE)
}

/// Removes everything from a batch that is no evidence. It then takes little space.
fn keep_evidence(batch: &mut RankBatch, hosts: &Hosts<'_>) {
    batch
        .operations
        .retain(|operation| hosts.spans_hosts(operation.communicator));
    for operation in &mut batch.operations {
        // These times and numbers change with each operation, and nothing about clocks follows from them.
        let nothing = RankOperation {
            thread_id: 0,
            step: NO_STEP,
            issue_ns: NO_TIME,
            returned_ns: NO_TIME,
            shared: None,
            blocked: Blocked::default(),
            ..std::mem::replace(operation, RankOperation::nothing())
        };
        *operation = nothing;
    }
    batch.steps.clear();
    batch.stalls.clear();
    batch.pauses.clear();
}
