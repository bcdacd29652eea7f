//! Adapters: functions of the parts for single libraries that run when the recorder starts, runs and ends.
//!
//! The core names no adapter. The library's constructor registers them, before the program's own code runs. Without
//! registered adapters nothing is recorded.

use rankscope_ranklog::lanes::LaneSet;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

/// Functions that the core calls for one adapter.
pub struct Adapter {
    /// Runs once per process life, on the thread of the first event, after the recorder's thread was started.
    pub started: fn(),
    /// Runs on the recorder's thread, just before the first record is taken. Writes the definitions of the adapter.
    pub ready: fn(&LaneSet),
    /// Runs once a second on the recorder's thread, with the run directory. Returns how many threads of the adapter run.
    pub each_second: fn(&Path) -> usize,
    /// Runs when the recording ends. Writes pending records within the given time limit.
    pub finish: fn(Duration),
    /// Runs with `true` when CUPTI no longer records kernels that the user requested, and with `false` when it does so
    /// again.
    pub kernels_missing: fn(bool),
}

impl Adapter {
    /// An adapter that does nothing.
    pub const NOTHING: Self = Self {
        started: || {},
        ready: |_| {},
        each_second: |_| 0,
        finish: |_| {},
        kernels_missing: |_| {},
    };
}

static REGISTERED: OnceLock<&'static [&'static Adapter]> = OnceLock::new();

/// Registers all adapters, in the order in which they write their definitions. Later calls change nothing.
pub fn register(adapters: &'static [&'static Adapter]) {
    let _ = REGISTERED.set(adapters);
}

/// Returns true once the adapters are registered.
pub fn are_registered() -> bool {
    REGISTERED.get().is_some()
}

/// Returns all adapters.
pub fn registered() -> &'static [&'static Adapter] {
    REGISTERED.get().copied().unwrap_or(&[])
}

/// Ends the recording of all adapters. Each takes at most this long.
pub fn finish(limit: Duration) {
    for adapter in registered() {
        (adapter.finish)(limit);
    }
}
