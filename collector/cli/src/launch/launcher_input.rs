//! The standard input of a process that `rankscope run` starts beside a job. Its end shows that the launcher has ended.

use std::time::Duration;

/// Waits, at most this long, until the launcher closes the standard input. Returns true if it has.
pub fn has_ended(limit: Duration) -> bool {
    let mut input = libc::pollfd {
        fd: libc::STDIN_FILENO,
        events: libc::POLLIN,
        revents: 0,
    };
    let ms = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the call gets one valid entry.
    let ready = unsafe { libc::poll(&raw mut input, 1, ms) };
    ready > 0
}
