//! Atomic words behind a trait, so that a model checker can replace them.
//!
//! Code whose memory ordering matters is generic over [`Word`]. The tests run it with the words of loom, which tries all
//! interleavings and all values that a weakly ordered processor may read.

use std::sync::atomic::{AtomicU64, Ordering};

/// Atomic word, and the fence that belongs to it: those of `std`, or of a model checker.
pub trait Word {
    /// Reads the word.
    fn load(&self, order: Ordering) -> u64;
    /// Writes the word.
    fn store(&self, value: u64, order: Ordering);
    /// Writes `new` if the word is `current`. May fail although it is.
    ///
    /// # Errors
    /// Returns the word as it is if it was not written.
    fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64>;
    /// Orders the accesses before it with those after it.
    fn fence(order: Ordering);
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        Self::store(self, value, order);
    }

    #[inline(always)]
    fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        Self::compare_exchange_weak(self, current, new, success, failure)
    }

    #[inline(always)]
    fn fence(order: Ordering) {
        std::sync::atomic::fence(order);
    }
}
