//! Tables of one rank that come from its log alone.

use crate::merge::tables::{TableSizes, TablesFolder};
use crate::rank::RankBatch;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{
    CounterRow, NameRow, PauseRow, ProgramSpanRow, RowLimits, SpanRow, Table, TableError, TableWriter,
    WorkRow,
};

/// Tables of one rank, except those that need other ranks.
pub struct RankTables {
    spans: TableWriter<SpanRow>,
    devices: Option<DeviceTables>,
    /// Created with its first row.
    pauses: Option<TableWriter<PauseRow>>,
    /// Created with its first row.
    program_spans: Option<TableWriter<ProgramSpanRow>>,
    /// Created with its first row.
    counters: Option<TableWriter<CounterRow>>,
    folder: TablesFolder,
    rank: RankIndex,
    limits: RowLimits,
}

/// Tables of device activity, created with their first row.
struct DeviceTables {
    works: TableWriter<WorkRow>,
    names: TableWriter<NameRow>,
}

impl RankTables {
    /// Creates the tables that every rank has.
    pub fn create(folder: &TablesFolder, rank: RankIndex, limits: RowLimits) -> Result<Self, TableError> {
        Ok(Self {
            spans: folder.of_rank(rank, limits)?,
            devices: None,
            pauses: None,
            program_spans: None,
            counters: None,
            folder: folder.clone(),
            rank,
            limits,
        })
    }

    /// Writes the rows of a batch. Pauses also stay in the batch, because they explain stalls.
    pub fn write(&mut self, batch: &mut RankBatch) -> Result<(), TableError> {
        self.spans.write(&mut batch.spans)?;
        let (folder, rank, limits) = (&self.folder, self.rank, self.limits);
        write_if_any(&mut self.pauses, &mut batch.pauses.clone(), folder, rank, limits)?;
        let program_spans = &mut batch.program_spans;
        write_if_any(&mut self.program_spans, program_spans, folder, rank, limits)?;
        write_if_any(&mut self.counters, &mut batch.counters, folder, rank, limits)?;
        self.write_devices(batch)
    }

    fn write_devices(&mut self, batch: &mut RankBatch) -> Result<(), TableError> {
        if batch.works.is_empty() && batch.names.is_empty() {
            return Ok(());
        }
        let devices = match &mut self.devices {
            Some(devices) => devices,
            none => {
                let (folder, rank, limits) = (&self.folder, self.rank, self.limits);
                none.insert(DeviceTables {
                    works: folder.of_rank(rank, limits)?,
                    names: folder.of_rank(rank, limits)?,
                })
            }
        };
        devices.works.write(&mut batch.works)?;
        devices.names.write(&mut batch.names)
    }

    /// Writes the remaining rows and ends the tables.
    pub fn finish(self, sizes: &mut TableSizes) -> Result<(), TableError> {
        sizes.finish(self.spans)?;
        if let Some(pauses) = self.pauses {
            sizes.finish(pauses)?;
        }
        if let Some(program_spans) = self.program_spans {
            sizes.finish(program_spans)?;
        }
        if let Some(counters) = self.counters {
            sizes.finish(counters)?;
        }
        if let Some(devices) = self.devices {
            sizes.finish(devices.works)?;
            sizes.finish(devices.names)?;
        }
        Ok(())
    }
}

/// Writes rows to a table, which is created with its first row.
fn write_if_any<T: Table>(
    table: &mut Option<TableWriter<T>>,
    rows: &mut Vec<T>,
    folder: &TablesFolder,
    rank: RankIndex,
    limits: RowLimits,
) -> Result<(), TableError> {
    if rows.is_empty() {
        return Ok(());
    }
    let table = match table {
        Some(table) => table,
        none => none.insert(folder.of_rank(rank, limits)?),
    };
    table.write(rows)
}
