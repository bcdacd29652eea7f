//! Ring of free chunks: one producer, many consumers, no lock.
//!
//! `tests/weak_memory.rs` checks all interleavings of [`push`] and [`pop`] with loom.

use super::word::Word;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Puts a value at the end of a ring. `put` stores it at a position. Only one thread may call this, and only if the ring
/// is not full.
#[inline(always)]
pub fn push<W: Word>(tail: &W, put: impl FnOnce(u64)) {
    let position = tail.load(Ordering::Relaxed);
    put(position);
    tail.store(position + 1, Ordering::Release);
}

/// Takes a value from the front of a ring. `take` reads the value at a position.
///
/// The head is acquired: a consumer that moved it had seen the tail behind it. Otherwise a weakly ordered processor may
/// read the new head and an older tail. They are different, so the ring does not look empty, and the value at the head
/// is one that was never put there.
#[inline(always)]
pub fn pop<W: Word, T>(head: &W, tail: &W, take: impl Fn(u64) -> T) -> Option<T> {
    let mut position = head.load(Ordering::Acquire);
    loop {
        if position == tail.load(Ordering::Acquire) {
            return None;
        }
        // If another thread takes this position first, the exchange fails and the value is not used. The exchange
        // releases, so this read precedes every later use of the position.
        let value = take(position);
        match head.compare_exchange_weak(position, position + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(value),
            Err(now) => position = now,
        }
    }
}

/// Ring of free chunks. The background thread puts them in, and any lane takes them out: one producer, many consumers.
/// The capacity is the number of chunks, so the producer never overtakes the consumers.
pub struct FreeRing {
    slots: *const AtomicU32,
    mask: u64,
    head: AtomicU64,
    tail: AtomicU64,
}

impl FreeRing {
    /// Returns the number of bytes that the slots need for this many chunks.
    pub fn bytes_for(chunk_count: u32) -> usize {
        chunk_count.next_power_of_two() as usize * size_of::<AtomicU32>()
    }

    /// Creates a ring over zeroed memory.
    ///
    /// # Safety
    /// `slots` must point to `bytes_for(chunk_count)` zeroed bytes, aligned to 4, that are never freed.
    pub unsafe fn new(slots: *const AtomicU32, chunk_count: u32) -> Self {
        Self {
            slots,
            mask: u64::from(chunk_count.next_power_of_two()) - 1,
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
        }
    }

    fn slot(&self, position: u64) -> &AtomicU32 {
        // SAFETY: the index is masked to the number of slots, which live forever by the contract of `new`.
        unsafe { &*self.slots.add((position & self.mask) as usize) }
    }

    /// Puts a chunk into the ring. Only the background thread may call this.
    pub fn push(&self, chunk: u32) {
        push(&self.tail, |position| {
            self.slot(position).store(chunk, Ordering::Relaxed);
        });
    }

    /// Takes a chunk out of the ring.
    pub fn pop(&self) -> Option<u32> {
        pop(&self.head, &self.tail, |position| {
            self.slot(position).load(Ordering::Relaxed)
        })
    }

    /// Returns the current number of chunks in the ring.
    pub fn len(&self) -> u64 {
        self.tail
            .load(Ordering::Relaxed)
            .saturating_sub(self.head.load(Ordering::Relaxed))
    }

    /// Returns true if no chunk is free now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
