//! Submits units: to a scheduler, or to DataFusion in this process.

use crate::access::{Access, HEADER};
use crate::codec::UnitCodec;
use crate::plan;
use crate::process::unique_name;
use anyhow::{Context, Result, anyhow};
use ballista_core::config::{BALLISTA_CLIENT_PULL, BallistaConfig};
use ballista_core::execution_plans::execute_physical_plan;
use ballista_core::extension::SessionConfigExt;
use datafusion::physical_plan::{ExecutionPlan, execute_stream_partitioned};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::{StreamExt, TryStreamExt};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Runs the units of a directory on a cluster, and waits for the end of the job.
///
/// # Errors
/// The scheduler cannot be reached, or the job failed.
pub async fn on_cluster(scheduler: &str, access: &Access, directory: &Path, units: Range<u32>) -> Result<()> {
    run(scheduler, access, plan::of_units(directory, units)?).await
}

/// Runs a plan on a cluster, and waits for the end of the job. The rows of the plan are not read: the results of units are their
/// receipts.
///
/// # Errors
/// The scheduler cannot be reached, or the job failed.
pub async fn run(scheduler: &str, access: &Access, plan: Arc<dyn ExecutionPlan>) -> Result<()> {
    let metadata = HashMap::from([(HEADER.to_owned(), access.token()?.header())]);
    let mut session = SessionConfig::new_with_ballista()
        .set_str(BALLISTA_CLIENT_PULL, "true")
        .with_ballista_job_name("rankscope merge")
        .with_ballista_grpc_metadata(metadata);
    if let Some(change) = access.endpoint()? {
        session = session.with_ballista_override_create_grpc_client_endpoint(change);
    }
    let id = unique_name().to_owned();
    let codec = UnitCodec::default();
    let (url, settings) = (access.url(scheduler), BallistaConfig::default());
    let rows = execute_physical_plan::<PhysicalPlanNode>(url, &settings, plan, &codec, id, session).await;
    // Reading the rows would fetch them from the executors, which listen on no port.
    rows.map(drop)
        .map_err(|error| anyhow!("scheduler {scheduler}: {}", message(&error.to_string())))
}

/// Runs the units of a directory in this process, with this number of threads, by DataFusion.
///
/// # Errors
/// A unit failed.
pub async fn in_process(directory: &Path, units: Range<u32>, threads: usize) -> Result<()> {
    let plan = plan::of_units(directory, units)?;
    let context = SessionContext::new().task_ctx();
    let partitions = execute_stream_partitioned(plan, context)?;
    futures::stream::iter(partitions)
        .map(|rows| async move { rows.try_for_each(|_| async { Ok(()) }).await })
        .buffer_unordered(threads.max(1))
        .try_for_each(|()| async { Ok(()) })
        .await
        .context("a unit failed")
}

/// Returns the message in an error of gRPC; the whole text if it has none.
fn message(text: &str) -> String {
    let message = text
        .split_once("message: \"")
        .and_then(|(_, rest)| rest.split_once('"'));
    message.map_or_else(|| text.to_owned(), |(message, _)| message.to_owned())
}
