//! Units that write: the tables of operations, steps and stalls of some ranks.

use crate::merge::error::MergeError;
use crate::merge::row_runs::{RowRuns, RunsPlace};
use crate::merge::tables::{TableSizes, TablesFolder};
use crate::merge::units::error::UnitError;
use crate::merge::write_pass::{RowsOfRanks, write_rank};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{RowLimits, Table};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Rows of some ranks, in files that the merge wrote.
#[derive(Debug, Serialize, Deserialize)]
pub struct WriteInput {
    ranks: Vec<RankIndex>,
    operations: RunsPlace,
    steps: RunsPlace,
    stalls: RunsPlace,
}

impl WriteInput {
    /// Returns the input for some ranks.
    pub fn new(rows: &RowsOfRanks, ranks: &[RankIndex]) -> Self {
        Self {
            ranks: ranks.to_vec(),
            operations: rows.operations.place(ranks),
            steps: rows.steps.place(ranks),
            stalls: rows.stalls.place(ranks),
        }
    }

    /// Writes the tables to the directory of an attempt. The files of rows are in `parts`.
    pub(super) fn run(
        self,
        (parts, attempt): (&Path, &Path),
        limits: RowLimits,
        sizes: &mut TableSizes,
    ) -> Result<(), UnitError> {
        let rows = RowsOfRanks {
            operations: open(parts, self.operations)?,
            steps: open(parts, self.steps)?,
            stalls: open(parts, self.stalls)?,
        };
        let folder = TablesFolder::of_session(attempt);
        for rank in self.ranks {
            write_rank(&rows, &folder, rank, limits, sizes).map_err(MergeError::from)?;
        }
        Ok(())
    }
}

fn open<T: Table>(parts: &Path, place: RunsPlace) -> Result<RowRuns<T>, UnitError> {
    Ok(RowRuns::open(&parts.join(T::NAME), place)?)
}
