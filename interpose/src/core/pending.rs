//! Calls whose operation has not reached its stream: by them what versions 1 to 4 of the interface tell of an operation
//! is joined with the call it comes from. (From version 5 on the library names the call itself.)
//!
//! The library sorts the operations of a group by size and may hand them on from a thread of the driver, so order alone
//! does not tell; function, buffers and size do, and among equals the oldest.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Calls that may be between the hook and the stream at one time, per communicator.
const PLACES: usize = 1024;

/// What a call and what is told of its operation have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The operation.
    pub operation: u8,
    /// Buffers; the same twice where there is one.
    pub send: usize,
    /// See `send`.
    pub receive: usize,
    /// Payload.
    pub bytes: u64,
    /// Peer of a message; 0 otherwise.
    pub peer: i32,
}

struct Place {
    /// Number of the call plus one while it waits; 0: nobody.
    waits: AtomicU64,
    operation: AtomicU32,
    peer: AtomicU32,
    send: AtomicU64,
    receive: AtomicU64,
    bytes: AtomicU64,
    call: AtomicU64,
    group: AtomicU32,
}

/// The calls of one communicator. One thread writes at a time: the library itself forbids two.
pub struct Pending {
    /// Calls so far.
    count: AtomicU64,
    places: [Place; PLACES],
}

impl Pending {
    /// A call is being made; `call` is its handle, `group` its group's number, 0 if it is in none.
    #[inline]
    pub fn push(&self, asked: &Asked, call: u64, group: u32) {
        let number = self.count.load(Ordering::Relaxed);
        self.count.store(number + 1, Ordering::Relaxed);
        let place = &self.places[number as usize % PLACES];
        place.waits.store(0, Ordering::Relaxed);
        place
            .operation
            .store(u32::from(asked.operation), Ordering::Relaxed);
        place.peer.store(asked.peer as u32, Ordering::Relaxed);
        place.send.store(asked.send as u64, Ordering::Relaxed);
        place.receive.store(asked.receive as u64, Ordering::Relaxed);
        place.bytes.store(asked.bytes, Ordering::Relaxed);
        place.call.store(call, Ordering::Relaxed);
        place.group.store(group, Ordering::Relaxed);
        place.waits.store(number + 1, Ordering::Release);
    }

    /// Calls of which this is true no longer wait: the library refused them, or only simulated their group.
    #[cold]
    fn withdraw(&self, which: impl Fn(&Place) -> bool) {
        for place in &self.places {
            let waits = place.waits.load(Ordering::Acquire);
            if waits != 0 && which(place) {
                // Whoever took it, or the place, meanwhile keeps it.
                let _ = place
                    .waits
                    .compare_exchange(waits, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// The call was refused.
    pub fn withdraw_call(&self, call: u64) {
        self.withdraw(|place| place.call.load(Ordering::Relaxed) == call);
    }

    /// Nothing of the group comes.
    pub fn withdraw_group(&self, group: u32) {
        self.withdraw(|place| place.group.load(Ordering::Relaxed) == group);
    }

    /// This very call, if it waits; it then no longer does.
    pub fn take_call(&self, call: u64) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        let oldest = count.saturating_sub(PLACES as u64);
        // The call in progress is the newest.
        (oldest..count).rev().any(|number| {
            let place = &self.places[number as usize % PLACES];
            place.call.load(Ordering::Relaxed) == call
                && place
                    .waits
                    .compare_exchange(number + 1, 0, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        })
    }

    /// The oldest call that this can come from, which then no longer waits.
    pub fn take(&self, asked: &Asked) -> Option<u64> {
        let count = self.count.load(Ordering::Relaxed);
        let oldest = count.saturating_sub(PLACES as u64);
        for number in oldest..count {
            let place = &self.places[number as usize % PLACES];
            if place.waits.load(Ordering::Acquire) == number + 1
                && place.operation.load(Ordering::Relaxed) == u32::from(asked.operation)
                && place.peer.load(Ordering::Relaxed) == asked.peer as u32
                && place.send.load(Ordering::Relaxed) == asked.send as u64
                && place.receive.load(Ordering::Relaxed) == asked.receive as u64
                && place.bytes.load(Ordering::Relaxed) == asked.bytes
            {
                let call = place.call.load(Ordering::Relaxed);
                let is_ours = place
                    .waits
                    .compare_exchange(number + 1, 0, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
                if is_ours {
                    return Some(call);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(send: usize) -> Asked {
        Asked {
            operation: 1,
            send,
            receive: send,
            bytes: 64,
            peer: 0,
        }
    }

    #[test]
    fn equal_calls_are_taken_in_their_order_and_others_by_what_they_are() {
        // SAFETY: all zero is an empty list.
        let pending: Box<Pending> = unsafe { Box::new(std::mem::zeroed()) };
        for (send, call) in [(8, 1), (16, 2), (8, 3)] {
            pending.push(&asked(send), call, 0);
        }
        assert_eq!(pending.take(&asked(16)), Some(2));
        assert_eq!(pending.take(&asked(8)), Some(1));
        assert_eq!(pending.take(&asked(8)), Some(3));
        assert_eq!(pending.take(&asked(8)), None);
        for call in 0..2000 {
            pending.push(&asked(8), call, 7);
        }
        assert_eq!(pending.take(&asked(8)), Some(2000 - PLACES as u64));
        pending.withdraw_call(2001 - PLACES as u64);
        assert_eq!(pending.take(&asked(8)), Some(2002 - PLACES as u64));
        assert!(pending.take_call(1999));
        assert!(!pending.take_call(1999));
        pending.withdraw_group(7);
        assert_eq!(pending.take(&asked(8)), None);
    }
}
