//! The scheduler: Ballista's, with our codec, in a server that requires the token.

use crate::access::{Access, RequireToken};
use crate::codec::UnitCodec;
use anyhow::{Context, Result};
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpcServer;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::create_scheduler;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// Options of a scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// Address to listen on. Port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Time after which a silent executor counts as dead, in seconds. Executors report every five seconds at least.
    pub executor_timeout_s: u64,
    /// Token and certificates.
    pub access: Access,
}

/// Interval of the search for dead executors, in seconds.
const DEAD_EXECUTOR_SEARCH_S: u64 = 1;
/// Number of attempts at a unit whose files cannot be read or written.
const MAX_ATTEMPTS: usize = 4;
/// Number of executors that may die while they run parts of one job.
const MAX_STAGE_FAILURES: usize = 64;

/// Listens and distributes units until `stop` is ready. Calls `started` with the address.
///
/// # Errors
/// The address is in use or not allowed, or a certificate cannot be read.
pub async fn run(
    options: SchedulerOptions,
    started: impl FnOnce(SocketAddr),
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let SchedulerOptions {
        listen,
        executor_timeout_s,
        access,
    } = options;
    access.check(listen)?;
    let require_token = RequireToken(access.token()?);
    let config = Arc::new(SchedulerConfig {
        // Executors ask for work, so only the scheduler has to be reachable.
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        override_physical_codec: Some(Arc::new(UnitCodec::default())),
        executor_timeout_seconds: executor_timeout_s,
        expire_dead_executor_interval_seconds: DEAD_EXECUTOR_SEARCH_S,
        no_executors_grace_period_seconds: executor_timeout_s * 2,
        task_max_failures: MAX_ATTEMPTS,
        stage_max_failures: MAX_STAGE_FAILURES,
        ..SchedulerConfig::default()
    });
    let cluster = BallistaCluster::new_from_config(&config).await?;
    let largest = config.grpc_server_max_decoding_message_size as usize;
    let scheduler = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, config).await?;
    let service = SchedulerGrpcServer::new(scheduler)
        .max_decoding_message_size(largest)
        .max_encoding_message_size(largest);
    let mut server = Server::builder();
    if let Some(tls) = access.server_tls()? {
        server = server
            .tls_config(tls)
            .context("the certificates cannot be used")?;
    }
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    started(listener.local_addr()?);
    // Each answer has a small last packet. Without this, it waits 40 ms for the receiver's acknowledgement.
    let connections = TcpIncoming::from(listener).with_nodelay(Some(true));
    server
        .add_service(InterceptedService::new(service, require_token))
        .serve_with_incoming_shutdown(connections, stop)
        .await
        .context("the scheduler stopped")
}
