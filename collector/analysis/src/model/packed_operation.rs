//! Operations in a sixth of their memory, for those that wait until others have been read.
//!
//! A packed operation is its difference from the operation before it: a mask of the parts that changed, and their differences. This is
//! no file format: only the process that packed the operations reads them.

use crate::model::interval::Interval;
use crate::model::operation::{Blocked, RankOperation, SharedLaunch};
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex, StepIndex};
use rankscope_formats::session::{OperationState, put_signed, put_unsigned, take_signed, take_unsigned};
use rankscope_ranklog::record::{Algorithm, Protocol};
use rankscope_ranklog::{Library, Operation};

/// Number of words of an operation that rarely change, or change by little.
const WORDS: usize = 17;
/// Bit of the mask: the operation shares its launch with others.
const SHARED: u64 = 1 << WORDS;
/// Bit of the mask: the operation has counts per member.
const COUNTS: u64 = 1 << (WORDS + 1);
/// The numbers of blocked intervals follow this bit of the mask.
const BLOCKED_SHIFT: u32 = WORDS as u32 + 2;

type Words = [i64; WORDS];

/// The operation before the one that is packed or unpacked next.
pub struct Previous(Words);

impl Default for Previous {
    fn default() -> Self {
        Self(words_of(&RankOperation::nothing()))
    }
}

fn words_of(operation: &RankOperation) -> Words {
    let kind = i64::from(operation.library as u8)
        | i64::from(operation.operation as u8) << 8
        | i64::from(operation.state as u8) << 16
        | i64::from(operation.requested as u8) << 24;
    let details = i64::from(operation.flags)
        | i64::from(operation.element_bytes) << 8
        | i64::from(operation.algorithm as u8) << 16
        | i64::from(operation.protocol as u8) << 24
        | i64::from(operation.channels) << 32
        | i64::from(operation.direct) << 40
        | i64::from(operation.is_cut) << 41
        | i64::from(operation.is_later) << 42;
    [
        kind,
        details,
        i64::from(operation.communicator.0),
        i64::from(operation.member.0),
        i64::from(operation.tag),
        i64::from(operation.sequence),
        i64::from(operation.peer),
        i64::from(operation.thread_id),
        i64::from(operation.step.0),
        operation.issue_ns,
        operation.called_ns,
        operation.enter_ns,
        operation.leave_ns,
        operation.returned_ns,
        operation.bytes as i64,
        i64::from(operation.clock_error_ns),
        i64::from(operation.rank.0),
    ]
}

fn operation_of(words: &Words) -> Option<RankOperation> {
    let &[
        kind,
        details,
        communicator,
        member,
        tag,
        sequence,
        peer,
        thread_id,
        step,
        issue_ns,
        called_ns,
        enter_ns,
        leave_ns,
        returned_ns,
        bytes,
        clock_error_ns,
        rank,
    ] = words;
    let byte = |word: i64, number: u32| (word >> (8 * number)) as u8;
    Some(RankOperation {
        rank: RankIndex(rank as u32),
        communicator: CommunicatorId(communicator as u32),
        member: MemberIndex(member as u32),
        library: Library::from_u8(byte(kind, 0))?,
        operation: Operation::from_u8(byte(kind, 1))?,
        state: *OperationState::ALL.get(usize::from(byte(kind, 2)))?,
        flags: byte(details, 0),
        element_bytes: byte(details, 1),
        direct: details & 1 << 40 != 0,
        is_cut: details & 1 << 41 != 0,
        is_later: details & 1 << 42 != 0,
        tag: tag as u32,
        sequence: sequence as u32,
        peer: peer as i32,
        thread_id: thread_id as u32,
        step: StepIndex(step as u32),
        requested: Operation::from_u8(byte(kind, 3))?,
        issue_ns,
        called_ns,
        enter_ns,
        leave_ns,
        returned_ns,
        bytes: bytes as u64,
        algorithm: Algorithm::from_u8(byte(details, 2))?,
        protocol: Protocol::from_u8(byte(details, 3))?,
        channels: byte(details, 4),
        clock_error_ns: clock_error_ns as u32,
        shared: None,
        blocked: Blocked::default(),
        counts: Box::default(),
    })
}

impl Previous {
    /// Appends an operation to `out`, and remembers it as the previous one.
    pub fn pack(&mut self, operation: &RankOperation, out: &mut Vec<u8>) {
        put_operation(operation, &mut self.0, out);
    }

    /// Takes a packed operation from the start of `from`. Returns `None` at its end, and if the bytes are damaged.
    pub fn unpack(&mut self, from: &mut &[u8]) -> Option<RankOperation> {
        take_operation(&mut self.0, from)
    }
}

fn put_operation(operation: &RankOperation, before: &mut Words, out: &mut Vec<u8>) {
    let words = words_of(operation);
    let mut mask = operation.blocked.pieces().count() as u64;
    mask <<= BLOCKED_SHIFT;
    for (number, (word, before)) in words.iter().zip(before.iter()).enumerate() {
        mask |= u64::from(word != before) << number;
    }
    if operation.shared.is_some() {
        mask |= SHARED;
    }
    if !operation.counts.is_empty() {
        mask |= COUNTS;
    }
    put_unsigned(mask, out);
    for (&word, &before) in words.iter().zip(before.iter()) {
        if word != before {
            put_signed(word.wrapping_sub(before), out);
        }
    }
    for piece in operation.blocked.pieces() {
        put_signed(piece.start_ns.wrapping_sub(operation.enter_ns), out);
        put_signed(piece.end_ns.wrapping_sub(operation.leave_ns), out);
    }
    if let Some(launch) = operation.shared.as_deref() {
        put_unsigned(u64::from(launch.first), out);
        put_unsigned(u64::from(launch.operations), out);
        put_unsigned(u64::from(launch.collectives), out);
        put_unsigned(u64::from(launch.is_first), out);
        put_signed(launch.enter_ns, out);
    }
    if !operation.counts.is_empty() {
        put_unsigned(operation.counts.len() as u64, out);
        operation
            .counts
            .iter()
            .for_each(|&count| put_unsigned(count, out));
    }
    *before = words;
}

fn take_operation(before: &mut Words, from: &mut &[u8]) -> Option<RankOperation> {
    let mask = take_unsigned(from)?;
    for (number, word) in before.iter_mut().enumerate() {
        if mask & 1 << number != 0 {
            *word = word.wrapping_add(take_signed(from)?);
        }
    }
    let mut operation = operation_of(before)?;
    for _ in 0..mask >> BLOCKED_SHIFT {
        let start_ns = operation.enter_ns.wrapping_add(take_signed(from)?);
        let end_ns = operation.leave_ns.wrapping_add(take_signed(from)?);
        operation.blocked.push(Interval { start_ns, end_ns });
    }
    if mask & SHARED != 0 {
        operation.shared = Some(Box::new(SharedLaunch {
            first: take_unsigned(from)? as u32,
            operations: take_unsigned(from)? as u16,
            collectives: take_unsigned(from)? as u16,
            is_first: take_unsigned(from)? != 0,
            enter_ns: take_signed(from)?,
        }));
    }
    if mask & COUNTS != 0 {
        let count = take_unsigned(from)?;
        operation.counts = (0..count).map(|_| take_unsigned(from)).collect::<Option<_>>()?;
    }
    Some(operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_operation() -> impl Strategy<Value = RankOperation> {
        let times = [
            any::<i64>(),
            any::<i64>(),
            any::<i64>(),
            any::<i64>(),
            any::<i64>(),
        ];
        let small = (
            any::<u32>(),
            any::<u32>(),
            any::<i32>(),
            any::<u8>(),
            any::<bool>(),
        );
        let lists = (
            proptest::collection::vec((0i64..1 << 40, 1i64..1 << 30), 0..5),
            proptest::collection::vec(any::<u64>(), 0..4),
            proptest::option::of(any::<(u32, u16, bool, i64)>()),
        );
        (times, small, lists).prop_map(
            |(times, (tag, sequence, peer, byte, flag), (blocked, counts, launch))| {
                let mut operation = RankOperation {
                    rank: RankIndex(tag),
                    communicator: CommunicatorId(sequence),
                    member: MemberIndex(tag / 3),
                    library: Library::ALL[usize::from(byte) % Library::ALL.len()],
                    operation: Operation::ALL[usize::from(byte) % Operation::ALL.len()],
                    state: OperationState::ALL[usize::from(byte) % OperationState::ALL.len()],
                    flags: byte,
                    element_bytes: byte / 2,
                    direct: flag,
                    is_cut: !flag,
                    is_later: byte % 3 == 0,
                    tag,
                    sequence,
                    peer,
                    thread_id: tag ^ 7,
                    step: StepIndex(sequence / 2),
                    requested: Operation::ALL[usize::from(byte / 3) % Operation::ALL.len()],
                    issue_ns: times[0],
                    called_ns: times[1],
                    enter_ns: times[2],
                    leave_ns: times[3],
                    returned_ns: times[4],
                    bytes: times[0] as u64,
                    algorithm: Algorithm::ALL[usize::from(byte) % Algorithm::ALL.len()],
                    protocol: Protocol::ALL[usize::from(byte) % Protocol::ALL.len()],
                    channels: byte,
                    clock_error_ns: tag,
                    shared: launch.map(|(first, operations, is_first, enter_ns)| {
                        Box::new(SharedLaunch {
                            first,
                            operations,
                            collectives: operations / 2,
                            is_first,
                            enter_ns,
                        })
                    }),
                    blocked: Blocked::default(),
                    counts: counts.into(),
                };
                for (start_ns, length) in blocked {
                    operation.blocked.push(Interval::new(start_ns, start_ns + length));
                }
                operation
            },
        )
    }

    proptest! {
        #[test]
        fn operations_survive_the_round_trip(operations in proptest::collection::vec(any_operation(), 0..20)) {
            let (mut packed, mut previous) = (Vec::new(), Previous::default());
            operations.iter().for_each(|operation| previous.pack(operation, &mut packed));
            let (mut rest, mut previous) = (packed.as_slice(), Previous::default());
            for operation in &operations {
                let back = previous.unpack(&mut rest).expect("an operation");
                prop_assert_eq!(format!("{operation:?}"), format!("{back:?}"));
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (mut rest, mut previous) = (bytes.as_slice(), Previous::default());
            while previous.unpack(&mut rest).is_some() {}
        }
    }
}
