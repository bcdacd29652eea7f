//! Joins a point-to-point post with the wait that completes it, by buffer and direction, first in first out.

use rankscope_ranklog::Operation;
use rankscope_ranklog::record::Record;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Maximum number of ordinal counters; on overflow all are removed. A program that uses each slot only once would
/// otherwise fill the map.
const MAX_COUNTERS: usize = 1 << 20;

/// A message that was posted.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    /// Record of the post.
    pub record: Record,
    /// System id of the posting thread.
    pub thread_id: u32,
    /// Ordinal between its two ends; `None` if the post does not contain the peer.
    pub ordinal: Option<u32>,
}

/// The open messages of one log.
#[derive(Default)]
pub struct Messages {
    open: FxHashMap<(u64, u8), VecDeque<Posted>>,
    ordinals: FxHashMap<(u32, u8, i32, u64), u32>,
    /// True once counters were removed: later ordinals may be wrong.
    pub counters_forgotten: bool,
}

impl Messages {
    /// Returns the next ordinal of a message between two ends.
    pub fn next_ordinal(&mut self, communicator: u32, operation: Operation, peer: i32, slot: u64) -> u32 {
        if self.ordinals.len() >= MAX_COUNTERS {
            self.ordinals.clear();
            self.counters_forgotten = true;
        }
        let next = self
            .ordinals
            .entry((communicator, operation as u8, peer, slot))
            .or_insert(0);
        *next += 1;
        *next - 1
    }

    /// Records a post.
    pub fn posted(&mut self, operation: Operation, posted: Posted) {
        self.open
            .entry((posted.record.object, operation as u8))
            .or_default()
            .push_back(posted);
    }

    /// Returns the message that a completed wait on a buffer belongs to, if its post is known.
    pub fn completed(&mut self, operation: Operation, object: u64) -> Option<Posted> {
        let key = (object, operation as u8);
        let queue = self.open.get_mut(&key)?;
        let posted = queue.pop_front();
        // Not all addresses are reused, so empty queues are removed.
        if queue.is_empty() && self.open.len() > 4096 {
            self.open.remove(&key);
        }
        posted
    }

    /// Returns the messages that were posted and never waited for, in order of their posts.
    pub fn finish(&mut self) -> Vec<Posted> {
        let mut rest: Vec<Posted> = self.open.drain().flat_map(|(_, queue)| queue).collect();
        rest.sort_by_key(|posted| (posted.record.enter_ticks, posted.record.object));
        rest
    }
}
