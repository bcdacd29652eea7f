//! State of Gloo's hooks in one thread.

use std::cell::Cell;
use std::ffi::c_void;

/// State of Gloo's hooks in one thread.
pub struct GlooThread {
    /// Nesting depth of collectives. Messages inside a collective are not separate operations.
    pub depth: Cell<u32>,
    /// Rendezvous in progress, or null: a `ConnectFrame` on the stack of the hook that started it.
    pub connect: Cell<*mut c_void>,
    /// Sampler of the collective in progress, or null: a `Sampler` on the stack of the hook that started it.
    pub sampler: Cell<*mut c_void>,
    /// While a context is created from another one: the new context's pointer as its constructor saw it.
    pub forked_context: Cell<usize>,
    /// Nesting depth of `ContextFactory::makeContext`.
    pub forking: Cell<u32>,
}

impl GlooThread {
    pub(super) const fn new() -> Self {
        Self {
            depth: Cell::new(0),
            connect: Cell::new(std::ptr::null_mut()),
            sampler: Cell::new(std::ptr::null_mut()),
            forked_context: Cell::new(0),
            forking: Cell::new(0),
        }
    }
}
