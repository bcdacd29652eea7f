//! What the user asks for while the job runs: the file `control` in the run directory, which `rankscope ctl` writes.
//! Read by the recorder's thread, which has descriptors of its own.

use super::mode::Wanted;
use super::watch;
use rankscope_ranklog::wanted::CONTROL_FILE;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// More than this is not read.
const MOST_BYTES: u64 = 4096;

/// Seconds between two looks where nothing was asked for.
const SELDOM: u32 = 4;
static LOOKS: AtomicU32 = AtomicU32::new(0);

/// What was read last.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Looks whether something new is asked for. The run directory may be on a network: where nothing was asked for so far, it
/// is not looked at every second.
pub fn look(run_directory: &Path) {
    if !watch::is_running() && !LOOKS.fetch_add(1, Ordering::Relaxed).is_multiple_of(SELDOM) {
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
    // The file takes its name when it is whole, so what stands there is what was meant.
    for line in text.lines() {
        if let Some(("kernels", wanted)) = line.split_once('=')
            && let Some(wanted) = Wanted::parse(wanted)
        {
            watch::ask(wanted);
        }
    }
    *last = text;
}
