//! Anchors: the operations that end the steps of a rank.
//!
//! All ranks of a world have the same number of anchors. Step k is between anchors k and k + 1.

use crate::model::operation::{NO_COMMUNICATOR, RankOperation};
use rankscope_formats::ids::{CommunicatorId, StepIndex};
use rankscope_formats::session::StepKind;
use rankscope_ranklog::{Operation, Pattern};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of consecutive anchors that a rank may have lost while later ones are still recognised.
const LOST_ANCHORS: usize = 64;

/// Number of an anchor in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(transparent)]
pub struct AnchorNumber(u32);

impl AnchorNumber {
    /// Returns the anchor that ends a step.
    pub const fn ending(step: StepIndex) -> Self {
        Self(step.0.saturating_add(1))
    }

    /// Returns the step that begins with the anchor.
    pub const fn step_after(self) -> StepIndex {
        StepIndex(self.0)
    }

    /// Returns the anchor after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Key of an operation that ends a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    pub(crate) communicator: CommunicatorId,
    #[serde(with = "operation_number")]
    pub(crate) operation: Operation,
    /// Other rank of a message; otherwise −1.
    pub(crate) peer: i32,
    pub(crate) tag: u32,
    pub(crate) sequence: u32,
}

impl Key {
    pub(crate) fn of(operation: &RankOperation) -> Self {
        Self {
            communicator: operation.communicator,
            operation: operation.operation,
            peer: if operation.is_message() {
                operation.peer
            } else {
                -1
            },
            tag: operation.tag,
            sequence: operation.sequence,
        }
    }
}

/// Operations as their numbers in logs. The crate of the log format does without serde, because jobs load it.
mod operation_number {
    use super::Operation;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    // The signatures are those that serde calls.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub fn serialize<S: Serializer>(operation: &Operation, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u8(*operation as u8)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Operation, D::Error> {
        let number = u8::deserialize(from)?;
        Operation::from_u8(number)
            .ok_or_else(|| D::Error::custom(format!("no operation has number {number}")))
    }
}

/// A run of keys whose tag and sequence number increase by constant amounts. A run of any length is one entry.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Run {
    first: Key,
    tag_step: u32,
    sequence_step: u32,
    count: u32,
    /// Number of anchors before this run.
    before: u32,
}

impl Run {
    fn key(&self, at: u32) -> Key {
        Key {
            tag: self.first.tag.wrapping_add(self.tag_step.wrapping_mul(at)),
            sequence: self
                .first
                .sequence
                .wrapping_add(self.sequence_step.wrapping_mul(at)),
            ..self.first
        }
    }
}

/// The anchors of a world in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AnchorList {
    runs: Vec<Run>,
    /// Numbers of the anchors that end a step other than a training step, in order.
    others: Vec<(AnchorNumber, StepKind)>,
}

impl AnchorList {
    /// Appends an anchor that ends a step of another kind than training.
    pub(crate) fn push_other(&mut self, key: Key, kind: StepKind) {
        self.others.push((AnchorNumber(self.len()), kind));
        self.push(key);
    }

    /// Returns the kind of step that an anchor ends.
    pub(crate) fn kind(&self, number: AnchorNumber) -> StepKind {
        let at = self.others.binary_search_by_key(&number, |&(other, _)| other);
        at.map_or(StepKind::Train, |at| self.others[at].1)
    }

    /// Copies the kinds of steps from another rank's anchors, which have the same numbers.
    pub(crate) fn take_kinds(&mut self, other: &Self) {
        self.others.clone_from(&other.others);
    }

    /// Appends a placeholder for an anchor that this rank lacks, so that later anchors keep their numbers.
    pub(crate) fn push_missing(&mut self) {
        self.push(Key {
            communicator: NO_COMMUNICATOR,
            operation: Operation::Unknown,
            peer: -1,
            tag: 0,
            sequence: 0,
        });
    }

    /// Returns the communicators whose members all have these anchors. Returns `None` if an anchor is a message,
    /// because its other end has a different key.
    pub fn communicators(&self) -> Option<BTreeSet<CommunicatorId>> {
        let mut known = self
            .runs
            .iter()
            .filter(|run| run.first.communicator != NO_COMMUNICATOR);
        let has_message = known
            .clone()
            .any(|run| run.first.operation.pattern() == Pattern::PointToPoint);
        (!has_message).then(|| known.by_ref().map(|run| run.first.communicator).collect())
    }

    pub(crate) fn push(&mut self, key: Key) {
        let Some(last) = self.runs.last_mut() else {
            self.runs.push(Run {
                first: key,
                tag_step: 0,
                sequence_step: 0,
                count: 1,
                before: 0,
            });
            return;
        };
        let alike = last.first.communicator == key.communicator
            && last.first.operation == key.operation
            && last.first.peer == key.peer;
        if alike && last.count == 1 {
            last.tag_step = key.tag.wrapping_sub(last.first.tag);
            last.sequence_step = key.sequence.wrapping_sub(last.first.sequence);
        }
        if alike && last.key(last.count) == key {
            last.count += 1;
        } else {
            let before = last.before + last.count;
            self.runs.push(Run {
                first: key,
                tag_step: 0,
                sequence_step: 0,
                count: 1,
                before,
            });
        }
    }

    /// Returns the number of anchors.
    pub fn len(&self) -> u32 {
        self.runs.last().map_or(0, |last| last.before + last.count)
    }

    /// Returns true if there is no anchor.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

/// A cursor of one rank in the anchors of its world.
#[derive(Clone, Default)]
pub struct Anchors {
    list: Arc<AnchorList>,
    run: usize,
    at: u32,
}

impl Anchors {
    /// Creates a cursor at the first anchor.
    pub fn new(list: Arc<AnchorList>) -> Self {
        Self { list, run: 0, at: 0 }
    }

    /// Returns the anchors of the world, which its ranks share.
    pub fn list(&self) -> &Arc<AnchorList> {
        &self.list
    }

    /// Returns true if the rank has no anchor.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the kind of step that an anchor ends.
    pub fn kind(&self, number: AnchorNumber) -> StepKind {
        self.list.kind(number)
    }

    /// Returns the number of the anchor that this operation is, or `None` if it is no anchor.
    #[inline]
    pub fn number_of(&mut self, operation: &RankOperation) -> Option<AnchorNumber> {
        let run = self.list.runs.get(self.run)?;
        if operation.operation != run.first.operation || operation.communicator != run.first.communicator {
            return if self.at + 1 >= run.count || self.list.runs.len() > 1 {
                self.search(operation)
            } else {
                None
            };
        }
        let key = Key::of(operation);
        let expected = run.key(self.at);
        if key == expected {
            return Some(self.advance());
        }
        // Tags and sequence numbers increase. An operation that is not beyond the next anchor cannot be a later one.
        if (key.tag, key.sequence) > (expected.tag, expected.sequence) {
            self.search(operation)
        } else {
            None
        }
    }

    fn advance(&mut self) -> AnchorNumber {
        let Some(run) = self.list.runs.get(self.run) else {
            return AnchorNumber(0);
        };
        let number = AnchorNumber(run.before + self.at);
        self.at += 1;
        if self.at >= run.count {
            self.run += 1;
            self.at = 0;
        }
        number
    }

    /// Searches the next anchors for the operation, because the record of an anchor may have been lost.
    #[cold]
    fn search(&mut self, operation: &RankOperation) -> Option<AnchorNumber> {
        let key = Key::of(operation);
        let (mut run, mut at) = (self.run, self.at);
        for _ in 0..LOST_ANCHORS {
            let here = self.list.runs.get(run)?;
            if here.key(at) == key {
                (self.run, self.at) = (run, at);
                return Some(self.advance());
            }
            at += 1;
            if at >= here.count {
                run += 1;
                at = 0;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_of_a_regular_run_take_one_entry_and_survive_lost_records() {
        let key = |n: u32| Key {
            communicator: CommunicatorId(1),
            operation: Operation::AllReduce,
            peer: -1,
            tag: 10 + 3 * n,
            sequence: 0,
        };
        let mut list = AnchorList::default();
        (0..100).for_each(|n| list.push(key(n)));
        assert_eq!((list.len(), list.runs.len()), (100, 1));
        list.push(Key { tag: 1000, ..key(0) });
        assert_eq!(list.len(), 101);
        assert_eq!(list.runs[0].key(42), key(42));
    }
}
