//! Messages inside a collective, kept now and then as evidence about clocks: enter and leave of collectives alone
//! cannot tell a rank that is always late from a clock that is off (METRICS.md, section 4).

use crate::life;
use crate::thread::ThreadState;
use rankscope_formats::Operation;
use rankscope_formats::ranklog::record::{Record, RecordKind};

/// Messages kept per sampled collective at most, each way.
const MESSAGES: usize = 16;

/// What is needed to name the messages of one collective. Lives on the stack of the collective's hook.
pub struct Sampler {
    communicator: u32,
    operation: u8,
    tag: u32,
    /// n-th use of (operation, tag): with the fields above the collective's key.
    use_number: u32,
    sent: usize,
    pending: [(usize, i32, u64, u64); MESSAGES],
    posted: usize,
    /// Messages beyond the bound.
    pub beyond: u64,
}

impl Sampler {
    /// A sampler for one collective.
    pub const fn new(communicator: u32, operation: u8, tag: u32, use_number: u32) -> Self {
        Self { communicator, operation, tag, use_number, sent: 0, pending: [(0, 0, 0, 0); MESSAGES], posted: 0, beyond: 0 }
    }

    fn record(&self, message: Operation, peer: i32, slot: u64, ordinal: usize) -> Record {
        Record {
            operation: message as u8,
            communicator: self.communicator,
            peer,
            tag: self.tag,
            sequence: ordinal as u32,
            aux: slot,
            // The collective it belongs to: (operation, n-th use of the tag).
            object: u64::from(self.operation) << 32 | u64::from(self.use_number),
            ..Record::new(RecordKind::Evidence)
        }
    }

    /// A message goes out at `enter`.
    pub fn send(&mut self, thread: &'static ThreadState, peer: i32, slot: u64, bytes: u64, enter: u64, leave: u64) {
        if self.sent >= MESSAGES {
            self.beyond += 1;
            return;
        }
        let record = Record {
            enter_ticks: enter,
            leave_ticks: leave,
            bytes,
            ..self.record(Operation::Send, peer, slot, self.sent)
        };
        self.sent += 1;
        life::commit(thread, &record);
    }

    /// A receive is posted.
    pub fn post_receive(&mut self, buffer: usize, peer: i32, slot: u64, enter: u64) {
        if self.posted < MESSAGES {
            self.pending[self.posted] = (buffer, peer, slot, enter);
            self.posted += 1;
        } else {
            self.beyond += 1;
        }
    }

    /// A receive on `buffer` has arrived by `leave`: the earliest that is still pending there.
    pub fn received(&mut self, thread: &'static ThreadState, buffer: usize, leave: u64) {
        let found = self.pending[..self.posted].iter().position(|pending| pending.0 == buffer);
        if let Some(ordinal) = found {
            let (_, peer, slot, enter) = self.pending[ordinal];
            self.pending[ordinal].0 = 0;
            let record = Record {
                enter_ticks: enter,
                leave_ticks: leave,
                ..self.record(Operation::Receive, peer, slot, ordinal)
            };
            life::commit(thread, &record);
        }
    }
}
