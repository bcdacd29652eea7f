//! Units that read: the logs of some ranks, one after the other.

use crate::clocks::clock::Line;
use crate::merge::batch_runs::BatchRunsWriter;
use crate::merge::error::MergeError;
use crate::merge::read_pass::{ReadLog, read_rank};
use crate::merge::tables::{TableSizes, TablesFolder};
use crate::merge::units::error::UnitError;
use crate::merge::units::parts::BATCHES;
use crate::model::log_communicator::LogCommunicator;
use crate::rank::anchors::{AnchorList, Anchors};
use crate::rank::{FrameworkTask, GpuTrack, RankReader, RankSums};
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use rankscope_formats::session::RowLimits;
use rankscope_ranklog::reader::{Ending, Problem, RankLog};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the readers of a unit's ranks need of the run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ReadInput {
    /// Maximum number of records that a reader reads at once.
    stride: usize,
    /// Anchors of the steps, which many ranks share.
    anchors: Vec<Arc<AnchorList>>,
    /// The ranks, in the order in which they are read.
    ranks: Vec<RankInput>,
}

impl ReadInput {
    /// Creates an input without ranks, whose readers read at most `stride` records at once.
    pub fn new(stride: usize) -> Self {
        Self {
            stride,
            ..Self::default()
        }
    }

    /// Adds a rank. Anchors that an earlier rank has are not stored again.
    pub fn push(&mut self, mut rank: RankInput, anchors: &Anchors) {
        let list = anchors.list();
        let known = self.anchors.iter().position(|known| Arc::ptr_eq(known, list));
        rank.anchors = known.unwrap_or_else(|| {
            self.anchors.push(list.clone());
            self.anchors.len() - 1
        });
        self.ranks.push(rank);
    }

    /// Returns the anchors of a rank.
    fn anchors_of(&self, rank: &RankInput) -> Anchors {
        let list = self.anchors.get(rank.anchors);
        list.map_or_else(Anchors::default, |list| Anchors::new(list.clone()))
    }

    /// Reads the logs, and writes tables and batches to the directory of an attempt. Damage in logs is no error: it is in the
    /// output. `allows` decides about the logs that this process may read.
    pub(super) fn run(
        self,
        attempt: &Path,
        limits: RowLimits,
        allows: &dyn Fn(&Path) -> bool,
        sizes: &mut TableSizes,
    ) -> Result<ReadOutput, UnitError> {
        let folder = TablesFolder::of_session(attempt);
        let file = BatchRunsWriter::create_named(&attempt.join(BATCHES));
        let mut batches = file.map_err(MergeError::from)?;
        let mut ranks = Vec::with_capacity(self.ranks.len());
        let anchors: Vec<_> = self.ranks.iter().map(|rank| self.anchors_of(rank)).collect();
        for (rank, anchors) in self.ranks.into_iter().zip(anchors) {
            let path = rank.log_path();
            if !allows(&path) {
                return Err(UnitError::no_access(&path));
            }
            let log = rank.open()?;
            let (index, offset) = (rank.rank, batches.offset());
            let mut reader = rank.into_reader(&log, anchors, self.stride);
            let read = read_rank(index, &mut reader, &folder, limits, &mut batches, sizes)?;
            ranks.push(RankOutput::new(index, offset, read));
        }
        let batches_bytes = batches.offset();
        batches.finish().map_err(MergeError::from)?;
        Ok(ReadOutput { batches_bytes, ranks })
    }
}

/// What the reader of a rank needs.
#[derive(Debug, Serialize, Deserialize)]
pub struct RankInput {
    /// The rank.
    pub rank: RankIndex,
    /// Absolute path of its log, as bytes.
    log: Vec<u8>,
    /// Size of the log when it was opened, in bytes.
    log_bytes: u64,
    /// Nonce of the process that wrote the log.
    nonce: u64,
    line: Line,
    communicators: BTreeMap<LogCommunicator, (CommunicatorId, MemberIndex)>,
    /// Position of its anchors in the unit.
    anchors: usize,
    gpus: Vec<GpuTrack>,
    tasks: Vec<FrameworkTask>,
}

impl RankInput {
    /// Collects the input of a rank. `log_path` is the absolute path of its log.
    pub fn new(
        rank: RankIndex,
        (log, log_path): (&RankLog, &Path),
        line: Line,
        communicators: &BTreeMap<LogCommunicator, (CommunicatorId, MemberIndex)>,
        gpus: Vec<GpuTrack>,
        tasks: Vec<FrameworkTask>,
    ) -> Self {
        Self {
            rank,
            log: log_path.as_os_str().as_bytes().to_vec(),
            log_bytes: log.segment_bytes,
            nonce: log.nonce,
            line,
            communicators: communicators.clone(),
            anchors: 0,
            gpus,
            tasks,
        }
    }

    /// Returns the path of the log.
    pub fn log_path(&self) -> PathBuf {
        OsString::from_vec(self.log.clone()).into()
    }

    /// Opens the log. It must be the one that was seen when the unit was made.
    ///
    /// # Errors
    /// [`UnitError`], with a text that names the file.
    pub fn open(&self) -> Result<RankLog, UnitError> {
        let path = self.log_path();
        let log = RankLog::open(&path).map_err(|error| UnitError::Io(io::Error::other(error.to_string())))?;
        if log.segment_bytes != self.log_bytes || log.nonce != self.nonce {
            return Err(UnitError::Refused(format!(
                "{}: the log has changed since the merge began ({} bytes, and now {}); merge again",
                path.display(),
                self.log_bytes,
                log.segment_bytes
            )));
        }
        Ok(log)
    }

    /// Returns the reader of the opened log.
    pub fn into_reader(self, log: &RankLog, anchors: Anchors, stride: usize) -> RankReader<'_> {
        RankReader::new(self.rank, log, self.line, &self.communicators, anchors)
            .with_stride(stride)
            .with_gpus(self.gpus)
            .with_tasks(self.tasks)
    }
}

/// Returns true if the whole log is in its file. Other machines can then read it. A live area is in the memory of one machine.
pub fn is_on_disk(log: &RankLog) -> bool {
    log.ending == Ending::Closed && log.live_path.is_none()
}

/// Output of a unit that reads.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadOutput {
    /// Size of the file of packed batches.
    pub batches_bytes: u64,
    /// The ranks, in the order of the input.
    pub ranks: Vec<RankOutput>,
}

impl ReadOutput {
    /// Returns the number of records of all logs.
    pub fn records(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.sums.log.records).sum()
    }
}

/// What was read of a rank.
#[derive(Debug, Serialize, Deserialize)]
pub struct RankOutput {
    /// The rank.
    pub rank: RankIndex,
    /// Offset of its batches.
    pub batches_offset: u64,
    /// Sums over its log.
    pub sums: RankSums,
    /// Offsets and texts of the problems in its records.
    problems: Vec<(u64, String)>,
}

impl RankOutput {
    /// Takes what was read of a rank.
    pub fn new(rank: RankIndex, batches_offset: u64, read: ReadLog) -> Self {
        let problems = read.problems.into_iter();
        Self {
            rank,
            batches_offset,
            sums: read.sums,
            problems: problems.map(|problem| (problem.offset, problem.what)).collect(),
        }
    }

    /// Returns what was read of the log, which has this path here.
    pub fn into_read(self, log: &Path) -> ReadLog {
        let problems = self.problems.into_iter();
        ReadLog {
            sums: self.sums,
            problems: problems
                .map(|(offset, what)| Problem {
                    path: log.to_path_buf(),
                    offset,
                    what,
                })
                .collect(),
            carried: None,
        }
    }
}
