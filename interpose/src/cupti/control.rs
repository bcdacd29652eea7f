//! The user's requests while the job runs: the file `control` in the run directory, which `rankscope ctl` writes. The
//! recorder's thread reads it, because it has a separate descriptor table.

use super::mode::ActivityRequest;
use super::worker;
use rankscope_ranklog::activity_request::CONTROL_FILE;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Maximum number of bytes that are read.
const MOST_BYTES: u64 = 4096;

/// Number of seconds between two polls if nothing was requested so far.
const SELDOM: u32 = 4;
static POLLS: AtomicU32 = AtomicU32::new(0);

/// Text that was read last.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Polls for a new request. The run directory may be on a network file system. Until something was requested, it is not
/// polled every second.
pub fn poll(run_directory: &Path) {
    if !worker::is_running() && !POLLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(SELDOM) {
        return;
    }
    let Ok(file) = fs::File::open(run_directory.join(CONTROL_FILE)) else {
        return;
    };
    let mut text = String::new();
    if file.take(MOST_BYTES).read_to_string(&mut text).is_err() {
        return;
    }
    let Ok(mut last) = LAST.try_lock() else { return };
    if *last == text {
        return;
    }
    // The file gets its name when it is complete, so its content is never half-written.
    for line in text.lines() {
        if let Some(("kernels", wanted)) = line.split_once('=')
            && let Some(wanted) = ActivityRequest::parse(wanted)
        {
            worker::ask(wanted);
        }
    }
    *last = text;
}
