//! An executor: Ballista's loop that asks the scheduler for work, with our codec and the token. It listens on no port:
//! results of units are files, so no process connects to it.

use crate::access::{Access, AddToken};
use crate::codec::UnitCodec;
use crate::only_units::OnlyUnits;
use crate::process::{host_name, unique_name};
use crate::unit_exec::restrict_to;
use anyhow::{Context, Result, anyhow};
use ballista_core::serde::protobuf::executor_resource::Resource;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    ExecutorOperatingSystemSpecification, ExecutorRegistration, ExecutorResource, ExecutorSpecification,
    ExecutorStoppedParams, PollWorkParams,
};
use ballista_core::serde::{BallistaCodec, BallistaLogicalExtensionCodec};
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint, default_config_producer};
use ballista_core::{BALLISTA_PROTOCOL_VERSION, RuntimeProducer};
use ballista_executor::execution_loop::poll_loop;
use ballista_executor::executor::Executor;
use ballista_executor::health::ExecutorHealth;
use ballista_executor::metrics::LoggingMetricsCollector;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Channel;
use tracing::warn;

/// Options of an executor.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// The scheduler, as `HOST:PORT`.
    pub scheduler: String,
    /// Number of units that run at the same time.
    pub threads: usize,
    /// Directories that units may use; empty for all.
    pub roots: Vec<PathBuf>,
    /// Time to wait for the scheduler at the start.
    pub patience: Duration,
    /// Token and certificates.
    pub access: Access,
}

/// Runs units until `stop` is ready. Calls `started` once the scheduler has answered.
///
/// # Errors
/// The scheduler cannot be reached, or refuses the token.
pub async fn run(
    options: ExecutorOptions,
    started: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let ExecutorOptions {
        scheduler,
        threads,
        roots,
        patience,
        access,
    } = options;
    let token = AddToken(access.token()?);
    restrict_to(roots);
    let channel = connect(&access, &scheduler, patience).await?;
    let mut client = SchedulerGrpcClient::with_interceptor(channel, token);
    let id = unique_name().to_owned();
    let folder = tempfile::Builder::new().prefix("rankscope-executor-").tempdir()?;
    let work = folder.path().to_string_lossy().into_owned();
    let temporary = folder.path().to_path_buf();
    let runtime: RuntimeProducer = Arc::new(move |_| {
        let runtime = RuntimeEnvBuilder::new()
            .with_temp_file_path(temporary.clone())
            .build()?;
        Ok(Arc::new(runtime))
    });
    let executor = Arc::new(Executor::new(
        registration(&id, threads),
        &work,
        runtime,
        Arc::new(default_config_producer),
        Arc::default(),
        Arc::new(LoggingMetricsCollector::default()),
        threads,
        Arc::new(OnlyUnits::default()),
    ));
    let codec: BallistaCodec<LogicalPlanNode, PhysicalPlanNode> = BallistaCodec::new(
        Arc::new(BallistaLogicalExtensionCodec::default()),
        Arc::new(UnitCodec::default()),
    );
    // A wrong token or version should end the process, and not only fill its log.
    let first = PollWorkParams {
        metadata: Some(executor.metadata.clone()),
        num_free_vcores: 0,
        task_status: Vec::new(),
    };
    let answer = client.poll_work(first).await;
    answer.map_err(|status| anyhow!("the scheduler refuses this executor: {}", status.message()))?;
    started();
    let polling = poll_loop(client.clone(), executor, codec, None, None, ExecutorHealth::new());
    tokio::select! {
        ended = polling => ended.context("the executor stopped")?,
        () = stop => {}
    }
    // The scheduler then gives the units to others at once.
    let stopped = ExecutorStoppedParams {
        executor_id: id,
        reason: "the executor was stopped".to_owned(),
    };
    if let Err(error) = client.executor_stopped(stopped).await {
        warn!("the scheduler was not informed: {error}");
    }
    Ok(())
}

/// Connects to the scheduler, which may start later.
async fn connect(access: &Access, scheduler: &str, patience: Duration) -> Result<Channel> {
    let configuration = GrpcClientConfig::default();
    let mut endpoint = create_grpc_client_endpoint(access.url(scheduler), Some(&configuration))
        .with_context(|| format!("not an address HOST:PORT: {scheduler}"))?;
    if let Some(change) = access.endpoint()? {
        endpoint = change(endpoint).map_err(|error| anyhow!("the certificates cannot be used: {error}"))?;
    }
    let start = tokio::time::Instant::now();
    loop {
        match endpoint.connect().await {
            Ok(channel) => return Ok(channel),
            Err(_) if start.elapsed() < patience => tokio::time::sleep(Duration::from_millis(250)).await,
            Err(error) => {
                return Err(error).with_context(|| format!("no scheduler answers at {scheduler}"));
            }
        }
    }
}

fn registration(id: &str, threads: usize) -> ExecutorRegistration {
    ExecutorRegistration {
        id: id.to_owned(),
        host: Some(host_name()),
        // Nothing listens there.
        port: 0,
        grpc_port: 0,
        specification: Some(ExecutorSpecification {
            resources: vec![ExecutorResource {
                resource: Some(Resource::Vcores(threads as u32)),
            }],
        }),
        os_info: Some(ExecutorOperatingSystemSpecification::default()),
        ballista_protocol_version: BALLISTA_PROTOCOL_VERSION,
    }
}
