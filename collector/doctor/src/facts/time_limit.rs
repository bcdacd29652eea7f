//! A time limit for work that may hang.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Does the work in a thread. Returns its result, or `None` if it takes longer than the limit. The thread is then left
/// alone, and ends with the program.
pub fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || {
        // Nobody receives a late result.
        let _ = sender.send(work());
    });
    receiver.recv_timeout(limit).ok()
}
