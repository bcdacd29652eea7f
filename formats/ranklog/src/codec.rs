//! Packing of records in a segment. RANKLOG.md, section "Records", has the byte layout.
//!
//! The records of all lanes are encoded in the order in which their calls were left. Each number is stored as the
//! difference to a prediction:
//!
//! - a leave time: the previous record's leave time
//! - an enter time: the one of four neighbours that was nearest the last time for this template
//! - an address: how recently it was used
//!
//! The differences are split. Bit lengths and codes go into byte columns, which deflate shrinks to their entropy. The
//! bits themselves are packed unchanged. A c10d all-reduce of a steady training has three to four records of 64 bytes,
//! and takes about 20 bytes.

use super::layout::RECORDS_PER_CHUNK;
use super::record::{Record, RecordKind};
use std::collections::HashMap;

/// Records of one chunk that are written to a segment together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Lane that wrote the records.
    pub lane: u32,
    /// Thread ID of the lane's owner when it took the chunk.
    pub thread_id: u32,
    /// Ordinal of the chunk in its lane.
    pub ordinal: u64,
    /// Chunk of the records. Together with `generation` and `first` it identifies them, so that a reader can skip them
    /// in the live area.
    pub chunk: u32,
    /// Generation of the chunk.
    pub generation: u32,
    /// Position of the first record in the chunk.
    pub first: u32,
    /// The records, with `generation` 0.
    pub records: Vec<Record>,
}

/// Group without its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHead {
    /// Lane that wrote the records.
    pub lane: u32,
    /// Thread ID of the lane's owner when it took the chunk.
    pub thread_id: u32,
    /// Ordinal of the chunk in its lane.
    pub ordinal: u64,
    /// Chunk of the records.
    pub chunk: u32,
    /// Generation of the chunk.
    pub generation: u32,
    /// Position of the first record in the chunk.
    pub first: u32,
    /// Number of records.
    pub count: u32,
}

impl GroupHead {
    fn read(front: &mut Bytes<'_>) -> Result<Self, Damage> {
        Ok(Self {
            lane: front.u32()?,
            thread_id: front.u32()?,
            ordinal: front.varint()?,
            chunk: front.u32()?,
            generation: front.u32()?,
            first: front.u32()?,
            count: front.u32()?,
        })
    }
}

/// Returns the number of records in a payload. The start of the payload is sufficient, and nothing is unpacked.
pub fn count_records(front: &[u8]) -> Result<u64, Damage> {
    let mut front = Bytes { bytes: front, at: 0 };
    front.u32()?;
    let mut records = 0u64;
    for _ in 0..front.length()? {
        records += u64::from(GroupHead::read(&mut front)?.count);
    }
    Ok(records)
}

/// Maximum number of records in one payload. It bounds the memory of a reader.
pub const MAX_RECORDS: usize = 1 << 20;

/// Maximum quantum that a reader accepts, as the exponent of a power of two in ticks.
pub const MAX_QUANTUM_BITS: u32 = 16;

const NEW_TEMPLATE: u8 = 254;
const WIDE_TEMPLATE: u8 = 255;
const MASK_TAG: u8 = 1;
const MASK_SEQUENCE: u8 = 2;
const MASK_AUX: u8 = 4;
const MASK_OBJECT: u8 = 8;
const SIGN: u8 = 0x80;
const RECENT: usize = 63;
const LITERAL: u8 = 64;

/// Returns the slot of the last tag of this record kind. Kinds of later versions share the slots.
fn tag_slot(kind: u8) -> usize {
    usize::from(kind) % RecordKind::PLACES
}

/// Fields that many records have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Template {
    /// Index of the lane in the payload's list of lanes.
    lane: u32,
    kind: u8,
    operation: u8,
    flags: u8,
    element_bytes: u8,
    bytes: u64,
    communicator: u32,
    peer: i32,
}

impl Template {
    fn of(lane: u32, record: &Record) -> Self {
        Self {
            lane,
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

/// Number that is predicted to advance by the same step as the last time.
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

/// State per template.
#[derive(Clone, Copy, Default)]
struct TemplateState {
    /// Neighbour that was the best prediction of the enter time the last time.
    best: u8,
    sequence: Stride,
}

#[derive(Clone, Copy, Default)]
struct LaneState {
    enter: u64,
    leave: u64,
}

/// State that encoder and decoder both keep while they process a payload.
struct Model {
    leave: u64,
    /// Tags per record kind: tags of calls count up, other kinds have no tags.
    tags: [Stride; RecordKind::PLACES],
    templates: Vec<TemplateState>,
    lanes: Vec<LaneState>,
    /// Addresses, the most recent first, each with the enter time of the last record that used it.
    recent: Vec<(u64, u64)>,
    literal: u64,
}

impl Model {
    fn new(lanes: usize) -> Self {
        Self {
            leave: 0,
            tags: [Stride::default(); RecordKind::PLACES],
            templates: Vec::new(),
            lanes: vec![LaneState::default(); lanes],
            recent: Vec::with_capacity(RECENT + 1),
            literal: 0,
        }
    }

    /// Returns the code of an address: its position among the recent ones plus 1, or [`LITERAL`].
    fn code(&self, address: u64) -> u8 {
        self.recent
            .iter()
            .position(|&(known, _)| known == address)
            .map_or(LITERAL, |at| at as u8 + 1)
    }

    /// Moves an address to the front. Returns the enter time of the last record that used it. The current record stores
    /// its own with [`Model::name`] once it is known.
    fn touch(&mut self, address: u64, code: u8) -> u64 {
        if code == LITERAL {
            self.recent.truncate(RECENT - 1);
            self.recent.insert(0, (address, 0));
            return 0;
        }
        let at = usize::from(code - 1);
        let (_, before) = self.recent[at];
        // Moved one by one, because the address is usually among the first.
        for place in (0..at).rev() {
            self.recent[place + 1] = self.recent[place];
        }
        self.recent[0] = (address, 0);
        before
    }

    /// Stores the enter time of the record that has just used its addresses.
    fn name(&mut self, record: &Record) {
        let named = [record.object, record.aux]
            .iter()
            .filter(|&&address| address != 0)
            .count();
        for recent in self.recent.iter_mut().take(named) {
            if recent.0 == record.object || recent.0 == record.aux {
                recent.1 = record.enter_ticks;
            }
        }
    }

    /// Returns the four neighbours from which an enter time may be predicted.
    fn neighbours(&self, lane: usize, leave: u64, linked_enter: u64) -> [u64; 4] {
        let lane = self.lanes[lane];
        [leave, lane.leave, lane.enter, linked_enter]
    }

    fn update(&mut self, template: usize, lane: usize, record: &Record, neighbours: [u64; 4]) {
        let mut best = (u64::MAX, 0);
        for (choice, &neighbour) in neighbours.iter().enumerate() {
            let error = (record.enter_ticks.wrapping_sub(neighbour) as i64).unsigned_abs();
            if error < best.0 {
                best = (error, choice as u8);
            }
        }
        self.templates[template].best = best.1;
        self.templates[template].sequence.update(record.sequence);
        self.tags[tag_slot(record.kind)].update(record.tag);
        self.lanes[lane] = LaneState {
            enter: record.enter_ticks,
            leave: record.leave_ticks,
        };
        self.leave = record.leave_ticks;
    }
}

/// Byte columns and packed bits of a payload that is being encoded.
#[derive(Default)]
struct Columns {
    templates: Vec<u8>,
    masks: Vec<u8>,
    lengths: Vec<u8>,
    codes: Vec<u8>,
    extras: Vec<u8>,
    bits: BitWriter,
}

#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    pending: u128,
    count: u32,
}

impl BitWriter {
    /// Appends the low `count` bits of `value`, the lowest first.
    fn put(&mut self, value: u64, count: u32) {
        let masked = if count == 64 {
            value
        } else {
            value & ((1 << count) - 1)
        };
        self.pending |= u128::from(masked) << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.pending as u8);
        }
        self.bytes
    }
}

impl Columns {
    /// Appends a signed number: bit length and sign to a column, the bits below the leading one packed.
    fn number(&mut self, value: i64) {
        let magnitude = value.unsigned_abs();
        let length = 64 - magnitude.leading_zeros();
        self.lengths.push(length as u8 | if value < 0 { SIGN } else { 0 });
        if length > 1 {
            self.bits.put(magnitude, length - 1);
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

/// Packs groups into one payload. The groups of one lane must be in the order of their ordinals.
///
/// Ticks are rounded down to multiples of `1 << quantum_bits`, which keeps their order. Differences below the time of a
/// counter reading are noise, and noise does not compress.
pub fn encode(groups: &[Group], quantum_bits: u32, out: &mut Vec<u8>) {
    let mut lanes: Vec<u32> = Vec::new();
    let mut by_lane: Vec<Vec<&Record>> = Vec::new();
    put_varint(out, u64::from(quantum_bits));
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
        let lane = match lanes.iter().position(|&lane| lane == group.lane) {
            Some(lane) => lane,
            None => {
                lanes.push(group.lane);
                by_lane.push(Vec::new());
                lanes.len() - 1
            }
        };
        by_lane[lane].extend(&group.records);
    }
    let mut columns = Columns::default();
    let mut model = Model::new(lanes.len());
    let mut templates: HashMap<Template, usize> = HashMap::new();
    // Heap of the next record of each lane. It yields the order of leaving and keeps the order inside a lane.
    let mut next: std::collections::BinaryHeap<std::cmp::Reverse<(u64, usize, usize)>> = by_lane
        .iter()
        .enumerate()
        .filter_map(|(lane, records)| {
            records
                .first()
                .map(|first| std::cmp::Reverse((first.leave_ticks, lane, 0)))
        })
        .collect();
    while let Some(std::cmp::Reverse((_, lane, position))) = next.pop() {
        let record = by_lane[lane][position];
        if let Some(following) = by_lane[lane].get(position + 1) {
            next.push(std::cmp::Reverse((following.leave_ticks, lane, position + 1)));
        }
        let record = Record {
            enter_ticks: record.enter_ticks >> quantum_bits,
            leave_ticks: record.leave_ticks >> quantum_bits,
            ..*record
        };
        put_record(&mut columns, &mut model, &mut templates, lane, &record);
    }
    let Columns {
        templates,
        masks,
        lengths,
        codes,
        extras,
        bits,
    } = columns;
    let bits = bits.finish();
    let mut plain = Vec::with_capacity(templates.len() * 6 + extras.len());
    for column in [&templates, &masks, &lengths, &codes, &extras] {
        put_varint(out, column.len() as u64);
        plain.extend_from_slice(column);
    }
    let packed = miniz_oxide::deflate::compress_to_vec(&plain, 6);
    put_varint(out, packed.len() as u64);
    put_varint(out, bits.len() as u64);
    out.extend_from_slice(&packed);
    out.extend_from_slice(&bits);
}

fn put_record(
    columns: &mut Columns,
    model: &mut Model,
    templates: &mut HashMap<Template, usize>,
    lane: usize,
    record: &Record,
) {
    let template = Template::of(lane as u32, record);
    let known = templates.len();
    let index = *templates.entry(template).or_insert(known);
    if index == known {
        columns.templates.push(NEW_TEMPLATE);
        let extras = &mut columns.extras;
        put_varint(extras, u64::from(template.lane));
        extras.extend_from_slice(&[
            template.kind,
            template.operation,
            template.flags,
            template.element_bytes,
        ]);
        put_varint(extras, template.bytes);
        put_varint(extras, u64::from(template.communicator.wrapping_add(1)));
        put_signed(extras, i64::from(template.peer));
        model.templates.push(TemplateState::default());
    } else if index < usize::from(NEW_TEMPLATE) {
        columns.templates.push(index as u8);
    } else {
        columns.templates.push(WIDE_TEMPLATE);
        put_varint(&mut columns.extras, index as u64);
    }
    let predicted_tag = model.tags[tag_slot(record.kind)].predicted();
    let tag_right = predicted_tag == record.tag;
    let sequence_right = model.templates[index].sequence.predicted() == record.sequence;
    columns.masks.push(
        (u8::from(!tag_right) * MASK_TAG)
            | (u8::from(!sequence_right) * MASK_SEQUENCE)
            | (u8::from(record.aux != 0) * MASK_AUX)
            | (u8::from(record.object != 0) * MASK_OBJECT),
    );
    if !tag_right {
        columns.number(i64::from(record.tag.wrapping_sub(predicted_tag) as i32));
    }
    if !sequence_right {
        let predicted = model.templates[index].sequence.predicted();
        columns.number(i64::from(record.sequence.wrapping_sub(predicted) as i32));
    }
    let mut linked_enter = 0;
    for address in [record.object, record.aux] {
        if address != 0 {
            let code = model.code(address);
            columns.codes.push(code);
            if code == LITERAL {
                columns.number(address.wrapping_sub(model.literal) as i64);
                model.literal = address;
            }
            linked_enter = model.touch(address, code);
        }
    }
    model.name(record);
    columns.number(record.leave_ticks.wrapping_sub(model.leave) as i64);
    let neighbours = model.neighbours(lane, record.leave_ticks, linked_enter);
    let base = neighbours[usize::from(model.templates[index].best)];
    columns.number(record.enter_ticks.wrapping_sub(base) as i64);
    model.update(index, lane, record, neighbours);
}

/// Error: the payload is damaged, or of an unknown kind, at this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset in the payload, in bytes. Inside the columns it is only approximate: the start of the columns.
    pub offset: usize,
}

/// Reader of the plain numbers at the start of a payload, or of its column of extras.
struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    #[inline]
    fn byte(&mut self) -> Result<u8, Damage> {
        let byte = *self.bytes.get(self.at).ok_or(Damage { offset: self.at })?;
        self.at += 1;
        Ok(byte)
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
        Err(Damage { offset: self.at })
    }

    fn signed(&mut self) -> Result<i64, Damage> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn u32(&mut self) -> Result<u32, Damage> {
        u32::try_from(self.varint()?).map_err(|_| Damage { offset: self.at })
    }

    fn length(&mut self) -> Result<usize, Damage> {
        usize::try_from(self.varint()?).map_err(|_| Damage { offset: self.at })
    }
}

/// Reader of packed bits, the lowest first. The position is in bits. A load of eight unaligned bytes contains nearly
/// every number completely.
struct BitReader<'a> {
    bytes: &'a [u8],
    at_bits: usize,
}

impl BitReader<'_> {
    #[inline]
    fn get(&mut self, count: u32) -> Option<u64> {
        let (byte, shift) = (self.at_bits / 8, (self.at_bits % 8) as u32);
        let end = self.at_bits + count as usize;
        if end > self.bytes.len() * 8 {
            return None;
        }
        self.at_bits = end;
        let mut value = match self.bytes.get(byte..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(word) => u64::from_le_bytes(*word) >> shift,
            None => {
                self.bytes[byte..]
                    .iter()
                    .zip((0..).step_by(8))
                    .fold(0, |word, (&byte, place)| word | u64::from(byte) << place)
                    >> shift
            }
        };
        if shift + count > 64 {
            // In this case `end` is in the ninth byte, which therefore exists.
            value |= u64::from(self.bytes[byte + 8]) << (64 - shift);
        }
        Some(value & (u64::MAX >> (64 - count.clamp(1, 64))))
    }
}

/// Lanes, columns and bits of a payload that is being decoded.
struct Walk<'a> {
    columns: [std::slice::Iter<'a, u8>; 4],
    extras: Bytes<'a>,
    bits: BitReader<'a>,
    templates: Vec<(Template, usize)>,
    model: Model,
    offset: usize,
}

const TEMPLATES: usize = 0;
const MASKS: usize = 1;
const LENGTHS: usize = 2;
const CODES: usize = 3;
const EXTRAS: usize = 4;

impl Walk<'_> {
    fn damage(&self) -> Damage {
        Damage { offset: self.offset }
    }

    #[inline(always)]
    fn next(&mut self, column: usize) -> Result<u8, Damage> {
        self.columns[column].next().copied().ok_or(self.damage())
    }

    #[inline(always)]
    fn number(&mut self) -> Result<i64, Damage> {
        let class = self.next(LENGTHS)?;
        let length = u32::from(class & !SIGN);
        let magnitude = match length {
            0 => 0,
            1 => 1,
            2..=64 => self.bits.get(length - 1).ok_or(Damage { offset: self.offset })? | 1 << (length - 1),
            _ => return Err(self.damage()),
        };
        Ok(if class & SIGN != 0 {
            (magnitude as i64).wrapping_neg()
        } else {
            magnitude as i64
        })
    }

    #[inline]
    fn address(&mut self) -> Result<(u64, u8), Damage> {
        let code = self.next(CODES)?;
        if code == LITERAL {
            let address = self.model.literal.wrapping_add(self.number()? as u64);
            self.model.literal = address;
            return Ok((address, code));
        }
        let at = usize::from(code).checked_sub(1).ok_or(self.damage())?;
        let known = self.model.recent.get(at).ok_or(Damage { offset: self.offset })?;
        Ok((known.0, code))
    }

    /// Decodes the next record and the index of its lane. Inlined, so that the record is built in its final location.
    #[inline(always)]
    fn record(&mut self) -> Result<(usize, Record), Damage> {
        let index = match self.next(TEMPLATES)? {
            NEW_TEMPLATE => {
                let lane = self.extras.u32()?;
                let template = Template {
                    lane,
                    kind: self.extras.byte()?,
                    operation: self.extras.byte()?,
                    flags: self.extras.byte()?,
                    element_bytes: self.extras.byte()?,
                    bytes: self.extras.varint()?,
                    // 0 means "none" (u32::MAX), and n means n - 1.
                    communicator: self.extras.u32()?.wrapping_sub(1),
                    peer: i32::try_from(self.extras.signed()?).map_err(|_| self.damage())?,
                };
                if lane as usize >= self.model.lanes.len() {
                    return Err(self.damage());
                }
                self.templates.push((template, lane as usize));
                self.model.templates.push(TemplateState::default());
                self.templates.len() - 1
            }
            WIDE_TEMPLATE => self.extras.length()?,
            index => usize::from(index),
        };
        let &(template, lane) = self.templates.get(index).ok_or(Damage { offset: self.offset })?;
        let mask = self.next(MASKS)?;
        let mut tag = self.model.tags[tag_slot(template.kind)].predicted();
        if mask & MASK_TAG != 0 {
            tag = tag.wrapping_add(self.number()? as u32);
        }
        let mut sequence = self.model.templates[index].sequence.predicted();
        if mask & MASK_SEQUENCE != 0 {
            sequence = sequence.wrapping_add(self.number()? as u32);
        }
        let mut linked_enter = 0;
        let (mut object, mut aux) = (0, 0);
        for (wanted, address) in [(MASK_OBJECT, &mut object), (MASK_AUX, &mut aux)] {
            if mask & wanted != 0 {
                let (named, code) = self.address()?;
                *address = named;
                linked_enter = self.model.touch(named, code);
            }
        }
        let leave_ticks = self.model.leave.wrapping_add(self.number()? as u64);
        let neighbours = self.model.neighbours(lane, leave_ticks, linked_enter);
        let base = neighbours[usize::from(self.model.templates[index].best)];
        let enter_ticks = base.wrapping_add(self.number()? as u64);
        let record = Record {
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
        };
        self.model.name(&record);
        self.model.update(index, lane, &record, neighbours);
        Ok((lane, record))
    }
}

/// Unpacks a whole payload. After damage, the records before it are kept.
pub fn decode(bytes: &[u8]) -> (Vec<Group>, Option<Damage>) {
    let mut heads = Vec::new();
    let mut records: Vec<Vec<Record>> = Vec::new();
    let damage = unpack(bytes, &mut heads, |group, _, record| {
        if records.len() <= group {
            records.resize_with(group + 1, Vec::new);
        }
        records[group].push(record);
    })
    .err();
    records.resize_with(heads.len(), Vec::new);
    let groups = heads
        .into_iter()
        .zip(records)
        .map(|(head, records)| Group {
            lane: head.lane,
            thread_id: head.thread_id,
            ordinal: head.ordinal,
            chunk: head.chunk,
            generation: head.generation,
            first: head.first,
            records,
        })
        .collect();
    (groups, damage)
}

/// Groups of a lane while records are distributed to them.
struct Fill {
    groups: Vec<usize>,
    at: usize,
    /// Number of records that the group at `at` still accepts.
    room: u32,
}

impl Fill {
    /// Returns the group of the lane's next record.
    #[inline]
    fn group(&mut self, heads: &[GroupHead]) -> Option<usize> {
        while self.room == 0 {
            self.at += 1;
            self.room = heads[*self.groups.get(self.at)?].count;
        }
        self.room -= 1;
        Some(self.groups[self.at])
    }
}

/// Unpacks a payload record by record, in the order in which their calls were left. A record that was committed late is
/// at its position in the lane. `take` gets the index of the group in `heads`, the head of that group, and the record.
pub fn unpack(
    bytes: &[u8],
    heads: &mut Vec<GroupHead>,
    take: impl FnMut(usize, &GroupHead, Record),
) -> Result<(), Damage> {
    let mut unpacking = Unpacking::begin(bytes, heads, Vec::new())?;
    unpacking.advance(bytes, heads, usize::MAX, take)
}

/// Payload that is unpacked step by step. The rest stays packed, in a sixth of the memory.
pub struct Unpacking {
    quantum_bits: u32,
    fill: Vec<Fill>,
    /// Inflated columns, one after the other, and the end of each.
    plain: Vec<u8>,
    ends: [usize; 5],
    /// Current position in each column.
    at: [usize; 5],
    /// Range of the packed bits in the payload, and the number of bits already read.
    bits: std::ops::Range<usize>,
    at_bits: usize,
    templates: Vec<(Template, usize)>,
    model: Model,
    /// Number of records that are still packed.
    left: usize,
    offset: usize,
}

impl Unpacking {
    /// Decodes everything before the first record. `heads` is replaced by the groups of the payload, as far as they are
    /// intact. `plain` is a buffer of an earlier payload that may be reused.
    pub fn begin(bytes: &[u8], heads: &mut Vec<GroupHead>, mut plain: Vec<u8>) -> Result<Self, Damage> {
        heads.clear();
        let mut front = Bytes { bytes, at: 0 };
        let mut lanes: HashMap<u32, usize> = HashMap::new();
        let mut fill: Vec<Fill> = Vec::new();
        let mut total = 0usize;
        let quantum_bits = front.u32()?;
        if quantum_bits > MAX_QUANTUM_BITS {
            return Err(Damage { offset: 0 });
        }
        for number in 0..front.length()? {
            let head = GroupHead::read(&mut front)?;
            total += head.count as usize;
            if u64::from(head.first) + u64::from(head.count) > RECORDS_PER_CHUNK as u64 || total > MAX_RECORDS
            {
                return Err(Damage { offset: front.at });
            }
            let lane = *lanes.entry(head.lane).or_insert_with(|| {
                fill.push(Fill {
                    groups: Vec::new(),
                    at: 0,
                    room: head.count,
                });
                fill.len() - 1
            });
            fill[lane].groups.push(number);
            heads.push(head);
        }
        let mut sizes = [0usize; 5];
        for size in &mut sizes {
            *size = front.length()?;
        }
        let (packed_bytes, bit_bytes) = (front.length()?, front.length()?);
        let offset = front.at;
        let damage = Damage { offset };
        // No record needs more bytes than this in all columns. A payload that claims more is damaged, and is not
        // unpacked.
        let plain_bytes = sizes
            .iter()
            .try_fold(0usize, |sum, &size| sum.checked_add(size))
            .ok_or(damage)?;
        if plain_bytes > total * 80 + 64 {
            return Err(damage);
        }
        let packed = bytes
            .get(offset..)
            .and_then(|rest| rest.get(..packed_bytes))
            .ok_or(damage)?;
        let bits = offset + packed_bytes..(offset + packed_bytes).checked_add(bit_bytes).ok_or(damage)?;
        bytes.get(bits.clone()).ok_or(damage)?;
        plain.resize(plain_bytes, 0);
        let packed = std::iter::once(packed);
        let inflated = miniz_oxide::inflate::decompress_slice_iter_to_slice(&mut plain, packed, false, true);
        if inflated != Ok(plain_bytes) {
            return Err(damage);
        }
        let mut ends = [0; 5];
        let mut at = [0; 5];
        let mut end = 0;
        for (column, size) in sizes.into_iter().enumerate() {
            at[column] = end;
            end += size;
            ends[column] = end;
        }
        Ok(Self {
            quantum_bits,
            fill,
            plain,
            ends,
            at,
            bits,
            at_bits: 0,
            templates: Vec::new(),
            model: Model::new(lanes.len()),
            left: total,
            offset,
        })
    }

    /// Returns the buffer for the next payload.
    pub fn into_buffer(self) -> Vec<u8> {
        self.plain
    }

    /// Returns true once all records were passed to `take`.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Passes the next records to `take`, at most `most`. `bytes` and `heads` must be those passed to `begin`.
    pub fn advance(
        &mut self,
        bytes: &[u8],
        heads: &[GroupHead],
        most: usize,
        mut take: impl FnMut(usize, &GroupHead, Record),
    ) -> Result<(), Damage> {
        let damage = Damage { offset: self.offset };
        let column = |index: usize| &self.plain[self.at[index]..self.ends[index]];
        let mut walk = Walk {
            columns: [0, 1, 2, 3].map(|index| column(index).iter()),
            extras: Bytes {
                bytes: column(EXTRAS),
                at: 0,
            },
            bits: BitReader {
                bytes: bytes.get(self.bits.clone()).ok_or(damage)?,
                at_bits: self.at_bits,
            },
            templates: std::mem::take(&mut self.templates),
            model: std::mem::replace(&mut self.model, Model::new(0)),
            offset: self.offset,
        };
        let (quantum_bits, count) = (self.quantum_bits, self.left.min(most));
        for _ in 0..count {
            // Columns have separate positions, so the reported offset is the start of the packed columns.
            let (lane, mut record) = walk.record().map_err(|_| damage)?;
            record.enter_ticks <<= quantum_bits;
            record.leave_ticks <<= quantum_bits;
            let group = self.fill[lane].group(heads).ok_or(damage)?;
            take(group, &heads[group], record);
        }
        self.left -= count;
        for (index, rest) in walk.columns.iter().enumerate() {
            self.at[index] = self.ends[index] - rest.len();
        }
        self.at[EXTRAS] += walk.extras.at;
        self.at_bits = walk.bits.at_bits;
        self.templates = walk.templates;
        self.model = walk.model;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_record()(
            kind in 0u8..16, operation: u8, flags in 0u8..4, element_bytes in 0u8..9, enter_ticks: u64, length in 0u64..1 << 40,
            bytes in prop_oneof![Just(0u64), Just(4096u64), any::<u64>()], object in prop_oneof![Just(0u64), 1u64..5, any::<u64>()],
            communicator in prop_oneof![Just(u32::MAX), 0u32..4], tag in prop_oneof![Just(0u32), 0u32..50, any::<u32>()],
            sequence: u32, peer in -1i32..8, aux in prop_oneof![Just(0u64), 1u64..5, any::<u64>()],
        ) -> Record {
            Record { generation: 0, kind, operation, flags, element_bytes, enter_ticks,
                leave_ticks: enter_ticks.wrapping_add(length), bytes, object, communicator, tag, sequence, peer, aux }
        }
    }

    proptest! {
        #[test]
        fn any_records_round_trip(
            parts in proptest::collection::vec((0u32..4, 0u64..9, 0u32..20, proptest::collection::vec(any_record(), 0..100)), 0..6)
        ) {
            let groups: Vec<Group> = parts.into_iter().map(|(lane, ordinal, first, records)| Group {
                lane, thread_id: lane + 100, ordinal, chunk: lane * 2, generation: 3, first, records,
            }).collect();
            let mut bytes = Vec::new();
            encode(&groups, 0, &mut bytes);
            let (back, damage) = decode(&bytes);
            prop_assert_eq!(damage, None);
            prop_assert_eq!(back, groups);
        }

        #[test]
        fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn damage_never_panics(
            records in proptest::collection::vec(any_record(), 1..60), at: proptest::sample::Index, flip in 1u8..=255
        ) {
            let group = Group { lane: 0, thread_id: 1, ordinal: 0, chunk: 0, generation: 1, first: 0, records };
            let mut bytes = Vec::new();
            encode(&[group], 0, &mut bytes);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let _ = decode(&bytes);
        }
    }

    /// Returns the records of a steady DDP job. Each step has three buckets, queued and executed, and one wait. Ticks
    /// are 0.4 ns, and times vary.
    fn training(steps: u64) -> Vec<Group> {
        let mut noise = 88_172_645_463_325_252u64;
        let mut vary = |about: u64| {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            about + noise % about
        };
        let (mut issues, mut calls) = (Vec::new(), Vec::new());
        let mut t = 1 << 40;
        for step in 0..steps {
            t += vary(50_000_000);
            for bucket in 0..3 {
                let n = step * 3 + bucket;
                let work = 0x7f00_0000_1000 + vary(7) % 7 * 0x2340;
                t += vary(1_000_000);
                issues.push(Record {
                    operation: 1,
                    object: work,
                    enter_ticks: t,
                    leave_ticks: t,
                    ..Record::new(RecordKind::Issue)
                });
                let start = t + vary(40_000);
                let end = start + vary(2_000_000);
                calls.push(Record {
                    operation: 1,
                    communicator: 0,
                    bytes: 1 << (20 + bucket),
                    element_bytes: 4,
                    tag: n as u32,
                    aux: work,
                    enter_ticks: start,
                    leave_ticks: end,
                    ..Record::new(RecordKind::Call)
                });
                calls.push(Record {
                    object: work,
                    enter_ticks: start - vary(20_000),
                    leave_ticks: end + vary(30_000),
                    ..Record::new(RecordKind::Execute)
                });
            }
            let leave = t + 4_100_000 + vary(60_000);
            issues.push(Record {
                aux: 4,
                enter_ticks: t + vary(90_000),
                leave_ticks: leave,
                ..Record::new(RecordKind::Blocked)
            });
            t = leave;
        }
        let part = |lane: u32, records: &[Record]| -> Vec<Group> {
            records
                .chunks(RECORDS_PER_CHUNK)
                .zip(0..)
                .map(|(records, ordinal)| Group {
                    lane,
                    thread_id: lane,
                    ordinal,
                    chunk: lane,
                    generation: 1,
                    first: 0,
                    records: records.to_vec(),
                })
                .collect()
        };
        [part(0, &issues), part(1, &calls)].concat()
    }

    #[test]
    fn a_training_step_takes_few_bytes() {
        let groups = training(300);
        let mut bytes = Vec::new();
        encode(&groups, 0, &mut bytes);
        let exact = bytes.len() as f64 / 900.0;
        assert!(exact < 22.0, "{exact} bytes per operation");
        assert_eq!(decode(&bytes), (groups.clone(), None));
        bytes.clear();
        encode(&groups, 4, &mut bytes);
        let rounded = bytes.len() as f64 / 900.0;
        assert!(
            rounded < exact - 2.0,
            "{rounded} bytes per operation, {exact} exact"
        );
        let (back, damage) = decode(&bytes);
        assert_eq!(damage, None);
        for (before, after) in groups.iter().zip(&back) {
            for (before, after) in before.records.iter().zip(&after.records) {
                assert_eq!(before.enter_ticks & !15, after.enter_ticks);
                assert_eq!(before.leave_ticks & !15, after.leave_ticks);
            }
        }
    }
}
