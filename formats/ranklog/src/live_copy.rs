//! Copy of what a live area contains, taken while its process may write.
//!
//! Only used parts are read. Most chunks of a live area are free, and a look at a running job should cost it nothing.

use super::layout::{
    CHUNK_BYTES, HEADER_BYTES, IN_FLIGHT_SLOTS, LANE_BYTES, LIVE_MAGIC, LOSS_TABLE_BYTES, RECORDS_PER_CHUNK,
    chunk, header, lane,
};
use super::little_endian::{u32_at, u64_at};
use super::record::RECORD_BYTES;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

/// Number of lanes that are read at once. Most processes use fewer.
const LANES_AT_ONCE: usize = 16;

/// Number of copies of a slot that changes all the time. Such a call is not stuck.
const SLOT_ATTEMPTS: usize = 8;

/// Used parts of a live area. A part that the header places outside the file is missing.
pub(super) struct LiveCopy {
    /// Header page and loss table.
    pub(super) front: Vec<u8>,
    /// Blocks of the lanes, from the first one to the last one in use.
    pub(super) lanes: Vec<u8>,
    /// True if the file ends before the last lane.
    pub(super) lanes_are_cut: bool,
    /// Definitions that are not in the segments, with their offset in the file. `None`: they are outside the file.
    pub(super) definitions: Option<(u64, Vec<u8>)>,
    /// Used chunks by index. No chunk was taken after a chunk that is missing here.
    pub(super) chunks: Vec<(u32, Vec<u8>)>,
    /// First chunk that is outside the file.
    pub(super) first_chunk_outside: Option<u32>,
}

impl LiveCopy {
    /// Reads a live area. Each in-flight slot is one call, or free.
    ///
    /// The slots are read before the records. So a call that ends meanwhile is in progress, or has a record, or both.
    /// The definitions are read last, so that those of all records are known.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let file_bytes = file.metadata()?.len();
        let mut front = vec![0u8; HEADER_BYTES + LOSS_TABLE_BYTES];
        let got = read_up_to(&file, &mut front, 0)?;
        front.truncate(got);
        let mut copy = Self {
            front,
            lanes: Vec::new(),
            lanes_are_cut: false,
            definitions: Some((0, Vec::new())),
            chunks: Vec::new(),
            first_chunk_outside: None,
        };
        if u64_at(&copy.front, header::MAGIC) != LIVE_MAGIC {
            return Ok(copy);
        }
        copy.read_lanes(&file, file_bytes)?;
        copy.read_chunks(&file, file_bytes)?;
        copy.read_definitions(&file, file_bytes)?;
        // A chunk that was dropped while the area was read is before this tick, which was raised before the drop.
        copy.refresh(&file, header::FLIGHT_FROM_TICKS)?;
        Ok(copy)
    }

    /// Reads eight bytes of the header again.
    fn refresh(&mut self, file: &File, at: usize) -> io::Result<()> {
        match self.front.get_mut(at..at + 8) {
            Some(field) => file.read_exact_at(field, at as u64),
            None => Ok(()),
        }
    }

    fn read_lanes(&mut self, file: &File, file_bytes: u64) -> io::Result<()> {
        let start = u64_at(&self.front, header::LANES_OFFSET);
        let available = file_bytes.saturating_sub(start) / LANE_BYTES as u64;
        let count = u64::from(u32_at(&self.front, header::LANE_COUNT));
        self.lanes_are_cut = available < count;
        let count = count.min(available) as usize;
        // Threads take unused lanes in order.
        let mut used = 0;
        let mut block = vec![0u8; LANE_BYTES * LANES_AT_ONCE];
        while used < count {
            let lanes = LANES_AT_ONCE.min(count - used);
            let bytes = &mut block[..lanes * LANE_BYTES];
            file.read_exact_at(bytes, start + (used * LANE_BYTES) as u64)?;
            let in_use = |lane: &[u8; LANE_BYTES]| u32_at(lane, lane::STATE) != 0;
            let Some(last) = bytes.as_chunks().0.iter().rposition(in_use) else {
                break;
            };
            used += last + 1;
            if last + 1 < lanes {
                break;
            }
        }
        self.lanes = read_slots(file, start, used * LANE_BYTES)?;
        Ok(())
    }

    /// Reads the chunks that are in use now: a prefix of each lane.
    fn read_chunks(&mut self, file: &File, file_bytes: u64) -> io::Result<()> {
        let start = u64_at(&self.front, header::CHUNKS_OFFSET);
        let count = u32_at(&self.front, header::CHUNK_COUNT);
        let available = file_bytes.saturating_sub(start) / CHUNK_BYTES as u64;
        let inside = u64::from(count).min(available) as u32;
        self.first_chunk_outside = (inside < count).then_some(inside);
        let offset_of = |index: u32| start + u64::from(index) * CHUNK_BYTES as u64;
        let look = |index: u32| -> io::Result<[u8; RECORD_BYTES]> {
            let mut head = [0u8; RECORD_BYTES];
            file.read_exact_at(&mut head, offset_of(index))?;
            Ok(head)
        };
        let look_at_all = || {
            (0..inside)
                .map(look)
                .map(|head| Ok(ChunkHead::of(&head?)))
                .collect::<io::Result<Vec<_>>>()
        };
        let first = look_at_all()?;
        // A process that records nothing has no chunk, and needs no second look.
        let second = if first.iter().all(|head| head.is_free) {
            Vec::new()
        } else {
            look_at_all()?
        };
        for (index, expected) in prefix_of_lanes(&first, &second) {
            let read = || -> io::Result<Vec<u8>> {
                let mut bytes = vec![0u8; CHUNK_BYTES];
                file.read_exact_at(&mut bytes, offset_of(index))?;
                // The kernel copies in any order. With this fence, a record whose commit word is in one copy is whole
                // in the next one.
                fence(Ordering::SeqCst);
                Ok(bytes)
            };
            let (before, mut bytes) = (read()?, read()?);
            keep_committed(&before, &mut bytes);
            // A chunk that was recycled meanwhile may be a mixture of two owners. Its records are in the segments, or
            // flight mode dropped them.
            let is_same = |head: &[u8]| ChunkHead::of(head).identity == expected;
            if is_same(&bytes) && is_same(&look(index)?) {
                self.chunks.push((index, bytes));
            }
        }
        Ok(())
    }

    fn read_definitions(&mut self, file: &File, file_bytes: u64) -> io::Result<()> {
        // The process raises the second field after it has written to the segments, and the first one before.
        self.refresh(file, header::DEFINITIONS_FLUSHED)?;
        self.refresh(file, header::DEFINITIONS_USED)?;
        let start = u64_at(&self.front, header::DEFINITIONS_OFFSET);
        let capacity = u64_at(&self.front, header::DEFINITIONS_BYTES);
        let used = u64_at(&self.front, header::DEFINITIONS_USED).min(capacity);
        let flushed = u64_at(&self.front, header::DEFINITIONS_FLUSHED).min(used);
        let end = start.checked_add(used).filter(|&end| end <= file_bytes);
        self.definitions = match end {
            None => None,
            Some(_) => {
                let mut bytes = vec![0u8; (used - flushed) as usize];
                file.read_exact_at(&mut bytes, start + flushed)?;
                Some((start + flushed, bytes))
            }
        };
        Ok(())
    }
}

/// What the header line of a chunk says at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChunkHead {
    is_free: bool,
    lane: u32,
    identity: ChunkIdentity,
}

/// Distinguishes the uses of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChunkIdentity {
    generation: u32,
    ordinal: u64,
}

impl ChunkHead {
    fn of(bytes: &[u8]) -> Self {
        Self {
            is_free: u32_at(bytes, chunk::STATE) == 0,
            lane: u32_at(bytes, chunk::LANE),
            identity: ChunkIdentity {
                generation: u32_at(bytes, chunk::GENERATION),
                ordinal: u64_at(bytes, chunk::ORDINAL),
            },
        }
    }
}

/// Chooses chunks that are a prefix of each lane, from two looks at all chunks one after the other.
///
/// The first look finds a newest chunk of each lane. A look takes time, so the lane may have taken an older chunk after the
/// look had passed it. The second look finds these. Chunks that are newer are left out. Chunks that are older are complete.
fn prefix_of_lanes(first: &[ChunkHead], second: &[ChunkHead]) -> BTreeMap<u32, ChunkIdentity> {
    let mut chosen = BTreeMap::new();
    let mut newest: BTreeMap<u32, u64> = BTreeMap::new();
    for (index, head) in (0..).zip(first).filter(|(_, head)| !head.is_free) {
        chosen.insert(index, head.identity);
        let of_lane = newest.entry(head.lane).or_insert(0);
        *of_lane = head.identity.ordinal.max(*of_lane);
    }
    for (index, head) in (0..).zip(second).filter(|(_, head)| !head.is_free) {
        let newest = newest.get(&head.lane);
        if newest.is_some_and(|&newest| head.identity.ordinal < newest) {
            chosen.insert(index, head.identity);
        }
    }
    chosen
}

/// Makes the records of a chunk stale that were not committed in an earlier copy.
fn keep_committed(before: &[u8], bytes: &mut [u8]) {
    let generation = u32_at(before, chunk::GENERATION);
    let committed = (1..=RECORDS_PER_CHUNK)
        .take_while(|position| u32_at(before, position * RECORD_BYTES) == generation)
        .count();
    let next = (committed + 1) * RECORD_BYTES;
    if let Some(commit_word) = bytes.get_mut(next..next + 8) {
        // No record has generation 0.
        commit_word.fill(0);
    }
}

/// Reads lane blocks until each slot was the same call before and after it was read. A slot that never is becomes free.
///
/// The generation in the first word is different for each call, so an equal first word means that the slot did not
/// change in between ([`super::sequence_lock`]). A copy by the kernel has no order, so the first words are read before and
/// after the copy whose other words count, and in it: a free slot may have been another call meanwhile.
fn read_slots(file: &File, start: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let read = || {
        let mut copy = vec![0u8; bytes];
        file.read_exact_at(&mut copy, start)?;
        fence(Ordering::SeqCst);
        Ok::<_, io::Error>(copy)
    };
    let [mut before, mut copy] = [read()?, read()?];
    let mut result = copy.clone();
    let slots = (0..bytes / LANE_BYTES)
        .flat_map(|lane| (0..IN_FLIGHT_SLOTS).map(move |slot| lane * LANE_BYTES + 64 + slot * RECORD_BYTES));
    let mut changing: Vec<usize> = slots.collect();
    for _ in 0..SLOT_ATTEMPTS {
        let after = read()?;
        changing.retain(|&at| {
            let first_word = u64_at(&before, at);
            let is_same = first_word == u64_at(&copy, at) && first_word == u64_at(&after, at);
            let slot = copy.get(at..at + RECORD_BYTES);
            let target = result.get_mut(at..at + RECORD_BYTES);
            if is_same && let (Some(slot), Some(target)) = (slot, target) {
                target.copy_from_slice(slot);
            }
            !is_same
        });
        if changing.is_empty() {
            break;
        }
        (before, copy) = (copy, after);
    }
    for at in changing {
        if let Some(slot) = result.get_mut(at..at + RECORD_BYTES) {
            slot.fill(0);
        }
    }
    Ok(result)
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes.
pub(super) fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read_at(&mut buffer[got..], offset.saturating_add(got as u64)) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: ChunkHead = used(0, 1, 0, true);

    const fn used(lane: u32, generation: u32, ordinal: u64, is_free: bool) -> ChunkHead {
        ChunkHead {
            is_free,
            lane,
            identity: ChunkIdentity { generation, ordinal },
        }
    }

    fn chosen(first: &[ChunkHead], second: &[ChunkHead]) -> Vec<(u32, u64)> {
        let chosen = prefix_of_lanes(first, second);
        chosen
            .iter()
            .map(|(&index, head)| (index, head.ordinal))
            .collect()
    }

    #[test]
    fn chunks_that_were_taken_behind_the_first_look_are_found_and_newer_ones_are_not() {
        let of = |lane, generation, ordinal| used(lane, generation, ordinal, false);
        // Lane 0 took chunk 0 after the look had passed it, and then chunk 3 before the look reached it.
        let first = [FREE, of(0, 1, 4), of(1, 1, 7), of(0, 1, 6), FREE];
        let second = [of(0, 1, 5), of(0, 1, 4), of(1, 1, 7), of(0, 1, 6), of(0, 1, 7)];
        assert_eq!(chosen(&first, &second), [(0, 5), (1, 4), (2, 7), (3, 6)]);
        // Chunk 1 was recycled, and lane 1 took it before its newest chunk: it is read with its new identity.
        let first = [FREE, of(0, 1, 4), of(1, 1, 9)];
        let second = [FREE, of(1, 2, 8), of(1, 1, 9)];
        assert_eq!(chosen(&first, &second), [(1, 8), (2, 9)]);
        // A lane that the first look did not see has only newer chunks.
        assert_eq!(
            chosen(&[FREE, of(1, 1, 9)], &[of(2, 1, 0), of(1, 1, 9)]),
            [(1, 9)]
        );
    }
}
