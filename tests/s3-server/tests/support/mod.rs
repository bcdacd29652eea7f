//! A server with one bucket, and clients of it.

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use rankscope_s3_server::S3Server;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// A server, its bucket `runs`, and a runtime for clients.
pub struct Setting {
    pub server: S3Server,
    pub bucket: PathBuf,
    pub runtime: Runtime,
    // The server stops before its directory disappears: fields are dropped in order.
    _root: TempDir,
}

impl Setting {
    pub fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let server = S3Server::start(root.path());
        Self {
            bucket: server.bucket("runs"),
            server,
            runtime: Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime"),
            _root: root,
        }
    }

    /// Waits for a future.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// A client with the server's environment that retries this often.
    pub fn client(&self, retries: usize) -> AmazonS3 {
        self.builder(retries, Duration::from_secs(60))
            .build()
            .expect("a complete environment")
    }

    /// The client before it is built, with the time that it waits for an answer.
    pub fn builder(&self, retries: usize, patience: Duration) -> AmazonS3Builder {
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(1),
            max_backoff: Duration::from_millis(10),
            base: 2.0,
        };
        let builder = AmazonS3Builder::new()
            .with_bucket_name("runs")
            .with_retry(RetryConfig {
                backoff,
                max_retries: retries,
                retry_timeout: Duration::from_secs(60),
            })
            .with_client_options(ClientOptions::new().with_allow_http(true).with_timeout(patience));
        // What `AmazonS3Builder::from_env` does with the variables of the process.
        self.server
            .environment()
            .into_iter()
            .fold(builder, |builder, (name, value)| {
                let key: AmazonS3ConfigKey = name.to_lowercase().parse().expect("a variable that is known");
                builder.with_config(key, value)
            })
    }
}
