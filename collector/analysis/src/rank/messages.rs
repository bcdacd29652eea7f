//! Joins a point-to-point post with the wait that completes it, by buffer and direction, first in first out.

use super::context::LogContext;
use super::event::{Complete, Post, Stamp};
use crate::model::log_communicator::LogCommunicator;
use crate::model::operation::{Blocked, NO_TIME, RankOperation};
use rankscope_formats::ids::CommunicatorId;
use rankscope_formats::session::OperationState;
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::FLAG_FAILED;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of ordinal counters; on overflow all are removed. A program that uses each slot only once would
/// otherwise fill the map.
const MAX_COUNTERS: usize = 1 << 20;
/// Number of buffers above which those without open messages are removed, because not all addresses are reused.
const MANY_BUFFERS: usize = 4096;

/// A message that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Posted {
    post: Post,
    /// System id of the posting thread.
    thread_id: u32,
    /// Ordinal between its two ends; `None` if the post does not contain the peer.
    ordinal: Option<u32>,
}

/// A buffer that is sent from or received into.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Buffer {
    address: u64,
    operation: u8,
}

/// The two ends of messages that are counted together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Ends {
    communicator: CommunicatorId,
    operation: u8,
    peer: i32,
    slot: u64,
}

/// Messages of an earlier part of a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CarriedMessages {
    /// Number of messages between two ends: communicator in the log, operation, peer, slot, and number.
    counts: Vec<(LogCommunicator, u8, i32, u64, u32)>,
    /// Messages that did not complete, with their operations, in order of their posts.
    open: Vec<(u8, Posted)>,
}

impl CarriedMessages {
    /// Removes the message of a completion that was stored late.
    pub fn completed_late(&mut self, complete: &Complete) {
        let Some(operation) = complete.operation.map(|operation| operation as u8) else {
            return;
        };
        let is_it = |(of, posted): &(u8, Posted)| *of == operation && posted.post.buffer == complete.buffer;
        if let Some(oldest) = self.open.iter().position(is_it) {
            self.open.remove(oldest);
        }
    }

    /// Counts a post that was stored late: it belongs to the earlier part of the log.
    pub fn posted_late(&mut self, post: &Post, thread_id: u32) {
        let fields = &post.fields;
        let mut ordinal = None;
        if fields.peer >= 0 {
            let is_it = |entry: &&mut (LogCommunicator, u8, i32, u64, u32)| {
                let (communicator, operation, peer, slot, _) = **entry;
                (communicator, operation, peer, slot)
                    == (fields.communicator, fields.operation, fields.peer, post.slot)
            };
            ordinal = match self.counts.iter_mut().find(is_it) {
                Some((.., count)) => {
                    *count += 1;
                    Some(*count - 1)
                }
                None => {
                    self.counts
                        .push((fields.communicator, fields.operation, fields.peer, post.slot, 1));
                    Some(0)
                }
            };
        }
        if !fields.has_failed() {
            let posted = Posted {
                post: *post,
                thread_id,
                ordinal,
            };
            self.open.push((fields.operation, posted));
        }
    }
}

/// The open messages of one log.
#[derive(Clone, Default)]
pub struct Messages {
    open: FxHashMap<Buffer, VecDeque<Posted>>,
    ordinals: FxHashMap<Ends, u32>,
    /// True once counters were removed: later ordinals may be wrong.
    pub counters_forgotten: bool,
}

impl Messages {
    /// Forgets open messages that were posted before a tick.
    pub fn forget_before(&mut self, ticks: u64) {
        self.open.retain(|_, queue| {
            queue.retain(|posted| posted.post.enter_ticks >= ticks);
            !queue.is_empty()
        });
    }

    /// Returns what a later part of the log needs. `numbers` are the log's numbers of communicators.
    pub fn carried(&self, numbers: &BTreeMap<CommunicatorId, LogCommunicator>) -> CarriedMessages {
        let count = |(ends, &count): (&Ends, &u32)| {
            let number = *numbers.get(&ends.communicator)?;
            Some((number, ends.operation, ends.peer, ends.slot, count))
        };
        let mut counts: Vec<_> = self.ordinals.iter().filter_map(count).collect();
        counts.sort_unstable();
        let queues = self.open.iter();
        let mut open: Vec<(u8, Posted)> = queues
            .flat_map(|(buffer, queue)| queue.iter().map(|posted| (buffer.operation, *posted)))
            .collect();
        open.sort_by_key(|(operation, posted)| (posted.post.enter_ticks, *operation, posted.post.buffer));
        CarriedMessages { counts, open }
    }

    /// Goes on after an earlier part of the log. `index_of` returns the session's index of a communicator.
    pub fn resume(
        &mut self,
        carried: &CarriedMessages,
        index_of: impl Fn(LogCommunicator) -> CommunicatorId,
    ) {
        for &(number, operation, peer, slot, count) in &carried.counts {
            let ends = Ends {
                communicator: index_of(number),
                operation,
                peer,
                slot,
            };
            // Several numbers in the log may be one communicator.
            *self.ordinals.entry(ends).or_insert(0) += count;
        }
        for &(operation, posted) in &carried.open {
            let buffer = Buffer {
                address: posted.post.buffer,
                operation,
            };
            self.open.entry(buffer).or_default().push_back(posted);
        }
    }

    /// Returns the next ordinal of a message between two ends.
    fn next_ordinal(&mut self, ends: Ends) -> u32 {
        if self.ordinals.len() >= MAX_COUNTERS {
            self.ordinals.clear();
            self.counters_forgotten = true;
        }
        let next = self.ordinals.entry(ends).or_insert(0);
        *next += 1;
        *next - 1
    }

    /// Adds a post.
    pub fn posted(&mut self, mut post: Post, operation: Operation, thread_id: u32, context: &LogContext<'_>) {
        if context.lacks_earlier() {
            // The number of earlier ones is unknown.
            post.fields.forget_sequence();
        }
        let ordinal = (post.fields.peer >= 0).then(|| {
            self.next_ordinal(Ends {
                communicator: context.communicator(post.fields.communicator).index,
                operation: operation as u8,
                peer: post.fields.peer,
                slot: post.slot,
            })
        });
        // A post that threw an exception never completes, but its ordinal is used.
        if !post.fields.has_failed() {
            let buffer = Buffer {
                address: post.buffer,
                operation: operation as u8,
            };
            self.open.entry(buffer).or_default().push_back(Posted {
                post,
                thread_id,
                ordinal,
            });
        }
    }

    /// Returns the message that a wait completes, if its post is known.
    pub fn completed(
        &mut self,
        complete: &Complete,
        stamp: &Stamp,
        context: &LogContext<'_>,
    ) -> Option<RankOperation> {
        let operation = complete.operation? as u8;
        let posted = self.oldest(Buffer {
            address: complete.buffer,
            operation,
        })?;
        let mut message = posted.message(stamp.leave_ns, context);
        if message.peer < 0 && complete.peer >= 0 {
            message.peer = complete.peer;
            message.sequence = self.next_ordinal(Ends {
                communicator: message.communicator,
                operation,
                peer: complete.peer,
                slot: posted.post.slot,
            });
        }
        if complete.has_failed {
            message.flags |= FLAG_FAILED;
            message.state = OperationState::Failed;
        }
        message.blocked = Blocked::one(stamp.enter_ns, stamp.leave_ns);
        Some(message)
    }

    /// Removes the oldest open message of a buffer.
    fn oldest(&mut self, buffer: Buffer) -> Option<Posted> {
        let queue = self.open.get_mut(&buffer)?;
        let posted = queue.pop_front();
        if queue.is_empty() && self.open.len() > MANY_BUFFERS {
            self.open.remove(&buffer);
        }
        posted
    }

    /// Returns the messages that were posted and never waited for, in order of their posts.
    pub fn finish(&mut self, context: &LogContext<'_>) -> Vec<RankOperation> {
        let mut rest: Vec<Posted> = self.open.drain().flat_map(|(_, queue)| queue).collect();
        rest.sort_by_key(|posted| (posted.post.enter_ticks, posted.post.buffer));
        let in_flight = |posted: Posted| RankOperation {
            state: OperationState::InFlight,
            ..posted.message(NO_TIME, context)
        };
        rest.into_iter().map(in_flight).collect()
    }
}

impl Posted {
    fn message(&self, leave_ns: i64, context: &LogContext<'_>) -> RankOperation {
        let enter_ns = context.line.ns(self.post.enter_ticks);
        RankOperation {
            sequence: self.ordinal.unwrap_or(0),
            ..context.operation(&self.post.fields, self.thread_id, enter_ns, leave_ns)
        }
    }
}
