//! What the first steps of a rank show: with whom it exchanges messages, and how it uses its communicators.

use crate::identity::Identities;
use crate::model::operation::{NO_COMMUNICATOR, NO_STEP, NO_TIME, RankOperation};
use crate::rank::{RankBatch, RankReader, StepCut};
use rankscope_formats::session::OperationState;
use rankscope_ranklog::{Operation, Pattern};
use std::collections::{BTreeMap, BTreeSet};

/// Records that are read at most for a sample: a rank that hardly communicates must not cost a whole pass.
const MOST_RECORDS: u64 = 1 << 18;
/// Different sizes that are remembered of a communicator.
const MOST_SIZES: usize = 256;

/// One end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When it was asked for (a send) or had come (a receive), ns: what it depends on lies before.
    pub at_ns: i64,
    /// The other end: position in the session's ranks.
    pub peer: u32,
    /// This end sent it.
    pub is_send: bool,
    /// Its size.
    pub bytes: u64,
    /// Step, [`NO_STEP`] if in none.
    pub step: u32,
}

/// How a rank uses a communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Messages.
    pub messages: u64,
    /// Collectives by operation.
    pub collectives: BTreeMap<Operation, u64>,
    /// How often collectives begin on it after something else.
    pub bursts: u64,
    /// Sizes of its reduce-scatters' results.
    pub scattered: BTreeSet<u64>,
    /// Sizes of its all-reduces, of so many.
    pub reduced: BTreeSet<u64>,
}

impl Usage {
    /// Collectives of all kinds.
    pub fn calls(&self) -> u64 {
        self.collectives.values().sum()
    }
}

/// What was sampled of a rank.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Its messages in order of time.
    pub messages: Vec<Message>,
    /// By position of the communicator in the session.
    pub usage: BTreeMap<u32, Usage>,
    /// Whole steps in the sample.
    pub steps: u32,
}

impl Sample {
    /// Reads until `most` operations were seen.
    pub fn read(reader: &mut RankReader<'_>, identities: &Identities, most: usize) -> Self {
        let mut sample = Self::default();
        let mut batch = RankBatch::default();
        let mut last = NO_COMMUNICATOR;
        let mut seen = 0;
        let mut steps: BTreeSet<u32> = BTreeSet::new();
        let mut cuts: Vec<StepCut> = Vec::new();
        while seen < most && reader.sums.records < MOST_RECORDS && reader.advance(&mut batch) {
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
        // The last one is cut off.
        if let (true, Some(&cut)) = (seen >= most, steps.last()) {
            steps.remove(&cut);
            sample.messages.retain(|message| message.step != cut);
        }
        sample.steps = steps.len() as u32;
        sample.messages.sort_by_key(|message| message.at_ns);
        sample
    }

    /// Operations are told in the order in which they were left, and a send may be waited for after the end of its step:
    /// a message is of the step in which it was asked for, or had come.
    fn put_into_steps(&mut self, cuts: &[StepCut]) {
        for message in &mut self.messages {
            let at = cuts.partition_point(|cut| cut.end_ns < message.at_ns);
            let cut = cuts.get(at).filter(|cut| cut.start_ns < message.at_ns);
            message.step = cut.map_or(NO_STEP, |cut| cut.step);
        }
    }

    fn take(&mut self, operation: &RankOperation, identities: &Identities, last: &mut u32) {
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
        if let Some(bytes) = operation.known_bytes().filter(|_| sizes.len() < MOST_SIZES) {
            sizes.insert(bytes);
        }
    }

    /// Ranks with which it exchanges messages.
    pub fn peers(&self) -> impl Iterator<Item = u32> {
        let peers: BTreeSet<u32> = self.messages.iter().map(|message| message.peer).collect();
        peers.into_iter()
    }
}

/// True for what ran, or was put on a stream.
pub fn is_counted(operation: &RankOperation) -> bool {
    operation.has_key()
        && matches!(
            operation.state,
            OperationState::Completed | OperationState::Enqueued
        )
        && !matches!(operation.operation.pattern(), Pattern::OneSided)
}

/// A message's end, if its other end is a rank that is known.
pub fn message(operation: &RankOperation, identities: &Identities) -> Option<Message> {
    if !operation.is_message() {
        return None;
    }
    let known = identities.communicators.get(operation.communicator as usize)?;
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
