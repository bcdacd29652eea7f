//! Tables that the matching thread fills: steps, stalls and instances. It writes rows in groups, and keeps no more of
//! them in memory than needed for their order.

use crate::identity::Identities;
use crate::measures::stalls::StallBoard;
use crate::measures::step_board::StepBoard;
use crate::merge::error::MergeError;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{
    InstanceRow, RowLimits, StallRow, StepRow, Table, TableError, TableInfo, TableWriter, part_path,
    rank_path,
};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

/// Steps end in order, so few rows must be held back for late ones.
const STEPS_HELD: usize = 16;
/// Maximum number of groups of instances that wait for the writing thread.
const MAX_WAITING_GROUPS: usize = 4;

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
    /// Receives the rows of the table of instances, instead of a file.
    instances: Option<Sender<Vec<InstanceRow>>>,
}

impl TablesFolder {
    /// Returns the folder of a session.
    pub fn of_session(session: &Path) -> Self {
        Self {
            session: Some(session.to_path_buf()),
            instances: None,
        }
    }

    /// Returns no folder. The rows of the table of instances are sent to `instances`, if it is given.
    pub fn none(instances: Option<Sender<Vec<InstanceRow>>>) -> Self {
        Self {
            session: None,
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

impl TableSizes {
    /// Ends a file, and adds its rows and bytes.
    pub fn finish<T: Table>(&mut self, file: TableWriter<T>) -> Result<(), TableError> {
        self.add::<T>(file.finish()?);
        Ok(())
    }

    /// Adds the rows and bytes of an ended file.
    fn add<T: Table>(&mut self, (rows, bytes): (u64, u64)) {
        match self.0.iter_mut().find(|table| table.name == T::NAME) {
            Some(table) => {
                table.rows += rows;
                table.bytes += bytes;
            }
            None => self.0.push(TableInfo {
                name: T::NAME.to_owned(),
                rows,
                bytes,
            }),
        }
    }

    /// Returns the tables.
    pub fn into_tables(self) -> Vec<TableInfo> {
        self.0
    }
}

/// Table of the steps of one rank, with rows that are not written yet.
struct StepTable {
    table: TableWriter<StepRow>,
    rows: Vec<StepRow>,
}

/// Tables of steps, one per rank.
pub struct StepTables(Vec<StepTable>);

impl StepTables {
    /// Creates the tables.
    pub fn create(folder: &TablesFolder, ranks: usize, limits: RowLimits) -> Result<Self, TableError> {
        let limits = RowLimits {
            held: STEPS_HELD,
            ..limits
        };
        let create = |rank: RankIndex| {
            Ok(StepTable {
                table: folder.of_rank(rank, limits)?,
                rows: Vec::new(),
            })
        };
        (0..ranks)
            .map(RankIndex::of)
            .map(create)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Writes closed steps of ranks that have at least `at_least` of them; all steps with `None`.
    pub fn write_closed(
        &mut self,
        boards: &mut [StepBoard],
        identities: &Identities,
        at_least: Option<usize>,
    ) -> Result<(), TableError> {
        let mut closed = at_least.is_none();
        for (world, board) in boards.iter_mut().enumerate() {
            let ranks = &identities.worlds[world].ranks;
            board.close(at_least.is_none(), |row, step| {
                closed = true;
                if let Some(table) = ranks.get(row).and_then(|&rank| self.0.get_mut(rank.index())) {
                    table.rows.push(step);
                }
            });
        }
        if !closed {
            return Ok(());
        }
        for StepTable { table, rows } in &mut self.0 {
            if rows.len() >= at_least.unwrap_or(0) {
                table.write(rows)?;
            }
        }
        Ok(())
    }

    /// Writes the remaining rows.
    pub fn finish(self, sizes: &mut TableSizes) -> Result<(), TableError> {
        for StepTable { mut table, mut rows } in self.0 {
            table.write(&mut rows)?;
            sizes.finish(table)?;
        }
        Ok(())
    }
}

/// Tables of stalls, one per rank, each created with its first row.
pub struct StallTables {
    folder: TablesFolder,
    limits: RowLimits,
    tables: Vec<Option<TableWriter<StallRow>>>,
    rows: Vec<Vec<StallRow>>,
}

impl StallTables {
    /// Prepares the tables.
    pub fn new(folder: &TablesFolder, ranks: usize, limits: RowLimits) -> Self {
        Self {
            folder: folder.clone(),
            limits,
            tables: (0..ranks).map(|_| None).collect(),
            rows: vec![Vec::new(); ranks],
        }
    }

    /// Writes judged stalls of ranks that have at least `at_least` of them.
    pub fn write_judged(
        &mut self,
        board: &mut StallBoard,
        reached_ns: Option<i64>,
        at_least: usize,
    ) -> Result<(), TableError> {
        let mut closed = false;
        board.close(reached_ns, |rank, stall| {
            closed = true;
            self.rows[rank].push(stall);
        });
        if !closed && at_least > 0 {
            return Ok(());
        }
        for (rank, rows) in self.rows.iter_mut().enumerate() {
            if rows.is_empty() || rows.len() < at_least {
                continue;
            }
            let table = match &mut self.tables[rank] {
                Some(table) => table,
                none => none.insert(self.folder.of_rank(RankIndex::of(rank), self.limits)?),
            };
            table.write(rows)?;
        }
        Ok(())
    }

    /// Ends the tables.
    pub fn finish(self, sizes: &mut TableSizes) -> Result<(), TableError> {
        self.tables
            .into_iter()
            .flatten()
            .try_for_each(|table| sizes.finish(table))
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
