//! The server: its thread, and what a test asks of it.

use crate::connection::{Connection, Flushes};
use crate::fault::Fault;
use crate::front::Front;
use crate::record::{Counters, Request};
use crate::store::Store;
use crate::uploads::{self, Upload};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, fs};
use tokio::sync::oneshot;

const ACCESS_KEY: &str = "rankscope-test";
const SECRET_KEY: &str = "rankscope-test-secret";
const REGION: &str = "us-east-1";

/// An S3 server on a port of this machine, until it is dropped.
///
/// Its methods are for ordinary test functions. They wait for no client.
pub struct S3Server {
    root: PathBuf,
    address: SocketAddr,
    front: Arc<Front>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl S3Server {
    /// Serves the buckets in the directory `root`. Every directory in it is a bucket.
    ///
    /// # Panics
    ///
    /// If `root` is no directory, or no port is free.
    #[must_use]
    pub fn start(root: &Path) -> Self {
        let mut service = S3ServiceBuilder::new(Store::new(root));
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let front = Arc::new(Front::new(service.build()));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener
            .set_nonblocking(true)
            .expect("a socket that does not wait");
        let address = listener.local_addr().expect("the address of the socket");
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("s3-server".to_owned())
            .spawn({
                let front = front.clone();
                move || serve(listener, &front, stopped)
            })
            .expect("a thread");
        Self {
            root: root.to_owned(),
            address,
            front,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Creates a bucket if it does not exist, and returns its directory. Files in it are objects.
    ///
    /// # Panics
    ///
    /// If the directory cannot be created.
    pub fn bucket(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(&path).expect("a directory for the bucket");
        path
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The environment variables with which the aws command and `object_store` use this server.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
            ("AWS_REGION", REGION.to_owned()),
            // The aws command before version 2 knows only this one.
            ("AWS_DEFAULT_REGION", REGION.to_owned()),
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ]
    }

    /// Replaces all faults. A request that is being answered keeps its fault.
    pub fn faults(&self, faults: Vec<Fault>) {
        self.front.set_faults(faults);
    }

    /// How often each fault has fired since the faults were set, in their order.
    #[must_use]
    pub fn fired(&self) -> Vec<u64> {
        self.front.fired()
    }

    /// Delays every request by this time, as a bucket far away does.
    pub fn set_latency(&self, latency: Duration) {
        self.front.set_latency(latency);
    }

    /// The sums over all requests.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.front.record.counters()
    }

    /// All requests, in the order of their arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.front.record.requests()
    }

    /// Forgets the requests and their sums. The faults keep their counts.
    pub fn reset_counters(&self) {
        self.front.record.reset();
    }

    /// The multipart uploads that were begun, and neither completed nor aborted.
    ///
    /// # Panics
    ///
    /// If the root cannot be read.
    #[must_use]
    pub fn uploads_in_progress(&self) -> Vec<Upload> {
        uploads::in_progress(&self.root).expect("the root is a directory")
    }
}

impl fmt::Debug for S3Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Server")
            .field("root", &self.root)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

/// Accepts connections until the sender of `stopped` is dropped. The end of the runtime closes all connections.
fn serve(listener: TcpListener, front: &Arc<Front>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads for the server");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a socket of this thread");
        let accepting = runtime.spawn(accept(listener, front.clone()));
        let _ = stopped.await;
        accepting.abort();
    });
}

async fn accept(listener: tokio::net::TcpListener, front: Arc<Front>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        // Answers are small, and a delay of 40 ms would count as the server's.
        let _ = stream.set_nodelay(true);
        let front = front.clone();
        let flushes = Flushes::default();
        let io = TokioIo::new(Connection::new(stream, flushes.clone()));
        let service = service_fn(move |request| front.clone().answer(request, flushes.clone()));
        // The error of a connection is the client's, or that of a fault.
        tokio::spawn(async move { http1::Builder::new().serve_connection(io, service).await.ok() });
    }
}
