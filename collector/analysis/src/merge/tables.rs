//! Tables that the matching thread fills: steps, stalls and instances. It writes rows in groups, and keeps no more of
//! them in memory than needed for their order.

use crate::identity::Identities;
use crate::measures::rows::RankRows;
use crate::measures::stalls::StallBoard;
use crate::measures::step_board::StepBoard;
use crate::merge::error::MergeError;
use crate::merge::row_runs::{RowRuns, RowRunsWriter};
use crate::merge::temporary_file::TemporaryFolder;
use crate::merge::unit_runner::UnitRunner;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{
    InstanceRow, RowLimits, StallRow, StepRow, Table, TableError, TableInfo, TableWriter, part_path,
    rank_path,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

/// Number of rows of steps that are held back. Steps end in order, so few are late.
const STEPS_HELD: usize = 16;
/// Maximum number of groups of instances that wait for the writing thread.
const MAX_WAITING_GROUPS: usize = 4;

/// Minimum number of ranks with which logs are read one after the other, before they are matched. With fewer ranks, all logs are
/// read while they are matched, and no temporary files are needed.
const READ_BEFORE_FROM: usize = 256;

/// Returns the sizes of row groups. The rows of all ranks in memory are one or two million, and few rows wait for late
/// ones. A row takes 10 to 20 bytes encoded, and some 200 before.
pub fn row_limits(ranks: usize) -> RowLimits {
    RowLimits {
        per_group: ((1 << 20) / ranks.max(1)).clamp(2048, 1 << 16),
        // An operation may be later than others of its rank by about the stride of another rank.
        held: ((1 << 15) / ranks.max(1)).clamp(128, 1024),
    }
}

/// Returns the number of rows that are passed to the writing thread at once. They are few enough to stay in the cache,
/// and at most 32,768 over all ranks.
pub fn rows_per_handover(ranks: usize) -> usize {
    ((1 << 15) / ranks.max(1)).clamp(32, 4096)
}

/// Folder of the tables of a session. Without a folder, the rows of all tables are dropped.
#[derive(Clone, Debug)]
pub struct TablesFolder {
    session: Option<PathBuf>,
    /// Minimum number of ranks with which logs are read before they are matched.
    read_before_from: usize,
    /// Runs units that read the logs and write the tables. Without it, this process does.
    runner: Option<Arc<dyn UnitRunner>>,
    /// Receives the rows of the table of instances, instead of a file.
    instances: Option<Sender<Vec<InstanceRow>>>,
}

impl TablesFolder {
    /// Returns the folder of a session.
    pub fn of_session(session: &Path) -> Self {
        Self {
            session: Some(session.to_path_buf()),
            read_before_from: READ_BEFORE_FROM,
            runner: None,
            instances: None,
        }
    }

    /// Sets the minimum number of ranks with which logs are read before they are matched.
    #[must_use]
    pub fn reading_before_from(self, ranks: usize) -> Self {
        Self {
            read_before_from: ranks,
            ..self
        }
    }

    /// Sets what runs units, for any number of ranks.
    #[must_use]
    pub fn read_by(self, runner: Arc<dyn UnitRunner>) -> Self {
        Self {
            read_before_from: 0,
            runner: Some(runner),
            ..self
        }
    }

    /// Returns what runs units, if other processes read the logs.
    pub fn runner(&self) -> Option<&dyn UnitRunner> {
        self.runner.as_deref()
    }

    /// Returns the session directory if the logs of this number of ranks are read before they are matched.
    pub fn session_if_read_before(&self, ranks: usize) -> Option<&Path> {
        self.session().filter(|_| ranks >= self.read_before_from)
    }

    /// Returns no folder. The rows of the table of instances are sent to `instances`, if it is given.
    pub fn none(instances: Option<Sender<Vec<InstanceRow>>>) -> Self {
        Self {
            session: None,
            read_before_from: usize::MAX,
            runner: None,
            instances,
        }
    }

    /// Returns the session directory.
    pub fn session(&self) -> Option<&Path> {
        self.session.as_deref()
    }

    /// Creates the part of a table that belongs to one rank.
    pub fn of_rank<T: Table>(
        &self,
        rank: RankIndex,
        limits: RowLimits,
    ) -> Result<TableWriter<T>, TableError> {
        match &self.session {
            Some(session) => TableWriter::create(&rank_path::<T>(session, rank.0), limits),
            None => Ok(TableWriter::dropping()),
        }
    }

    /// Creates the only part of a table that is not partitioned.
    fn only_part<T: Table>(&self, limits: RowLimits) -> Result<TableWriter<T>, TableError> {
        match &self.session {
            Some(session) => TableWriter::create(&part_path::<T>(session), limits),
            None => Ok(TableWriter::dropping()),
        }
    }
}

/// Number of rows and bytes of each table, over all of its files.
#[derive(Default)]
pub struct TableSizes(Vec<TableInfo>);

impl From<Vec<TableInfo>> for TableSizes {
    fn from(tables: Vec<TableInfo>) -> Self {
        Self(tables)
    }
}

impl TableSizes {
    /// Ends a file, and adds its rows and bytes.
    pub fn finish<T: Table>(&mut self, file: TableWriter<T>) -> Result<(), TableError> {
        self.add::<T>(file.finish()?);
        Ok(())
    }

    /// Adds the rows and bytes of other files.
    pub fn merge(&mut self, other: Self) {
        for table in other.0 {
            match self.0.iter_mut().find(|known| known.name == table.name) {
                Some(known) => {
                    known.rows += table.rows;
                    known.bytes += table.bytes;
                }
                None => self.0.push(table),
            }
        }
    }

    /// Adds the rows and bytes of an ended file.
    fn add<T: Table>(&mut self, (rows, bytes): (u64, u64)) {
        self.merge(Self(vec![TableInfo {
            name: T::NAME.to_owned(),
            rows,
            bytes,
        }]));
    }

    /// Returns the tables.
    pub fn into_tables(self) -> Vec<TableInfo> {
        self.0
    }
}

/// Rows of one table, by rank, that are not written yet, and their tables. With many ranks, the rows go into a temporary
/// file first, and the tables are written at the end, one after the other.
struct RankFiles<T: Table> {
    rows: RankRows<T>,
    to: Destination<T>,
    /// Ranks whose rows have become due since the last write.
    due: Vec<RankIndex>,
}

enum Destination<T: Table> {
    Tables {
        folder: TablesFolder,
        limits: RowLimits,
        tables: Vec<Option<TableWriter<T>>>,
    },
    Runs(RowRunsWriter<T>),
}

impl<T: Table> RankFiles<T> {
    /// Prepares the tables, each of which is created with its first row, or the temporary file.
    fn new(
        folder: &TablesFolder,
        ranks: usize,
        limits: RowLimits,
        runs: Option<&TemporaryFolder>,
    ) -> Result<Self, TableError> {
        let to = match runs {
            Some(runs) => Destination::Runs(RowRunsWriter::create(runs, ranks)?),
            None => Destination::Tables {
                folder: folder.clone(),
                limits,
                tables: (0..ranks).map(|_| None).collect(),
            },
        };
        Ok(Self {
            rows: RankRows::new(ranks, matches!(to, Destination::Runs(_))),
            to,
            due: Vec::new(),
        })
    }

    /// Adds a row. From `at_least` rows on, the next [`RankFiles::write_due`] writes them.
    fn push(&mut self, rank: RankIndex, row: T, at_least: usize) {
        self.rows.push(rank, row);
        if self.rows.len(rank) == at_least.max(1) {
            self.due.push(rank);
        }
    }

    /// Writes the rows that have become due.
    fn write_due(&mut self) -> Result<(), TableError> {
        // Only the ranks with due rows: a loop over all ranks after each batch would cost ranks × batches.
        for rank in std::mem::take(&mut self.due) {
            self.write(rank)?;
        }
        Ok(())
    }

    fn write(&mut self, rank: RankIndex) -> Result<(), TableError> {
        match (&mut self.to, &mut self.rows) {
            (Destination::Runs(runs), RankRows::Packed(rows)) => runs.write(rank, &mut rows[rank.index()]),
            (
                Destination::Tables {
                    folder,
                    limits,
                    tables,
                },
                RankRows::Plain(rows),
            ) => {
                let rows = &mut rows[rank.index()];
                if rows.is_empty() {
                    return Ok(());
                }
                let table = match &mut tables[rank.index()] {
                    Some(table) => table,
                    none => none.insert(folder.of_rank(rank, *limits)?),
                };
                table.write(rows)
            }
            // The rows are packed exactly if they go into a temporary file.
            _ => Ok(()),
        }
    }

    /// Writes the rows of all ranks.
    fn write_all(&mut self) -> Result<(), TableError> {
        self.due.clear();
        (0..self.rows.ranks()).try_for_each(|rank| self.write(RankIndex::of(rank)))
    }
}

/// Tables of steps, one per rank.
pub struct StepTables(RankFiles<StepRow>);

impl StepTables {
    /// Returns the limits of these tables.
    pub fn limits(limits: RowLimits) -> RowLimits {
        RowLimits {
            held: STEPS_HELD,
            ..limits
        }
    }

    /// Creates the tables, or a temporary file for their rows.
    pub fn create(
        folder: &TablesFolder,
        ranks: usize,
        limits: RowLimits,
        runs: Option<&TemporaryFolder>,
    ) -> Result<Self, TableError> {
        let limits = Self::limits(limits);
        let mut files = RankFiles::new(folder, ranks, limits, runs)?;
        // Every rank has a table of steps, even without a step.
        if let Destination::Tables { tables, .. } = &mut files.to {
            for (rank, table) in tables.iter_mut().enumerate() {
                *table = Some(folder.of_rank(RankIndex::of(rank), limits)?);
            }
        }
        Ok(Self(files))
    }

    /// Writes closed steps of ranks that have at least `at_least` of them; all steps with `None`.
    pub fn write_closed(
        &mut self,
        boards: &mut [StepBoard],
        identities: &Identities,
        at_least: Option<usize>,
    ) -> Result<(), TableError> {
        for (world, board) in boards.iter_mut().enumerate() {
            let ranks = &identities.worlds[world].ranks;
            board.close(at_least.is_none(), |row, step| {
                if let Some(&rank) = ranks.get(row) {
                    self.0.push(rank, step, at_least.unwrap_or(usize::MAX));
                }
            });
        }
        match at_least {
            Some(_) => self.0.write_due(),
            None => self.0.write_all(),
        }
    }

    /// Ends the tables. Returns the rows if their tables are not written yet.
    pub fn finish(self, sizes: &mut TableSizes) -> Result<Option<RowRuns<StepRow>>, TableError> {
        self.0.to.finish(sizes)
    }
}

impl<T: Table> Destination<T> {
    fn finish(self, sizes: &mut TableSizes) -> Result<Option<RowRuns<T>>, TableError> {
        match self {
            Self::Tables { tables, .. } => {
                let mut tables = tables.into_iter().flatten();
                tables.try_for_each(|table| sizes.finish(table))?;
                Ok(None)
            }
            Self::Runs(runs) => runs.finish().map(Some),
        }
    }
}

/// Tables of stalls, one per rank, each created with its first row.
pub struct StallTables(RankFiles<StallRow>);

impl StallTables {
    /// Prepares the tables, or a temporary file for their rows.
    pub fn new(
        folder: &TablesFolder,
        ranks: usize,
        limits: RowLimits,
        runs: Option<&TemporaryFolder>,
    ) -> Result<Self, TableError> {
        RankFiles::new(folder, ranks, limits, runs).map(Self)
    }

    /// Writes judged stalls of ranks that have at least `at_least` of them; all of them with 0.
    pub fn write_judged(
        &mut self,
        board: &mut StallBoard,
        reached_ns: Option<i64>,
        at_least: usize,
    ) -> Result<(), TableError> {
        board.close(reached_ns, |rank, stall| {
            self.0.push(RankIndex::of(rank), stall, at_least);
        });
        match at_least {
            0 => self.0.write_all(),
            _ => self.0.write_due(),
        }
    }

    /// Ends the tables. Returns the rows if their tables are not written yet.
    pub fn finish(self, sizes: &mut TableSizes) -> Result<Option<RowRuns<StallRow>>, TableError> {
        self.0.to.finish(sizes)
    }
}

/// Destination of the rows of the table of instances.
pub struct InstanceRows {
    file: TableWriter<InstanceRow>,
    /// Receives the rows instead of the file.
    receiver: Option<Sender<Vec<InstanceRow>>>,
}

/// Table of instances, written by its own thread.
pub struct InstanceTable<'scope> {
    rows: SyncSender<Vec<InstanceRow>>,
    /// Returns the number of rows and bytes.
    writer: ScopedJoinHandle<'scope, Result<(u64, u64), TableError>>,
}

impl<'scope> InstanceTable<'scope> {
    /// Creates the file.
    pub fn create(folder: &TablesFolder) -> Result<InstanceRows, TableError> {
        Ok(InstanceRows {
            file: folder.only_part(RowLimits::default())?,
            receiver: folder.instances.clone(),
        })
    }

    /// Starts the thread that writes rows to the file.
    pub fn start(scope: &'scope Scope<'scope, '_>, to: InstanceRows) -> Self {
        let (rows, to_write) = sync_channel::<Vec<InstanceRow>>(MAX_WAITING_GROUPS);
        let InstanceRows { mut file, receiver } = to;
        let writer = scope.spawn(move || {
            while let Ok(mut rows) = to_write.recv() {
                match &receiver {
                    // A receiver that has ended needs no rows.
                    Some(receiver) => drop(receiver.send(rows)),
                    None => file.write(&mut rows)?,
                }
            }
            file.finish()
        });
        Self { rows, writer }
    }

    /// Sends rows to the thread. Returns false if the table cannot be written; [`InstanceTable::finish`] returns the
    /// reason.
    pub fn send(&self, rows: Vec<InstanceRow>) -> bool {
        self.rows.send(rows).is_ok()
    }

    /// Waits until all rows are written.
    pub fn finish(self, sizes: &mut TableSizes) -> Result<(), MergeError> {
        drop(self.rows);
        let written = self.writer.join().map_err(|_| MergeError::Worker)??;
        sizes.add::<InstanceRow>(written);
        Ok(())
    }
}
