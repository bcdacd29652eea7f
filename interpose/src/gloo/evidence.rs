//! Messages inside a collective, kept occasionally as evidence about clocks. Enter and leave of collectives alone
//! cannot distinguish a rank that is always late from a wrong clock offset (METRICS.md, section 4).
//!
//! The first and the last message of a sampled collective to and from each peer are kept. Both ends decide alone and
//! select the same messages, because messages between two members of a collective arrive in the order in which they
//! were sent. The first message to a late member waits for it to arrive, and proves little. When the last is sent, all
//! members have arrived.

use crate::core::life;
use crate::thread::ThreadState;
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::{Record, RecordKind};

/// Maximum number of peers whose messages are kept, in each direction. If a peer's messages arrive in several buffers,
/// each buffer uses one entry.
const PEERS: usize = 16;

/// The latest message to a peer so far.
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
    /// Number of completions of the buffer for which it is unknown whether they belong to this peer or another one.
    whose: u32,
    /// Numbers of the first and of the latest of these messages, among all messages of the peer over all buffers.
    first_number: u32,
    last_number: u32,
    /// Slots of the first and of the latest message.
    slots: [u64; 2],
    /// Time at which the receive of the first message was posted.
    enter_ticks: u64,
    /// Time by which the latest completed message had arrived.
    done_ticks: u64,
}

/// State that identifies the messages of one collective. It is on the stack of the collective's hook.
pub struct Sampler {
    communicator: u32,
    operation: u8,
    tag: u32,
    /// n of the n-th use of operation and tag. Together with the fields above it is the collective's key.
    use_number: u32,
    sent: [Sent; PEERS],
    peers_sent_to: usize,
    received: [Received; PEERS],
    receiving: usize,
    /// True once a receive was posted that is not kept. From then on a completion cannot be assigned to a peer.
    receives_are_lost: bool,
    /// Number of messages of further peers.
    pub beyond: u64,
}

impl Sampler {
    /// Creates a sampler for one collective.
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

    /// Creates the record of the n-th message to or from this peer.
    fn record(&self, message: Operation, peer: i32, slot: u64, number: u32) -> Record {
        Record {
            operation: message as u8,
            communicator: self.communicator,
            peer,
            tag: self.tag,
            sequence: number,
            aux: slot,
            // The collective that the message belongs to: operation and n-th use of the tag.
            object: u64::from(self.operation) << 32 | u64::from(self.use_number),
            ..Record::new(RecordKind::Evidence)
        }
    }

    /// Stores a sent message, and records it if it is the first to its peer.
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
        life::commit(&thread.lane, &record);
    }

    /// Stores a posted receive. `peer` is negative if it accepts a message of any peer.
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

    /// Stores that a message into `buffer` had arrived by `leave_ticks`. If several peers send into the buffer, the
    /// peer of a message is unknown. All their messages have arrived once there were as many completions as posted
    /// receives.
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
                life::commit(&thread.lane, &record);
            }
        }
    }

    /// Records the last messages of a collective that succeeded and ended at `leave_ticks`. The enter of their records
    /// is the time at which they were sent, or by which they had arrived. Records are in the order of their leaves.
    pub fn finish(&self, thread: &'static ThreadState, leave_ticks: u64) {
        let last = |message: Operation, peer: i32, slot: u64, number: u32, at_ticks: u64| {
            let record = Record {
                enter_ticks: at_ticks,
                leave_ticks,
                ..self.record(message, peer, slot, number)
            };
            life::commit(&thread.lane, &record);
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
