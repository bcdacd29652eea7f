//! Messages inside a collective, kept now and then as evidence about clocks: enter and leave of collectives alone
//! cannot tell a rank that is always late from a clock that is off (METRICS.md, section 4).
//!
//! Of a sampled collective the first and the last message to and from each peer are kept: both ends decide alone and
//! come to the same messages, because messages between two members of a collective arrive in the order in which they
//! were sent. The first to a late member waits for it to come, and says little; when the last is sent all have come.

use crate::core::life;
use crate::core::thread::ThreadState;
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::{Record, RecordKind};

/// Peers whose messages are kept, each way; of those that come in on several buffers, fewer.
const PEERS: usize = 16;

/// The last message to a peer so far.
#[derive(Clone, Copy)]
struct Sent {
    peer: i32,
    count: u32,
    slot: u64,
    enter_ticks: u64,
}

/// The messages of one peer into one buffer.
#[derive(Clone, Copy)]
struct Received {
    buffer: usize,
    peer: i32,
    posted: u32,
    done: u32,
    /// Completions of the buffer of which it is not known whether they are this peer's or another's.
    whose: u32,
    /// Number of the first and of the latest among the peer's messages, over all buffers.
    first_number: u32,
    last_number: u32,
    /// Slot of the first and of the latest.
    slots: [u64; 2],
    /// When the first was posted.
    enter_ticks: u64,
    /// By when the latest that is done had arrived.
    done_ticks: u64,
}

/// What is needed to name the messages of one collective. Lives on the stack of the collective's hook.
pub struct Sampler {
    communicator: u32,
    operation: u8,
    tag: u32,
    /// n-th use of (operation, tag): with the fields above the collective's key.
    use_number: u32,
    sent: [Sent; PEERS],
    peers_sent_to: usize,
    received: [Received; PEERS],
    receiving: usize,
    /// A receive was posted of which nothing is kept: whose a completion is cannot be told any more.
    receives_are_lost: bool,
    /// Messages of further peers.
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
            sent: [Sent {
                peer: -1,
                count: 0,
                slot: 0,
                enter_ticks: 0,
            }; PEERS],
            peers_sent_to: 0,
            received: [Received {
                buffer: 0,
                peer: -1,
                posted: 0,
                done: 0,
                whose: 0,
                first_number: 0,
                last_number: 0,
                slots: [0; 2],
                enter_ticks: 0,
                done_ticks: 0,
            }; PEERS],
            receiving: 0,
            receives_are_lost: false,
            beyond: 0,
        }
    }

    /// The n-th message to or from this peer.
    fn record(&self, message: Operation, peer: i32, slot: u64, number: u32) -> Record {
        Record {
            operation: message as u8,
            communicator: self.communicator,
            peer,
            tag: self.tag,
            sequence: number,
            aux: slot,
            // The collective it belongs to: (operation, n-th use of the tag).
            object: u64::from(self.operation) << 32 | u64::from(self.use_number),
            ..Record::new(RecordKind::Evidence)
        }
    }

    /// A message went out.
    pub fn send(
        &mut self,
        thread: &'static ThreadState,
        peer: i32,
        slot: u64,
        enter_ticks: u64,
        leave_ticks: u64,
    ) {
        let known = &mut self.sent[..self.peers_sent_to];
        if let Some(sent) = known.iter_mut().find(|sent| sent.peer == peer) {
            sent.count += 1;
            (sent.slot, sent.enter_ticks) = (slot, enter_ticks);
            return;
        }
        let Some(free) = self.sent.get_mut(self.peers_sent_to) else {
            self.beyond += 1;
            return;
        };
        *free = Sent {
            peer,
            count: 1,
            slot,
            enter_ticks,
        };
        self.peers_sent_to += 1;
        let record = Record {
            enter_ticks,
            leave_ticks,
            ..self.record(Operation::Send, peer, slot, 0)
        };
        life::commit(thread, &record);
    }

    /// A receive is posted; the peer is below 0 if anybody's message will do.
    pub fn post_receive(&mut self, buffer: usize, peer: i32, slot: u64, enter_ticks: u64) {
        let known = &mut self.received[..self.receiving];
        let of_peer = known.iter().filter(|received| received.peer == peer);
        let number = of_peer.map(|received| received.posted).sum();
        if let Some(received) = known
            .iter_mut()
            .find(|received| received.peer == peer && received.buffer == buffer)
        {
            received.posted += 1;
            received.last_number = number;
            received.slots[1] = slot;
            return;
        }
        match self.received.get_mut(self.receiving) {
            Some(free) if peer >= 0 => {
                *free = Received {
                    buffer,
                    peer,
                    posted: 1,
                    done: 0,
                    whose: 0,
                    first_number: number,
                    last_number: number,
                    slots: [slot; 2],
                    enter_ticks,
                    done_ticks: 0,
                };
                self.receiving += 1;
            }
            _ => {
                self.beyond += 1;
                self.receives_are_lost = true;
            }
        }
    }

    /// A message into `buffer` had arrived by `leave_ticks`. Where several peers send into it nobody tells whose: all of
    /// theirs are known to be there once there are as many as were posted.
    pub fn received(&mut self, thread: &'static ThreadState, buffer: usize, leave_ticks: u64) {
        if self.receives_are_lost {
            return;
        }
        let is_open = |received: &Received| received.buffer == buffer && received.done < received.posted;
        let (mut open, mut missing, mut first) = (0, 0, None);
        for (at, received) in self.received[..self.receiving].iter().enumerate() {
            if is_open(received) {
                open += 1;
                missing += received.posted - received.done;
                first = first.or(Some(at));
            }
        }
        let Some(first) = first else { return };
        if open > 1 && self.received[first].whose + 1 < missing {
            self.received[first].whose += 1;
            return;
        }
        self.received[first].whose = 0;
        for at in first..self.receiving {
            if !is_open(&self.received[at]) {
                continue;
            }
            let received = &mut self.received[at];
            let is_first = received.done == 0 && received.first_number == 0;
            received.done = if open > 1 {
                received.posted
            } else {
                received.done + 1
            };
            received.done_ticks = leave_ticks;
            let Received {
                peer,
                slots: [slot, _],
                enter_ticks,
                ..
            } = *received;
            if is_first {
                let record = Record {
                    enter_ticks,
                    leave_ticks,
                    ..self.record(Operation::Receive, peer, slot, 0)
                };
                life::commit(thread, &record);
            }
        }
    }

    /// The collective ended well, at `leave_ticks`: so do its last messages, of which the record's enter says when they
    /// were sent, or by when they had arrived. Records stand in the order in which they are left.
    pub fn finish(&self, thread: &'static ThreadState, leave_ticks: u64) {
        let last = |message: Operation, peer: i32, slot: u64, number: u32, at_ticks: u64| {
            let record = Record {
                enter_ticks: at_ticks,
                leave_ticks,
                ..self.record(message, peer, slot, number)
            };
            life::commit(thread, &record);
        };
        for sent in self.sent[..self.peers_sent_to]
            .iter()
            .filter(|sent| sent.count > 1)
        {
            last(
                Operation::Send,
                sent.peer,
                sent.slot,
                sent.count - 1,
                sent.enter_ticks,
            );
        }
        if self.receives_are_lost {
            return;
        }
        let received = &self.received[..self.receiving];
        for one in received {
            let of_peer = received.iter().filter(|other| other.peer == one.peer);
            let count: u32 = of_peer.map(|other| other.posted).sum();
            if count > 1 && one.last_number == count - 1 && one.done == one.posted {
                last(
                    Operation::Receive,
                    one.peer,
                    one.slots[1],
                    count - 1,
                    one.done_ticks,
                );
            }
        }
    }
}
