//! Work on a background thread for a panel. The window must not wait for a disk.

use egui::Context;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

/// A value that is being read or computed. Dropping it does not end the thread; its result is discarded.
pub struct Background<T> {
    result: Receiver<T>,
}

/// State of the work.
#[derive(Debug, PartialEq, Eq)]
pub enum Polled<T> {
    /// The work is not finished.
    Pending,
    /// The result. It is returned only once.
    Done(T),
    /// The thread could not be started, or panicked: a bug.
    Died,
}

/// Message to display for [`Polled::Died`].
pub const DIED: &str = "A thread of the viewer ended unexpectedly; please report this";

/// Wakes the window on drop, so also if the work panics.
struct Wake(Context);

impl Drop for Wake {
    fn drop(&mut self) {
        self.0.request_repaint();
    }
}

impl<T: Send + 'static> Background<T> {
    /// Starts `work`. The window of `ctx` is drawn again when it is finished.
    pub fn start(ctx: &Context, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (done, result) = channel();
        let ctx = ctx.clone();
        let run = move || {
            // Locals are dropped in reverse order: the channel is closed before the window wakes up.
            let _wake = Wake(ctx);
            let done = done;
            // Sending fails only if nobody waits for the result any more.
            let _ = done.send(work());
        };
        // If the thread cannot be started, the sender is dropped with the closure. The receiver then sees a dead
        // thread.
        drop(thread::Builder::new().name("panel".to_owned()).spawn(run));
        Self { result }
    }

    /// Returns the current state.
    pub fn poll(&self) -> Polled<T> {
        match self.result.try_recv() {
            Ok(result) => Polled::Done(result),
            Err(TryRecvError::Empty) => Polled::Pending,
            Err(TryRecvError::Disconnected) => Polled::Died,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn wait_for<T: Send + 'static>(background: &Background<T>) -> Polled<T> {
        let begin = Instant::now();
        loop {
            match background.poll() {
                Polled::Pending if begin.elapsed() < Duration::from_secs(20) => {
                    thread::sleep(Duration::from_millis(1));
                }
                polled => return polled,
            }
        }
    }

    #[test]
    fn results_and_panics_are_reported() {
        let ctx = Context::default();
        assert_eq!(wait_for(&Background::start(&ctx, || 7)), Polled::Done(7));
        let died = Background::start(&ctx, || -> u8 { panic!("on purpose, in a test") });
        assert_eq!(wait_for(&died), Polled::Died);
    }
}
