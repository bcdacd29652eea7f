//! A connection that reports when everything written has left the process.
//!
//! An HTTP server collects what it writes, and drops it if a body fails. A cut body fails only after its bytes have left,
//! so that the client receives exactly those.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Counts how often a connection had nothing left to write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flushes(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    count: u64,
    waiting: Option<Waker>,
}

impl Flushes {
    /// Waits for the next flush after the first call. `since` is the caller's memory of that call.
    pub(crate) fn poll_next(&self, since: &mut Option<u64>, context: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().expect("no thread panicked");
        if *since.get_or_insert(state.count) < state.count {
            return Poll::Ready(());
        }
        state.waiting = Some(context.waker().clone());
        Poll::Pending
    }

    fn happened(&self) {
        let mut state = self.0.lock().expect("no thread panicked");
        state.count += 1;
        if let Some(waker) = state.waiting.take() {
            waker.wake();
        }
    }
}

/// The stream of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    flushes: Flushes,
}

impl Connection {
    /// Wraps a stream whose flushes are counted.
    pub(crate) fn new(stream: TcpStream, flushes: Flushes) -> Self {
        Self { stream, flushes }
    }

    fn stream(&mut self) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.stream)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.stream().poll_flush(context))?;
        self.flushes.happened();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
