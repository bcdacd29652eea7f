//! The standard input of a process that `rankscope run` starts beside a job. Its end shows that the launcher has ended.

use std::io::{self, Read};
use std::time::Duration;

/// What the launcher writes before the end if a user or a scheduler ended the job.
pub const ASKED: &[u8] = b"asked";

/// Returns true if a user or a scheduler ended the job. It waits for the end of the input.
pub fn was_asked_to_end() -> bool {
    let mut text = Vec::new();
    let read = io::stdin().lock().take(ASKED.len() as u64).read_to_end(&mut text);
    read.is_ok() && text == ASKED
}

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
