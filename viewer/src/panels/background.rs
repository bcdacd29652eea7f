//! Work that a panel has done for it on a thread of its own: a window does not wait for a disk.

use egui::Context;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

/// Something that is being read or computed. When it is dropped the thread goes on, and nobody hears of it.
pub struct Background<T> {
    result: Receiver<T>,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Polled<T> {
    /// Not yet there.
    Pending,
    /// Done; it is told once.
    Done(T),
    /// The thread could not be started, or died: a bug.
    Died,
}

/// What to tell people where [`Polled::Died`].
pub const DIED: &str = "a thread of the viewer ended unexpectedly; please report this";

/// Wakes the window up also where the work ends in a panic.
struct Wake(Context);

impl Drop for Wake {
    fn drop(&mut self) {
        self.0.request_repaint();
    }
}

impl<T: Send + 'static> Background<T> {
    /// Starts it. The window of `ctx` is drawn again when it is done.
    pub fn start(ctx: &Context, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (done, result) = channel();
        let ctx = ctx.clone();
        let run = move || {
            // Dropped in reverse order: the window wakes up when the channel tells what happened.
            let _wake = Wake(ctx);
            let done = done;
            // Nobody waits any more if this fails.
            let _ = done.send(work());
        };
        // Without a thread the sender is dropped with the closure, which says the same as a thread that died.
        drop(thread::Builder::new().name("panel".to_owned()).spawn(run));
        Self { result }
    }

    /// What became of it by now.
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
    fn a_result_is_told_and_a_panic_too() {
        let ctx = Context::default();
        assert_eq!(wait_for(&Background::start(&ctx, || 7)), Polled::Done(7));
        let died = Background::start(&ctx, || -> u8 { panic!("on purpose, in a test") });
        assert_eq!(wait_for(&died), Polled::Died);
    }
}
