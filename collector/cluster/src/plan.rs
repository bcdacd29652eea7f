//! The plan of a stage: one row and one partition for each unit, and the node that runs them.

use crate::unit_exec::UnitExec;
use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Name of the column of units.
pub const UNIT: &str = "unit";

/// Makes the plan that runs these units, whose inputs are in a directory.
///
/// The leaf is a table in memory: Ballista gives each task its own partitions of such a leaf. A leaf of ours would run whole in every
/// task, without an error.
///
/// # Errors
/// None is expected; DataFusion checks the table.
pub fn of_units(directory: &Path, units: Range<u32>) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = Arc::new(Schema::new(vec![Field::new(UNIT, DataType::UInt32, false)]));
    let partitions = units
        .map(|unit| {
            let column: ArrayRef = Arc::new(UInt32Array::from(vec![unit]));
            Ok(vec![RecordBatch::try_new(schema.clone(), vec![column])?])
        })
        .collect::<Result<Vec<_>>>()?;
    let table = MemorySourceConfig::try_new_exec(&partitions, schema, None)?;
    Ok(Arc::new(UnitExec::new(directory, table)))
}
