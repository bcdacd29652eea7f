//! Point-to-point messages: a post joined with the wait that completes it, on (buffer, direction), first in first out.

use rankscope_ranklog::Operation;
use rankscope_ranklog::record::Record;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Counters of message ends kept at once. A program that uses every slot once would fill the map.
const MOST_COUNTERS: usize = 1 << 20;

/// A message that was posted.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    /// Its record.
    pub record: Record,
    /// System id of the thread that posted it.
    pub thread_id: u32,
    /// n-th between its two ends, where the peer is known at the post.
    pub ordinal: Option<u32>,
}

/// The open messages of one log.
#[derive(Default)]
pub struct Messages {
    open: FxHashMap<(u64, u8), VecDeque<Posted>>,
    ordinals: FxHashMap<(u32, u8, i32, u64), u32>,
    /// True once counters were forgotten: later ordinals may be wrong.
    pub counters_forgotten: bool,
}

impl Messages {
    /// The next ordinal of a message between two ends.
    pub fn next_ordinal(&mut self, communicator: u32, operation: Operation, peer: i32, slot: u64) -> u32 {
        if self.ordinals.len() >= MOST_COUNTERS {
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

    /// A message was posted.
    pub fn posted(&mut self, operation: Operation, posted: Posted) {
        self.open
            .entry((posted.record.object, operation as u8))
            .or_default()
            .push_back(posted);
    }

    /// A wait on a buffer ended: the message it completes, if its post is known.
    pub fn completed(&mut self, operation: Operation, object: u64) -> Option<Posted> {
        let key = (object, operation as u8);
        let queue = self.open.get_mut(&key)?;
        let posted = queue.pop_front();
        // Addresses are used again, but not for ever: an empty queue must not stay behind for each.
        if queue.is_empty() && self.open.len() > 4096 {
            self.open.remove(&key);
        }
        posted
    }

    /// Messages that were posted and never waited for, in order of their posts.
    pub fn finish(&mut self) -> Vec<Posted> {
        let mut rest: Vec<Posted> = self.open.drain().flat_map(|(_, queue)| queue).collect();
        rest.sort_by_key(|posted| (posted.record.enter_ticks, posted.record.object));
        rest
    }
}
