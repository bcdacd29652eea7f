//! The node that runs units.

use crate::plan::UNIT;
use crate::process::unique_name;
use arrow::array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};
use rankscope_analysis::merge::units::error::UnitError;
use rankscope_analysis::merge::units::unit::run_unit;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Directories whose files this process may read and write for others; empty for all.
static ROOTS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Restricts all units of this process to files below these directories. Only the first call has an effect.
pub fn restrict_to(roots: Vec<PathBuf>) {
    let _ = ROOTS.set(roots);
}

/// Returns true if units may use a file.
fn is_allowed(path: &Path) -> bool {
    let roots = ROOTS.get().map_or(&[][..], Vec::as_slice);
    let has_parent = path.components().any(|part| part == Component::ParentDir);
    roots.is_empty() || (!has_parent && roots.iter().any(|root| path.starts_with(root)))
}

/// Runs each unit of its input, and returns a row per unit: its number, and the number of records in its logs. The result
/// of a unit is its receipt. The rows only serve people who look at the job.
#[derive(Debug)]
pub struct UnitExec {
    directory: PathBuf,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl UnitExec {
    /// Creates the node above a plan with a column of units.
    pub fn new(directory: &Path, input: Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            directory: directory.to_path_buf(),
            input,
            properties: Arc::new(properties),
        }
    }

    /// Returns the directory of the inputs.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Returns the columns of the result.
fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new(UNIT, DataType::UInt32, false),
        Field::new("records", DataType::UInt64, false),
    ]))
}

impl DisplayAs for UnitExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnitExec: {}", self.directory.display())
    }
}

impl ExecutionPlan for UnitExec {
    fn name(&self) -> &'static str {
        "UnitExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            // A task has fewer partitions than the plan, so nothing of this node's properties is kept.
            (Some(input), true) => Ok(Arc::new(Self::new(&self.directory, input))),
            _ => Err(DataFusionError::Internal("UnitExec has one input".to_owned())),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let directory = self.directory.clone();
        let rows = input
            .map(|batch| Ok::<_, DataFusionError>(futures::stream::iter(units(&batch?)?).map(Ok)))
            .try_flatten()
            .and_then(move |unit| {
                let directory = directory.clone();
                async move {
                    // Reading logs blocks, and the threads of an engine must not.
                    let run = tokio::task::spawn_blocking(move || run(&directory, unit));
                    let records = run
                        .await
                        .map_err(|error| DataFusionError::Execution(error.to_string()))??;
                    row(unit, records)
                }
            });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), rows)))
    }
}

/// Returns the units of a batch.
fn units(batch: &RecordBatch) -> Result<Vec<u32>> {
    let column = batch
        .column_by_name(UNIT)
        .and_then(|column| column.as_any().downcast_ref::<UInt32Array>());
    let column =
        column.ok_or_else(|| DataFusionError::Internal("UnitExec needs a column of units".to_owned()))?;
    Ok(column.values().to_vec())
}

fn run(directory: &Path, unit: u32) -> Result<u64> {
    let records = run_unit(directory, unit, &attempt(), is_allowed);
    records.map_err(|error| match error {
        // The engine runs the unit again.
        UnitError::Io(error) => DataFusionError::IoError(error),
        UnitError::Refused(_) => DataFusionError::Execution(error.to_string()),
    })
}

/// Returns a name that no other attempt has, on any machine.
fn attempt() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", unique_name(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn row(unit: u32, records: u64) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from(vec![unit])),
        Arc::new(UInt64Array::from(vec![records])),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}
