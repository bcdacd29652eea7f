//! Runs requests for callers that block.

use std::future::Future;
use std::io;
use std::sync::{OnceLock, mpsc};
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads of the runtime. They wait for the network most of the time.
const THREADS: usize = 2;

/// Returns the runtime, and starts it if necessary.
pub fn handle() -> io::Result<&'static Handle> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let started = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("rankscope-remote")
            .enable_all()
            .build()
    });
    match started {
        Ok(runtime) => Ok(runtime.handle()),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("cannot start threads: {error}"),
        )),
    }
}

/// Waits for a future. The caller may itself be a thread of another runtime, where `block_on` would panic.
pub fn wait<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    let (done, outcome) = mpsc::sync_channel(1);
    handle()?.spawn(async move {
        // The caller waits until it has the outcome.
        let _ = done.send(future.await);
    });
    outcome
        .recv()
        .map_err(|_| io::Error::other("a request ended unexpectedly; please report this"))
}
