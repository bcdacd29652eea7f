//! Writes the tables of many ranks after they were matched: one rank per thread at a time.

use crate::merge::error::MergeError;
use crate::merge::row_runs::RowRuns;
use crate::merge::shared_work::share_ranks;
use crate::merge::tables::{StepTables, TableSizes, TablesFolder};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{OperationRow, RowLimits, StallRow, StepRow, Table, TableError};

/// Rows of all ranks.
pub struct RowsOfRanks {
    /// Rows of operations.
    pub operations: RowRuns<OperationRow>,
    /// Rows of steps.
    pub steps: RowRuns<StepRow>,
    /// Rows of stalls.
    pub stalls: RowRuns<StallRow>,
}

/// Writes the tables of all ranks, with `threads` threads. `progress` is called with the number of ranks that are
/// done.
///
/// # Errors
/// A table cannot be written, or a temporary file cannot be read.
pub fn write_tables(
    rows: &RowsOfRanks,
    folder: &TablesFolder,
    (ranks, threads): (usize, usize),
    limits: RowLimits,
    progress: &mut dyn FnMut(usize),
) -> Result<TableSizes, MergeError> {
    let write = |sizes: &mut TableSizes, rank: RankIndex| {
        write_rank(rows, folder, rank, limits, sizes).map_err(MergeError::from)
    };
    let mut tables = TableSizes::default();
    let ranks: Vec<_> = (0..ranks).map(RankIndex::of).collect();
    for sizes in share_ranks(&ranks, threads, |_| Ok(TableSizes::default()), write, progress)? {
        tables.merge(sizes);
    }
    Ok(tables)
}

/// Writes the tables of a rank.
pub fn write_rank(
    rows: &RowsOfRanks,
    folder: &TablesFolder,
    rank: RankIndex,
    limits: RowLimits,
    sizes: &mut TableSizes,
) -> Result<(), TableError> {
    write_table(&rows.operations, folder, rank, limits, sizes)?;
    write_table(&rows.steps, folder, rank, StepTables::limits(limits), sizes)?;
    // A table of stalls exists only with a row.
    if rows.stalls.has(rank) {
        write_table(&rows.stalls, folder, rank, limits, sizes)?;
    }
    Ok(())
}

fn write_table<T: Table>(
    rows: &RowRuns<T>,
    folder: &TablesFolder,
    rank: RankIndex,
    limits: RowLimits,
    sizes: &mut TableSizes,
) -> Result<(), TableError> {
    let mut table = folder.of_rank(rank, limits)?;
    rows.copy(rank, &mut table)?;
    sizes.finish(table)
}
