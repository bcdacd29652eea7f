//! Sample of a rank's first steps: its messages, and its usage of communicators.

use crate::identity::Identities;
use crate::model::operation::{NO_COMMUNICATOR, NO_STEP, NO_TIME, RankOperation};
use crate::rank::{RankBatch, RankReader, StepCut};
use rankscope_formats::ids::{CommunicatorId, RankIndex, StepIndex};
use rankscope_formats::session::OperationState;
use rankscope_ranklog::{Operation, Pattern};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of records of a sample. A rank that hardly communicates must not cost a whole pass.
const MOST_RECORDS: u64 = 1 << 18;
/// Maximum number of distinct sizes per communicator.
const MAX_SIZES: usize = 256;

/// One end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Time at which it was issued (a send) or received (a receive), in ns. Operations that it depends on are earlier.
    pub at_ns: i64,
    /// The other end, as an index into the session's ranks.
    pub peer: RankIndex,
    /// True if this end is the sender.
    pub is_send: bool,
    /// Size in bytes.
    pub bytes: u64,
    /// Step, or [`NO_STEP`].
    pub step: StepIndex,
}

/// Usage of a communicator by a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of messages.
    pub messages: u64,
    /// Number of collectives by operation.
    pub collectives: BTreeMap<Operation, u64>,
    /// Number of times that collectives on it begin after other operations.
    pub bursts: u64,
    /// Distinct sizes of the results of its reduce-scatters.
    pub scattered: BTreeSet<u64>,
    /// Distinct sizes of its all-reduces.
    pub reduced: BTreeSet<u64>,
}

impl Usage {
    /// Returns the number of collectives.
    pub fn calls(&self) -> u64 {
        self.collectives.values().sum()
    }
}

/// Sample of a rank.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Messages in order of time.
    pub messages: Vec<Message>,
    /// Usage by index of the communicator in the session.
    pub usage: BTreeMap<CommunicatorId, Usage>,
    /// Number of whole steps in the sample.
    pub steps: u32,
}

impl Sample {
    /// Reads until `most` operations are sampled.
    pub fn read(reader: &mut RankReader<'_>, identities: &Identities, most: usize) -> Self {
        let mut sample = Self::default();
        let mut batch = RankBatch::default();
        let mut last = NO_COMMUNICATOR;
        let mut seen = 0;
        let mut steps: BTreeSet<StepIndex> = BTreeSet::new();
        let mut cuts: Vec<StepCut> = Vec::new();
        while seen < most && reader.records() < MOST_RECORDS && reader.advance(&mut batch) {
            for operation in &batch.operations {
                if seen >= most {
                    break;
                }
                if is_counted(operation) {
                    seen += 1;
                    if operation.step != NO_STEP {
                        steps.insert(operation.step);
                    }
                    sample.take(operation, identities, &mut last);
                }
            }
            cuts.append(&mut batch.steps);
        }
        sample.put_into_steps(&cuts);
        // The last step is cut off.
        if let (true, Some(&cut)) = (seen >= most, steps.last()) {
            steps.remove(&cut);
            sample.messages.retain(|message| message.step != cut);
        }
        sample.steps = steps.len() as u32;
        sample.messages.sort_by_key(|message| message.at_ns);
        sample
    }

    /// Assigns messages to steps. Operations arrive in the order of their completion, and a send may complete after the
    /// end of its step. A message belongs to the step in which it was issued or received.
    fn put_into_steps(&mut self, cuts: &[StepCut]) {
        for message in &mut self.messages {
            let at = cuts.partition_point(|cut| cut.end_ns < message.at_ns);
            let cut = cuts.get(at).filter(|cut| cut.start_ns < message.at_ns);
            message.step = cut.map_or(NO_STEP, |cut| cut.step);
        }
    }

    fn take(&mut self, operation: &RankOperation, identities: &Identities, last: &mut CommunicatorId) {
        let communicator = operation.communicator;
        let usage = self.usage.entry(communicator).or_default();
        if operation.is_message() {
            usage.messages += 1;
            *last = NO_COMMUNICATOR;
            if let Some(message) = message(operation, identities) {
                self.messages.push(message);
            }
            return;
        }
        usage.bursts += u64::from(std::mem::replace(last, communicator) != communicator);
        *usage.collectives.entry(operation.operation).or_default() += 1;
        let sizes = match operation.operation {
            Operation::ReduceScatter => &mut usage.scattered,
            Operation::AllReduce => &mut usage.reduced,
            _ => return,
        };
        if let Some(bytes) = operation.known_bytes().filter(|_| sizes.len() < MAX_SIZES) {
            sizes.insert(bytes);
        }
    }

    /// Returns the ranks with which the rank exchanges messages.
    pub fn peers(&self) -> impl Iterator<Item = RankIndex> {
        let peers: BTreeSet<RankIndex> = self.messages.iter().map(|message| message.peer).collect();
        peers.into_iter()
    }
}

/// Returns true for operations that ran or were enqueued.
pub fn is_counted(operation: &RankOperation) -> bool {
    operation.has_key()
        && matches!(
            operation.state,
            OperationState::Completed | OperationState::Enqueued
        )
        && !matches!(operation.operation.pattern(), Pattern::OneSided)
}

/// Returns the end of a message, if its other end is a known rank.
pub fn message(operation: &RankOperation, identities: &Identities) -> Option<Message> {
    if !operation.is_message() {
        return None;
    }
    let known = identities.communicators.get(operation.communicator.index())?;
    let peer = (*known.members.get(usize::try_from(operation.peer).ok()?)?)?;
    let is_send = operation.operation == Operation::Send;
    let has_come = (!is_send && operation.leave_ns != NO_TIME).then_some(operation.leave_ns);
    (peer != operation.rank).then(|| Message {
        at_ns: has_come.unwrap_or(operation.arrival_ns()),
        peer,
        is_send,
        bytes: operation.known_bytes().unwrap_or(0),
        step: operation.step,
    })
}
