//! Input of a unit.

use crate::merge::units::count::CountInput;
use crate::merge::units::period::PeriodInput;
use crate::merge::units::read::ReadInput;
use crate::merge::units::write::WriteInput;
use crate::merge::version::version;
use rankscope_formats::session::RowLimits;
use serde::{Deserialize, Serialize};

/// Input of a unit.
#[derive(Debug, Serialize, Deserialize)]
pub struct UnitInput {
    /// Version of the program that wrote it.
    pub version: String,
    /// Limits of tables: number of rows in a row group, and of rows that are held back.
    limits: (usize, usize),
    /// What to do.
    pub work: Work,
}

/// Work of a unit.
#[derive(Debug, Serialize, Deserialize)]
pub enum Work {
    /// Reads logs.
    Read(ReadInput),
    /// Writes tables.
    Write(WriteInput),
    /// Counts messages and graph replays.
    Count(CountInput),
    /// Merges a period.
    Period(Box<PeriodInput>),
}

impl UnitInput {
    /// Creates the input of a unit.
    pub fn new(limits: RowLimits, work: Work) -> Self {
        Self {
            version: version(),
            limits: (limits.per_group, limits.held),
            work,
        }
    }

    /// Returns the limits of tables.
    pub fn row_limits(&self) -> RowLimits {
        RowLimits {
            per_group: self.limits.0,
            held: self.limits.1,
        }
    }
}
