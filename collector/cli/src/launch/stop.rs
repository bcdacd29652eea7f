//! Handling of Ctrl-C during a merge. The merge stops, the recording stays, and a message says how to continue.

use super::signals::Signals;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

type Farewell = Box<dyn FnOnce(i32) + Send>;

/// Guard that makes an interrupt call the farewell function with the signal's number instead of killing this process.
/// The function does not return.
pub struct StopWatch {
    farewell: Arc<Mutex<Option<Farewell>>>,
}

impl StopWatch {
    /// Starts the watch. The signals must have been blocked before any other thread was started.
    pub fn start(farewell: impl FnOnce(i32) + Send + 'static) -> Self {
        let signals = Signals::to_stop_us();
        signals.block();
        let shared: Arc<Mutex<Option<Farewell>>> = Arc::new(Mutex::new(Some(Box::new(farewell))));
        let taken = Arc::clone(&shared);
        let watch = move || {
            // A dropped watch must not suppress the default action of a signal for ever, so the thread polls.
            loop {
                let received = signals.wait_at_most(Duration::from_millis(100));
                let Ok(mut farewell) = taken.lock() else { return };
                if farewell.is_none() {
                    return;
                }
                if let Some(received) = received
                    && let Some(farewell) = farewell.take()
                {
                    farewell(received.signal);
                    return;
                }
            }
        };
        if thread::Builder::new()
            .name("rankscope-stop".into())
            .spawn(watch)
            .is_err()
        {
            signals.unblock();
        }
        Self { farewell: shared }
    }
}

impl Drop for StopWatch {
    fn drop(&mut self) {
        if let Ok(mut farewell) = self.farewell.lock() {
            farewell.take();
        }
        Signals::to_stop_us().unblock();
    }
}
