//! Packed batches: what matching needs of a batch, in a tenth of its memory. A caller that reads whole logs before it matches
//! keeps them.

use super::batch::{EvidenceMessage, RankBatch, StepCut};
use crate::intervals::device_overlap::DeviceParts;
use crate::intervals::overlap::Parts;
use crate::model::packed_operation::Previous;
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex, StepIndex};
use rankscope_formats::session::{
    PackedRows, PauseRow, StallRow, Table, Unpacker, put_signed, put_unsigned, take_signed, take_unsigned,
};

/// References to the fields of a struct. It names all of them, so that a new field is not forgotten.
macro_rules! fields {
    ($of:expr, $type:ident { $($field:ident),* $(,)? }) => {{
        let $type { $($field),* } = $of;
        [$($field),*]
    }};
}

/// Calls `visit` with each number of a step, in a fixed order, until it returns `None`.
fn each_of_step(cut: &mut StepCut, visit: impl FnMut(&mut i64) -> Option<()>) -> Option<()> {
    let parts = fields!(
        &mut cut.parts,
        Parts {
            window_ns,
            host_ns,
            exposed_ns,
            other_blocked_ns,
            communication_ns,
            queued_ns,
        }
    );
    let device = cut.device.as_mut().map(|device| {
        fields!(
            device,
            DeviceParts {
                window_ns,
                compute_only_ns,
                overlapped_ns,
                exposed_communication_ns,
                exposed_memory_ns,
                idle_ns,
            }
        )
    });
    parts
        .into_iter()
        .chain([&mut cut.start_ns, &mut cut.end_ns, &mut cut.host_ns])
        .chain(&mut cut.named_ns)
        .chain(device.into_iter().flatten())
        .try_for_each(visit)
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

fn put_message(message: &EvidenceMessage, out: &mut Vec<u8>) {
    put_unsigned(u64::from(message.rank.0) << 1 | u64::from(message.is_send), out);
    put_unsigned(u64::from(message.communicator.0), out);
    put_unsigned(u64::from(message.sender.0), out);
    put_unsigned(u64::from(message.receiver.0), out);
    put_unsigned(message.object, out);
    put_unsigned(u64::from(message.tag), out);
    put_unsigned(message.slot, out);
    put_unsigned(u64::from(message.number), out);
    put_signed(message.at_ns, out);
}

fn take_message(from: &mut &[u8]) -> Option<EvidenceMessage> {
    let head = take_unsigned(from)?;
    Some(EvidenceMessage {
        rank: RankIndex((head >> 1) as u32),
        is_send: head & 1 != 0,
        communicator: CommunicatorId(take_unsigned(from)? as u32),
        sender: MemberIndex(take_unsigned(from)? as u32),
        receiver: MemberIndex(take_unsigned(from)? as u32),
        object: take_unsigned(from)?,
        tag: take_unsigned(from)? as u32,
        slot: take_unsigned(from)?,
        number: take_unsigned(from)? as u32,
        at_ns: take_signed(from)?,
    })
}

impl RankBatch {
    /// Appends what matching needs of the batch to `out`: operations, steps, stalls, the pauses that stop training, and messages
    /// inside collectives.
    pub fn pack(&self, out: &mut Vec<u8>) {
        put_unsigned(self.operations.len() as u64, out);
        let mut previous = Previous::default();
        for operation in &self.operations {
            previous.pack(operation, out);
        }
        put_unsigned(self.steps.len() as u64, out);
        self.steps.iter().for_each(|cut| put_step(cut, out));
        put_rows(&self.stalls, out);
        let pauses = self.pauses.iter().filter(|pause| pause.pauses_training);
        put_rows(&pauses.cloned().collect::<Vec<PauseRow>>(), out);
        put_unsigned(self.evidence.len() as u64, out);
        self.evidence.iter().for_each(|message| put_message(message, out));
    }

    /// Replaces the batch with a packed one. Returns `None` if the bytes are damaged.
    pub fn unpack(&mut self, mut bytes: &[u8]) -> Option<()> {
        self.clear();
        let from = &mut bytes;
        let operations = take_unsigned(from)?;
        let mut previous = Previous::default();
        for _ in 0..operations {
            self.operations.push(previous.unpack(from)?);
        }
        for _ in 0..take_unsigned(from)? {
            self.steps.push(take_step(from)?);
        }
        take_rows::<StallRow>(from, &mut self.stalls)?;
        take_rows::<PauseRow>(from, &mut self.pauses)?;
        for _ in 0..take_unsigned(from)? {
            self.evidence.push(take_message(from)?);
        }
        from.is_empty().then_some(())
    }
}
