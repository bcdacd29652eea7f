//! Output of a unit. It is written last, as the receipt of the attempt.

use crate::ingest::between::LogId;
use crate::merge::units::read::ReadOutput;
use crate::rank::Carried;
use rankscope_formats::session::{Period, TableInfo};
use serde::{Deserialize, Serialize};

/// Output of a unit.
#[derive(Debug, Serialize, Deserialize)]
pub struct UnitOutput {
    /// Checksum of the input that was read.
    pub input_check: u32,
    /// Rows and bytes of the tables, over all ranks of the unit.
    pub tables: Vec<TableInfo>,
    /// Files of the tables.
    pub files: Vec<PartFile>,
    /// What was read, if the unit reads.
    pub read: Option<ReadOutput>,
    /// The period, if the unit merged one.
    pub period: Option<Period>,
    /// What was counted, if the unit counts: numbers of each log.
    pub counted: Vec<(LogId, Vec<Carried>)>,
}

/// File of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartFile {
    /// Name of the table.
    pub table: String,
    /// File name in the table's directory.
    pub name: String,
    /// Size, in bytes.
    pub bytes: u64,
}
