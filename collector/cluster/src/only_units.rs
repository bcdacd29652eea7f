//! Refuses plans that are not units of merges. A scheduler passes on any plan of a client with the token, and plans of DataFusion
//! may read and write all files of the executor's user.

use crate::unit_exec::UnitExec;
use ballista_core::JobId;
use ballista_core::execution_plans::ShuffleWriterExec;
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use datafusion::datasource::memory::{DataSourceExec, MemorySourceConfig};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use std::sync::Arc;

/// Ballista's engine, for units only.
#[derive(Default)]
pub struct OnlyUnits(DefaultExecutionEngine);

/// Returns true if a plan consists of a table in memory, units, and the writer that Ballista adds.
fn runs_only_units(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_table = || {
        let source = plan.downcast_ref::<DataSourceExec>();
        source.is_some_and(|source| {
            source
                .data_source()
                .downcast_ref::<MemorySourceConfig>()
                .is_some()
        })
    };
    let is_known = plan.downcast_ref::<ShuffleWriterExec>().is_some()
        || plan.downcast_ref::<UnitExec>().is_some()
        || is_table();
    is_known && plan.children().into_iter().all(runs_only_units)
}

impl ExecutionEngine for OnlyUnits {
    fn create_query_stage_exec(
        &self,
        job_id: JobId,
        stage_id: usize,
        task_id: usize,
        global_output_partition_ids: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        if !runs_only_units(&plan) {
            return Err(DataFusionError::Execution(
                "this executor only runs units of rankscope merges".to_owned(),
            ));
        }
        let partitions = global_output_partition_ids;
        self.0
            .create_query_stage_exec(job_id, stage_id, task_id, partitions, plan, work_dir, config)
    }
}
