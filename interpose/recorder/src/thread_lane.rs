//! The lane of a thread. It is the only state that the core keeps per thread; the adapters' is beside it, in
//! `ThreadState`.

use rankscope_ranklog::lanes::Lane;
use std::cell::Cell;

/// Lane of one thread, and the process life to which it belongs.
pub struct ThreadLane {
    /// Process life in which `lane` was taken; 0 for none. It is compared with the word that fork wipes.
    pub epoch: Cell<u32>,
    /// The thread's lane, or null.
    pub lane: Cell<*const Lane>,
}

impl ThreadLane {
    /// State of a thread that has recorded nothing.
    pub const fn new() -> Self {
        Self {
            epoch: Cell::new(0),
            lane: Cell::new(std::ptr::null()),
        }
    }
}

impl Default for ThreadLane {
    fn default() -> Self {
        Self::new()
    }
}
