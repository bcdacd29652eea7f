//! Calls whose operation has not reached its stream yet. They join a plugin report with the call that it comes from.
//!
//! Versions 1 to 4 of the plugin interface need this list. From version 5 on the library names the call itself. The
//! library sorts the operations of a group by size, and may pass them on from a thread of the driver. So order alone
//! does not identify a call. Function, buffers and size do; among equal calls the oldest matches.
//!
//! Captured calls are not removed: each replay of their graph is reported. Among equal captured calls, the one with the
//! fewest replays matches, and of these the oldest. So the calls of one graph match in turns, on all ranks alike.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Maximum number of calls per communicator that can be between the hook and the stream at one time.
const PLACES: usize = 1024;

/// Values that both a call and the report of its operation contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The operation.
    pub operation: u8,
    /// Address of the send buffer. Equals `receive` if the call has only one buffer.
    pub send: usize,
    /// Address of the receive buffer.
    pub receive: usize,
    /// Payload, in bytes.
    pub bytes: u64,
    /// Peer of a message; 0 for other operations.
    pub peer: i32,
}

struct Place {
    /// Number of the call plus one while it waits; 0 if the slot is empty.
    waits: AtomicU64,
    operation: AtomicU32,
    peer: AtomicU32,
    send: AtomicU64,
    receive: AtomicU64,
    bytes: AtomicU64,
    call: AtomicU64,
    group: AtomicU32,
    /// Number of reported replays of a captured call.
    replays: AtomicU32,
}

impl Place {
    /// Fills the slot with call `number`.
    fn fill(&self, asked: &Asked, call: u64, group: u32, number: u64) {
        self.waits.store(0, Ordering::Relaxed);
        // A reader that sees one of the following values also sees that the slot was emptied before.
        fence(Ordering::Release);
        self.operation
            .store(u32::from(asked.operation), Ordering::Relaxed);
        self.peer.store(asked.peer as u32, Ordering::Relaxed);
        self.send.store(asked.send as u64, Ordering::Relaxed);
        self.receive.store(asked.receive as u64, Ordering::Relaxed);
        self.bytes.store(asked.bytes, Ordering::Relaxed);
        self.call.store(call, Ordering::Relaxed);
        self.group.store(group, Ordering::Relaxed);
        self.replays.store(0, Ordering::Relaxed);
        self.waits.store(number + 1, Ordering::Release);
    }

    /// Returns true if the slot contains call `number`, and it matches `asked`.
    fn matches(&self, asked: &Asked, number: u64) -> bool {
        self.waits.load(Ordering::Acquire) == number + 1
            && self.operation.load(Ordering::Relaxed) == u32::from(asked.operation)
            && self.peer.load(Ordering::Relaxed) == asked.peer as u32
            && self.send.load(Ordering::Relaxed) == asked.send as u64
            && self.receive.load(Ordering::Relaxed) == asked.receive as u64
            && self.bytes.load(Ordering::Relaxed) == asked.bytes
    }
}

/// The pending calls of one communicator. Only one thread writes at a time, because the library forbids concurrent
/// calls.
pub struct Pending {
    /// Number of calls so far.
    count: AtomicU64,
    places: [Place; PLACES],
    /// Number of captured calls so far.
    captured_count: AtomicU64,
    captured: [Place; PLACES],
}

impl Pending {
    /// Adds a call that is about to be made. `call` is its handle, and `group` is the number of its group, or 0.
    #[inline]
    pub fn push(&self, asked: &Asked, call: u64, group: u32) {
        let number = self.count.load(Ordering::Relaxed);
        self.count.store(number + 1, Ordering::Relaxed);
        self.places[number as usize % PLACES].fill(asked, call, group, number);
    }

    /// Adds a call that is about to be captured into a graph. On overflow the oldest one is forgotten.
    #[inline]
    pub fn push_captured(&self, asked: &Asked, call: u64, group: u32) {
        let number = self.captured_count.load(Ordering::Relaxed);
        self.captured_count.store(number + 1, Ordering::Relaxed);
        self.captured[number as usize % PLACES].fill(asked, call, group, number);
    }

    /// Counts a replay of a captured call that matches `asked`, and returns the call.
    pub fn replay(&self, asked: &Asked) -> Option<u64> {
        let count = self.captured_count.load(Ordering::Relaxed);
        let oldest = count.saturating_sub(PLACES as u64);
        let replayed = (oldest..count)
            .map(|number| (number, &self.captured[number as usize % PLACES]))
            .filter(|&(number, place)| place.matches(asked, number))
            .min_by_key(|(_, place)| place.replays.load(Ordering::Relaxed));
        let (number, place) = replayed?;
        let call = place.call.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        // On overflow, another captured call may have taken the slot.
        if place.waits.load(Ordering::Relaxed) != number + 1 {
            return None;
        }
        place.replays.fetch_add(1, Ordering::Relaxed);
        Some(call)
    }

    /// Removes the calls for which `which` is true: the library refused them, or only simulated their group.
    #[cold]
    fn withdraw(&self, which: impl Fn(&Place) -> bool) {
        for place in self.places.iter().chain(&self.captured) {
            let waits = place.waits.load(Ordering::Acquire);
            if waits != 0 && which(place) {
                // If another thread took the call, or reused the slot meanwhile, that result stays.
                let _ = place
                    .waits
                    .compare_exchange(waits, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// Removes a call that the library refused.
    pub fn withdraw_call(&self, call: u64) {
        self.withdraw(|place| place.call.load(Ordering::Relaxed) == call);
    }

    /// Removes the calls of a group that will not be executed.
    pub fn withdraw_group(&self, group: u32) {
        self.withdraw(|place| place.group.load(Ordering::Relaxed) == group);
    }

    /// Removes this call and returns true if it was pending.
    pub fn take_call(&self, call: u64) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        let oldest = count.saturating_sub(PLACES as u64);
        // Searches from the newest call, because the newest is the call in progress.
        (oldest..count).rev().any(|number| {
            let place = &self.places[number as usize % PLACES];
            place.call.load(Ordering::Relaxed) == call
                && place
                    .waits
                    .compare_exchange(number + 1, 0, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        })
    }

    /// Removes and returns the oldest call that matches `asked`.
    pub fn take(&self, asked: &Asked) -> Option<u64> {
        let count = self.count.load(Ordering::Relaxed);
        let oldest = count.saturating_sub(PLACES as u64);
        for number in oldest..count {
            let place = &self.places[number as usize % PLACES];
            if place.matches(asked, number) {
                let call = place.call.load(Ordering::Relaxed);
                // The values above are those of the call that is taken below.
                fence(Ordering::Acquire);
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
    fn equal_calls_are_taken_in_order_and_others_by_their_arguments() {
        // SAFETY: zeros are a valid empty list.
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

    #[test]
    fn replays_match_the_captured_calls_in_turns() {
        // SAFETY: zeros are a valid empty list.
        let pending: Box<Pending> = unsafe { Box::new(std::mem::zeroed()) };
        for (send, call) in [(8, 1), (16, 2), (8, 3)] {
            pending.push_captured(&asked(send), call, 7);
        }
        assert_eq!(pending.take(&asked(8)), None, "nothing has run");
        for _ in 0..3 {
            // The library may report the operations of a launch in another order.
            let reported = [16, 8, 8].map(|send| pending.replay(&asked(send)));
            assert_eq!(reported, [Some(2), Some(1), Some(3)]);
        }
        assert_eq!(pending.replay(&asked(24)), None);
        pending.withdraw_call(1);
        assert_eq!(pending.replay(&asked(8)), Some(3));
        pending.withdraw_group(7);
        assert_eq!(pending.replay(&asked(8)), None);
    }
}
