//! Messages inside a collective, kept now and then as evidence about clocks: enter and leave of collectives alone
//! cannot tell a rank that is always late from a clock that is off (METRICS.md, section 4).
//!
//! Of a sampled collective the first message to and from each peer is kept: both ends decide alone and come to the
//! same message, because messages between two members of a collective arrive in the order in which they were sent.

use crate::life;
use crate::thread::ThreadState;
use rankscope_formats::Operation;
use rankscope_formats::ranklog::record::{Record, RecordKind};

/// Peers whose first message is kept, each way.
const PEERS: usize = 16;

#[derive(Clone, Copy)]
struct Pending {
    buffer: usize,
    peer: i32,
    slot: u64,
    enter_ticks: u64,
    /// A message from this peer has arrived, or its buffer was waited for by others.
    done: bool,
}

/// What is needed to name the messages of one collective. Lives on the stack of the collective's hook.
pub struct Sampler {
    communicator: u32,
    operation: u8,
    tag: u32,
    /// n-th use of (operation, tag): with the fields above the collective's key.
    use_number: u32,
    sent_to: [i32; PEERS],
    sent: usize,
    received_from: [Pending; PEERS],
    posted: usize,
    /// First messages of further peers.
    pub beyond: u64,
}

impl Sampler {
    /// A sampler for one collective.
    #[inline]
    pub const fn new(communicator: u32, operation: u8, tag: u32, use_number: u32) -> Self {
        Self {
            communicator,
            operation,
            tag,
            use_number,
            sent_to: [-1; PEERS],
            sent: 0,
            received_from: [Pending {
                buffer: 0,
                peer: -1,
                slot: 0,
                enter_ticks: 0,
                done: true,
            }; PEERS],
            posted: 0,
            beyond: 0,
        }
    }

    fn record(&self, message: Operation, peer: i32, slot: u64) -> Record {
        Record {
            operation: message as u8,
            communicator: self.communicator,
            peer,
            tag: self.tag,
            aux: slot,
            // The collective it belongs to: (operation, n-th use of the tag).
            object: u64::from(self.operation) << 32 | u64::from(self.use_number),
            ..Record::new(RecordKind::Evidence)
        }
    }

    /// A message goes out at `enter_ticks`.
    pub fn send(
        &mut self,
        thread: &'static ThreadState,
        peer: i32,
        slot: u64,
        enter_ticks: u64,
        leave_ticks: u64,
    ) {
        if self.sent_to[..self.sent].contains(&peer) {
            return;
        }
        if self.sent == PEERS {
            self.beyond += 1;
            return;
        }
        self.sent_to[self.sent] = peer;
        self.sent += 1;
        life::commit(
            thread,
            &Record {
                enter_ticks,
                leave_ticks,
                ..self.record(Operation::Send, peer, slot)
            },
        );
    }

    /// A receive is posted.
    pub fn post_receive(&mut self, buffer: usize, peer: i32, slot: u64, enter_ticks: u64) {
        if self.received_from[..self.posted]
            .iter()
            .any(|pending| pending.peer == peer)
        {
            return;
        }
        if self.posted == PEERS {
            self.beyond += 1;
            return;
        }
        self.received_from[self.posted] = Pending {
            buffer,
            peer,
            slot,
            enter_ticks,
            done: false,
        };
        self.posted += 1;
    }

    /// A receive on `buffer` has arrived by `leave_ticks`: the earliest posted there, and the first from its peer.
    pub fn received(&mut self, thread: &'static ThreadState, buffer: usize, leave_ticks: u64) {
        let found = self.received_from[..self.posted]
            .iter()
            .position(|pending| pending.buffer == buffer && !pending.done);
        if let Some(at) = found {
            self.received_from[at].done = true;
            let Pending {
                peer,
                slot,
                enter_ticks,
                ..
            } = self.received_from[at];
            life::commit(
                thread,
                &Record {
                    enter_ticks,
                    leave_ticks,
                    ..self.record(Operation::Receive, peer, slot)
                },
            );
        }
    }
}
