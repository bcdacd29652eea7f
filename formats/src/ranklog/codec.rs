//! How records are packed in a segment: what repeats is said once. Byte layout in RANKLOG.md, section "Records".
//!
//! A record costs about nine bytes: which template it follows (kind, operation, flags, sizes, communicator, peer),
//! a mask that says which numbers went on as predicted, and two time differences.

use super::layout::RECORDS_PER_CHUNK;
use super::record::{Record, RecordKind};
use std::collections::HashMap;

/// Records of one chunk that go into segments together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Lane that wrote them.
    pub lane: u32,
    /// Thread id of the lane's owner when it took the chunk.
    pub thread_id: u32,
    /// Ordinal of the chunk in its lane.
    pub ordinal: u64,
    /// Chunk they stood in: with `generation` and `first` the name by which a reader drops them from the live area.
    pub chunk: u32,
    /// Generation of the chunk.
    pub generation: u32,
    /// Position of the first record in the chunk.
    pub first: u32,
    /// The records, with `generation` 0.
    pub records: Vec<Record>,
}

/// A group without its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHead {
    /// Lane that wrote them.
    pub lane: u32,
    /// Thread id of the lane's owner when it took the chunk.
    pub thread_id: u32,
    /// Ordinal of the chunk in its lane.
    pub ordinal: u64,
    /// Chunk they stood in.
    pub chunk: u32,
    /// Generation of the chunk.
    pub generation: u32,
    /// Position of the first record in the chunk.
    pub first: u32,
    /// Number of records.
    pub count: u32,
}

const NEW_TEMPLATE: u8 = 254;
const WIDE_TEMPLATE: u8 = 255;
const OBJECT_ZERO: u8 = 0;
const OBJECT_LITERAL: u8 = 31;
const RECENT_OBJECTS: usize = 30;
const MASK_TAG: u8 = 1;
const MASK_SEQUENCE: u8 = 2;
const MASK_AUX: u8 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Template {
    kind: u8,
    operation: u8,
    flags: u8,
    element_bytes: u8,
    bytes: u64,
    communicator: u32,
    peer: i32,
}

impl Template {
    fn of(record: &Record) -> Self {
        Self {
            kind: record.kind,
            operation: record.operation,
            flags: record.flags,
            element_bytes: record.element_bytes,
            bytes: record.bytes,
            communicator: record.communicator,
            peer: record.peer,
        }
    }
}

/// Number that goes on by the same step as last time.
#[derive(Clone, Copy, Default)]
struct Stride {
    last: u32,
    step: u32,
}

impl Stride {
    fn predicted(self) -> u32 {
        self.last.wrapping_add(self.step)
    }

    fn update(&mut self, value: u32) {
        self.step = value.wrapping_sub(self.last);
        self.last = value;
    }
}

/// What encoder and decoder both remember while they walk a payload.
struct Model {
    tag: Stride,
    sequences: Vec<Stride>,
    recent: [u64; RECENT_OBJECTS],
    recent_at: usize,
    enter: u64,
    leave: u64,
    aux: Vec<u64>,
}

impl Model {
    fn new() -> Self {
        Self {
            tag: Stride::default(),
            sequences: Vec::new(),
            recent: [0; RECENT_OBJECTS],
            recent_at: 0,
            enter: 0,
            leave: 0,
            aux: Vec::new(),
        }
    }

    fn add_template(&mut self) {
        self.sequences.push(Stride::default());
        self.aux.push(0);
    }

    /// Code of an object: 0 zero, 1..=30 the n-th last distinct one, 31 literal.
    fn object_code(&self, object: u64) -> u8 {
        if object == 0 {
            return OBJECT_ZERO;
        }
        for back in 0..RECENT_OBJECTS {
            if self.recent[(self.recent_at + RECENT_OBJECTS - 1 - back) % RECENT_OBJECTS] == object {
                return back as u8 + 1;
            }
        }
        OBJECT_LITERAL
    }

    fn object_of(&self, code: u8) -> u64 {
        if code == OBJECT_ZERO {
            return 0;
        }
        self.recent[(self.recent_at + RECENT_OBJECTS - usize::from(code)) % RECENT_OBJECTS]
    }

    fn remember(&mut self, object: u64, code: u8) {
        if code == OBJECT_LITERAL && object != 0 {
            self.recent[self.recent_at] = object;
            self.recent_at = (self.recent_at + 1) % RECENT_OBJECTS;
        }
    }

    /// The tick that `enter` is told from: c10d's execution encloses the call recorded just before it.
    fn enter_base(&self, kind: u8) -> u64 {
        if kind == RecordKind::Execute as u8 {
            self.enter
        } else {
            self.leave
        }
    }

    fn leave_base(&self, kind: u8, enter: u64) -> u64 {
        if kind == RecordKind::Execute as u8 {
            self.leave
        } else {
            enter
        }
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Packs groups into one payload.
pub fn encode(groups: &[Group], out: &mut Vec<u8>) {
    let mut templates: HashMap<Template, usize> = HashMap::new();
    let mut model = Model::new();
    put_varint(out, groups.len() as u64);
    for group in groups {
        for number in [
            u64::from(group.lane),
            u64::from(group.thread_id),
            group.ordinal,
            u64::from(group.chunk),
            u64::from(group.generation),
            u64::from(group.first),
            group.records.len() as u64,
        ] {
            put_varint(out, number);
        }
        for record in &group.records {
            let template = Template::of(record);
            let known = templates.len();
            let index = *templates.entry(template).or_insert(known);
            if index == known {
                out.push(NEW_TEMPLATE);
                out.extend_from_slice(&[
                    template.kind,
                    template.operation,
                    template.flags,
                    template.element_bytes,
                ]);
                put_varint(out, template.bytes);
                put_varint(out, u64::from(template.communicator.wrapping_add(1)));
                put_signed(out, i64::from(template.peer));
                model.add_template();
            } else if index < usize::from(NEW_TEMPLATE) {
                out.push(index as u8);
            } else {
                out.push(WIDE_TEMPLATE);
                put_varint(out, index as u64);
            }
            let object = model.object_code(record.object);
            let mut mask = object << 3;
            let tag_right = model.tag.predicted() == record.tag;
            let sequence_right = model.sequences[index].predicted() == record.sequence;
            let aux_right = model.aux[index] == record.aux;
            mask |= u8::from(!tag_right) * MASK_TAG;
            mask |= u8::from(!sequence_right) * MASK_SEQUENCE;
            mask |= u8::from(!aux_right) * MASK_AUX;
            out.push(mask);
            put_signed(
                out,
                record.enter_ticks.wrapping_sub(model.enter_base(record.kind)) as i64,
            );
            let leave_base = model.leave_base(record.kind, record.enter_ticks);
            put_signed(out, record.leave_ticks.wrapping_sub(leave_base) as i64);
            if object == OBJECT_LITERAL {
                put_varint(out, record.object);
            }
            model.remember(record.object, object);
            if !tag_right {
                put_signed(
                    out,
                    i64::from(record.tag.wrapping_sub(model.tag.predicted()) as i32),
                );
            }
            if !sequence_right {
                let predicted = model.sequences[index].predicted();
                put_signed(out, i64::from(record.sequence.wrapping_sub(predicted) as i32));
            }
            if !aux_right {
                let code = model.object_code(record.aux);
                out.push(code);
                if code == OBJECT_LITERAL {
                    put_varint(out, record.aux);
                }
                model.remember(record.aux, code);
            }
            model.tag.update(record.tag);
            model.sequences[index].update(record.sequence);
            model.aux[index] = record.aux;
            model.enter = record.enter_ticks;
            model.leave = record.leave_ticks;
        }
    }
}

/// Walks a payload: group heads and records in their order. Damage ends the walk with its offset.
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    templates: Vec<Template>,
    model: Model,
    groups_left: u64,
    records_left: u32,
}

/// The payload is damaged or of an unknown kind at this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset in the payload, in bytes.
    pub offset: usize,
}

impl<'a> Decoder<'a> {
    /// Starts at the front of a payload.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Damage> {
        let mut decoder = Self {
            bytes,
            at: 0,
            templates: Vec::new(),
            model: Model::new(),
            groups_left: 0,
            records_left: 0,
        };
        decoder.groups_left = decoder.varint()?;
        Ok(decoder)
    }

    fn damage<T>(&self) -> Result<T, Damage> {
        Err(Damage { offset: self.at })
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, Damage> {
        match self.bytes.get(self.at) {
            Some(&byte) => {
                self.at += 1;
                Ok(byte)
            }
            None => self.damage(),
        }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Damage> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        self.damage()
    }

    #[inline]
    fn signed(&mut self) -> Result<i64, Damage> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn u32(&mut self) -> Result<u32, Damage> {
        let value = self.varint()?;
        u32::try_from(value).or_else(|_| self.damage())
    }

    /// The next group's head; `None` at the end. All records of the group before must have been read.
    pub fn next_group(&mut self) -> Result<Option<GroupHead>, Damage> {
        if self.groups_left == 0 {
            return Ok(None);
        }
        self.groups_left -= 1;
        let head = GroupHead {
            lane: self.u32()?,
            thread_id: self.u32()?,
            ordinal: self.varint()?,
            chunk: self.u32()?,
            generation: self.u32()?,
            first: self.u32()?,
            count: self.u32()?,
        };
        if u64::from(head.first) + u64::from(head.count) > RECORDS_PER_CHUNK as u64 {
            return self.damage();
        }
        self.records_left = head.count;
        Ok(Some(head))
    }

    /// The next record of the group; `None` at its end.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record>, Damage> {
        if self.records_left == 0 {
            return Ok(None);
        }
        self.records_left -= 1;
        let index = match self.byte()? {
            NEW_TEMPLATE => {
                let template = Template {
                    kind: self.byte()?,
                    operation: self.byte()?,
                    flags: self.byte()?,
                    element_bytes: self.byte()?,
                    bytes: self.varint()?,
                    communicator: self.u32_or_none()?,
                    peer: i32::try_from(self.signed()?).or_else(|_| self.damage())?,
                };
                self.templates.push(template);
                self.model.add_template();
                self.templates.len() - 1
            }
            WIDE_TEMPLATE => usize::try_from(self.varint()?).or_else(|_| self.damage())?,
            index => usize::from(index),
        };
        let Some(&template) = self.templates.get(index) else {
            return self.damage();
        };
        let mask = self.byte()?;
        let code = mask >> 3;
        let enter_ticks = self
            .model
            .enter_base(template.kind)
            .wrapping_add(self.signed()? as u64);
        let leave_ticks = self
            .model
            .leave_base(template.kind, enter_ticks)
            .wrapping_add(self.signed()? as u64);
        let object = if code == OBJECT_LITERAL {
            self.varint()?
        } else {
            self.model.object_of(code)
        };
        self.model.remember(object, code);
        let mut tag = self.model.tag.predicted();
        if mask & MASK_TAG != 0 {
            tag = tag.wrapping_add(self.signed()? as u32);
        }
        let mut sequence = self.model.sequences[index].predicted();
        if mask & MASK_SEQUENCE != 0 {
            sequence = sequence.wrapping_add(self.signed()? as u32);
        }
        let mut aux = self.model.aux[index];
        if mask & MASK_AUX != 0 {
            let code = self.byte()?;
            if code > OBJECT_LITERAL {
                return self.damage();
            }
            aux = if code == OBJECT_LITERAL {
                self.varint()?
            } else {
                self.model.object_of(code)
            };
            self.model.remember(aux, code);
        }
        self.model.tag.update(tag);
        self.model.sequences[index].update(sequence);
        self.model.aux[index] = aux;
        self.model.enter = enter_ticks;
        self.model.leave = leave_ticks;
        Ok(Some(Record {
            generation: 0,
            kind: template.kind,
            operation: template.operation,
            flags: template.flags,
            element_bytes: template.element_bytes,
            enter_ticks,
            leave_ticks,
            bytes: template.bytes,
            object,
            communicator: template.communicator,
            tag,
            sequence,
            peer: template.peer,
            aux,
        }))
    }

    fn u32_or_none(&mut self) -> Result<u32, Damage> {
        let value = self.varint()?;
        // 0 stands for "none" (u32::MAX), n for n - 1.
        u32::try_from(value)
            .map(|value| value.wrapping_sub(1))
            .or_else(|_| self.damage())
    }
}

/// Unpacks a payload whole; what came before damage is kept beside it.
pub fn decode(bytes: &[u8]) -> (Vec<Group>, Option<Damage>) {
    let mut groups = Vec::new();
    let damage = decode_into(bytes, &mut groups).err();
    (groups, damage)
}

fn decode_into(bytes: &[u8], groups: &mut Vec<Group>) -> Result<(), Damage> {
    let mut decoder = Decoder::new(bytes)?;
    while let Some(head) = decoder.next_group()? {
        let mut group = Group {
            lane: head.lane,
            thread_id: head.thread_id,
            ordinal: head.ordinal,
            chunk: head.chunk,
            generation: head.generation,
            first: head.first,
            records: Vec::with_capacity(head.count as usize),
        };
        let mut outcome = Ok(());
        loop {
            match decoder.next_record() {
                Ok(Some(record)) => group.records.push(record),
                Ok(None) => break,
                Err(damage) => {
                    outcome = Err(damage);
                    break;
                }
            }
        }
        groups.push(group);
        outcome?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_record()(
            kind in 0u8..12, operation: u8, flags in 0u8..4, element_bytes in 0u8..9, enter_ticks: u64, length in 0u64..1 << 40,
            bytes in prop_oneof![Just(0u64), Just(4096u64), any::<u64>()], object in prop_oneof![Just(0u64), 1u64..40, any::<u64>()],
            communicator in prop_oneof![Just(u32::MAX), 0u32..4], tag in prop_oneof![Just(0u32), 0u32..50, any::<u32>()],
            sequence: u32, peer in -1i32..8, aux in prop_oneof![Just(0u64), 1u64..40, any::<u64>()],
        ) -> Record {
            Record { generation: 0, kind, operation, flags, element_bytes, enter_ticks,
                leave_ticks: enter_ticks.wrapping_add(length), bytes, object, communicator, tag, sequence, peer, aux }
        }
    }

    proptest! {
        #[test]
        fn any_records_round_trip(
            parts in proptest::collection::vec((0u32..9, 0u64..9, 0u32..20, proptest::collection::vec(any_record(), 0..100)), 0..6)
        ) {
            let groups: Vec<Group> = parts.into_iter().map(|(lane, ordinal, first, records)| Group {
                lane, thread_id: lane + 100, ordinal, chunk: lane * 2, generation: 3, first, records,
            }).collect();
            let mut bytes = Vec::new();
            encode(&groups, &mut bytes);
            let (back, damage) = decode(&bytes);
            prop_assert_eq!(damage, None);
            prop_assert_eq!(back, groups);
        }

        #[test]
        fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn a_training_loop_costs_little() {
        // One c10d all-reduce of a steady job: the issue, the Gloo call inside its execution, one wait per step.
        let mut records = Vec::new();
        let mut t = 1_000_000u64;
        for n in 0..120u32 {
            t += 200_000 + u64::from(n * 7919 % 5000);
            let work = 0x7f00_0000_1000 + u64::from(n % 5) * 0x140;
            records.push(Record {
                operation: 1,
                communicator: 0,
                bytes: 1 << 20,
                element_bytes: 4,
                tag: n,
                aux: work,
                enter_ticks: t,
                leave_ticks: t + 900_000 + u64::from(n * 104_729 % 90_000),
                ..Record::new(RecordKind::Call)
            });
            t += 1_000_000;
        }
        let group = Group {
            lane: 1,
            thread_id: 2,
            ordinal: 0,
            chunk: 3,
            generation: 1,
            first: 0,
            records,
        };
        let mut bytes = Vec::new();
        encode(&[group], &mut bytes);
        assert!(bytes.len() < 120 * 10, "{} bytes for 120 records", bytes.len());
    }
}
