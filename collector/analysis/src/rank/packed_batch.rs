//! Batches in a tenth of their memory: what matching needs of them, for a caller that reads whole logs before it
//! matches.
//!
//! A packed operation is its difference from the operation before it: a mask of the parts that changed, and their values.
//! It is no file format: it lives as long as the process that packed it.

use super::batch::{RankBatch, StepCut};
use crate::intervals::device_overlap::DeviceParts;
use crate::intervals::overlap::Parts;
use crate::model::interval::Interval;
use crate::model::operation::{Blocked, RankOperation, SharedLaunch};
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex, StepIndex};
use rankscope_formats::session::{
    OperationState, PackedRows, PauseRow, StallRow, Table, Unpacker, put_signed, put_unsigned, take_signed,
    take_unsigned,
};
use rankscope_ranklog::record::{Algorithm, Protocol};
use rankscope_ranklog::{Library, Operation};

/// Number of words of an operation that rarely change, or change by little.
const WORDS: usize = 17;
/// Bit of the mask: the operation shares its launch.
const SHARED: u64 = 1 << WORDS;
/// Bit of the mask: the operation has counts per member.
const COUNTS: u64 = 1 << (WORDS + 1);
/// The numbers of blocked intervals follow this bit of the mask.
const BLOCKED_SHIFT: u32 = WORDS as u32 + 2;

type Words = [i64; WORDS];

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
        | i64::from(operation.is_cut) << 41;
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

/// Calls `visit` with each number of a step, in a fixed order.
fn each_of_step(cut: &mut StepCut, mut visit: impl FnMut(&mut i64) -> Option<()>) -> Option<()> {
    let Parts {
        window_ns,
        host_ns,
        exposed_ns,
        other_blocked_ns,
        communication_ns,
        queued_ns,
    } = &mut cut.parts;
    for number in [
        window_ns,
        host_ns,
        exposed_ns,
        other_blocked_ns,
        communication_ns,
        queued_ns,
    ] {
        visit(number)?;
    }
    visit(&mut cut.start_ns)?;
    visit(&mut cut.end_ns)?;
    visit(&mut cut.host_ns)?;
    cut.named_ns.iter_mut().try_for_each(&mut visit)?;
    if let Some(device) = &mut cut.device {
        let DeviceParts {
            window_ns,
            compute_only_ns,
            overlapped_ns,
            exposed_communication_ns,
            exposed_memory_ns,
            idle_ns,
        } = device;
        for number in [
            window_ns,
            compute_only_ns,
            overlapped_ns,
            exposed_communication_ns,
            exposed_memory_ns,
            idle_ns,
        ] {
            visit(number)?;
        }
    }
    Some(())
}

fn put_step(cut: &StepCut, out: &mut Vec<u8>) {
    put_unsigned(u64::from(cut.step.0) << 1 | u64::from(cut.device.is_some()), out);
    each_of_step(&mut cut.clone(), |number| {
        put_signed(*number, out);
        Some(())
    });
}

fn take_step(from: &mut &[u8]) -> Option<StepCut> {
    let head = take_unsigned(from)?;
    let mut cut = StepCut {
        step: StepIndex((head >> 1) as u32),
        start_ns: 0,
        end_ns: 0,
        parts: Parts::default(),
        device: (head & 1 != 0).then(DeviceParts::default),
        host_ns: 0,
        named_ns: Default::default(),
    };
    each_of_step(&mut cut, |number| {
        *number = take_signed(from)?;
        Some(())
    })?;
    Some(cut)
}

fn put_rows<T: Table>(rows: &[T], out: &mut Vec<u8>) {
    put_unsigned(rows.len() as u64, out);
    if rows.is_empty() {
        return;
    }
    let mut packed = PackedRows::default();
    rows.iter().for_each(|row| packed.push(row.clone()));
    put_unsigned(packed.bytes().len() as u64, out);
    out.extend_from_slice(packed.bytes());
}

fn take_rows<T: Table>(from: &mut &[u8], out: &mut Vec<T>) -> Option<()> {
    let rows = take_unsigned(from)? as usize;
    if rows == 0 {
        return Some(());
    }
    let length = take_unsigned(from)? as usize;
    let (packed, rest) = from.split_at_checked(length)?;
    *from = rest;
    Unpacker::default().unpack(packed, rows, out)
}

impl RankBatch {
    /// Appends what matching needs of the batch to `out`: operations, steps, stalls, and the pauses of training.
    pub fn pack(&self, out: &mut Vec<u8>) {
        put_unsigned(self.operations.len() as u64, out);
        let mut before = words_of(&RankOperation::nothing());
        for operation in &self.operations {
            put_operation(operation, &mut before, out);
        }
        put_unsigned(self.steps.len() as u64, out);
        self.steps.iter().for_each(|cut| put_step(cut, out));
        put_rows(&self.stalls, out);
        let pauses = self.pauses.iter().filter(|pause| pause.pauses_training);
        put_rows(&pauses.cloned().collect::<Vec<PauseRow>>(), out);
    }

    /// Replaces the batch by one that was packed. Returns `None` if the bytes are none.
    pub fn unpack(&mut self, mut bytes: &[u8]) -> Option<()> {
        self.clear();
        let from = &mut bytes;
        let operations = take_unsigned(from)?;
        let mut before = words_of(&RankOperation::nothing());
        for _ in 0..operations {
            self.operations.push(take_operation(&mut before, from)?);
        }
        for _ in 0..take_unsigned(from)? {
            self.steps.push(take_step(from)?);
        }
        take_rows::<StallRow>(from, &mut self.stalls)?;
        take_rows::<PauseRow>(from, &mut self.pauses)?;
        from.is_empty().then_some(())
    }
}
