//! State of the CUPTI recording in one thread.

use std::cell::Cell;

/// State of the CUPTI recording in one thread.
pub struct CuptiThread {
    /// Nesting depth of this library's calls to CUPTI. CUPTI may call itself through names that this library
    /// intercepts.
    pub depth: Cell<u32>,
    /// True while this thread changes CUPTI's configuration.
    pub is_changing: Cell<bool>,
}

impl CuptiThread {
    pub(super) const fn new() -> Self {
        Self {
            depth: Cell::new(0),
            is_changing: Cell::new(false),
        }
    }
}
