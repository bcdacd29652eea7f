//! Waits for what a job does.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Waits until a condition holds, for a minute at most.
///
/// # Panics
///
/// If it never holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "not within a minute: {what}"
        );
        sleep(Duration::from_millis(100));
    }
}
