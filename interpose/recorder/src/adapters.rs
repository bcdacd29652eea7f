//! Adapters: what the parts for single libraries do when the recorder starts, runs and ends.
//!
//! The core names no adapter. They are registered when the library is loaded, or by the first hook of a table if that
//! runs earlier. Without registered adapters nothing is recorded.

use rankscope_ranklog::lanes::LaneSet;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// Functions that the core calls for one adapter.
pub struct Adapter {
    /// Runs once per process life, on the thread of the first event, after the recorder's thread was started.
    pub started: fn(),
    /// Runs first on the recorder's thread.
    pub on_thread: fn(),
    /// Runs on the recorder's thread, just before the first record is taken. Writes the definitions of the adapter.
    pub ready: fn(&LaneSet),
    /// Runs once a second on the recorder's thread, with the run directory. Returns how many threads of the adapter run.
    pub each_second: fn(&Path) -> usize,
    /// Runs when the recording ends, up to twice per process life. Writes pending records within the given time limit.
    pub finish: fn(Duration),
    /// Runs when the program reports that a step begins, on the thread that reports it.
    pub stepped: fn(u32),
    /// Runs with `true` while CUPTI does not record kernels that the user requested, else with `false`. It runs
    /// repeatedly with the same value.
    pub kernels_missing: fn(bool),
}

impl Adapter {
    /// An adapter that does nothing.
    pub const NOTHING: Self = Self {
        started: || {},
        on_thread: || {},
        ready: |_| {},
        each_second: |_| 0,
        finish: |_| {},
        stepped: |_| {},
        kernels_missing: |_| {},
    };
}

/// The registered list; null before. One store makes it known, which a fork cannot catch half-way.
static REGISTERED: AtomicPtr<&'static [&'static Adapter]> = AtomicPtr::new(std::ptr::null_mut());

/// Registers all adapters, in the order in which they write their definitions. Every call names the same list.
pub fn register(adapters: &'static &'static [&'static Adapter]) {
    REGISTERED.store(std::ptr::from_ref(adapters).cast_mut(), Ordering::Release);
}

/// Returns true once the adapters are known.
pub fn are_registered() -> bool {
    !REGISTERED.load(Ordering::Acquire).is_null()
}

/// Returns all adapters.
pub fn registered() -> &'static [&'static Adapter] {
    // SAFETY: null, or the address of a static list, which `register` stored and nothing ever changes.
    unsafe { REGISTERED.load(Ordering::Acquire).as_ref() }.map_or(&[], |adapters| *adapters)
}

/// Ends the recording of all adapters. Each takes at most this long.
pub fn finish(limit: Duration) {
    for adapter in registered() {
        (adapter.finish)(limit);
    }
}
