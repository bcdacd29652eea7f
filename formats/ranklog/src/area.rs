//! A live area in memory: typed access to the mapped bytes, shared by the writing threads and the background thread.

use super::clock::{CALIBRATION_BYTES, Calibration};
use super::definition;
use super::layout::{
    CALIBRATION_ENTRIES, CALIBRATION_OFFSET, CHUNK_BYTES, LANE_BYTES, LIVE_MAGIC, LOSS_ENTRY_BYTES,
    LiveLayout, RECORDS_PER_CHUNK, chunk, header, lane,
};
use super::loss::{Loss, LossCause};
use super::record::{RECORD_BYTES, Record, RecordKind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// State of a live area (header field `STATE`).
pub mod state {
    /// The background thread is still making it.
    pub const STARTING: u32 = 0;
    /// Records are taken.
    pub const RECORDING: u32 = 1;
    /// Recording has stopped: disk, limit, or a failure of ours.
    pub const STOPPED: u32 = 2;
    /// Everything is in segments; the area is of no use any more.
    pub const CLOSED: u32 = 3;
}

/// State of a chunk (chunk field `STATE`).
pub mod chunk_state {
    /// In the ring of free chunks, or on its way there.
    pub const FREE: u32 = 0;
    /// A lane writes it.
    pub const OWNED: u32 = 1;
    /// Its lane has left it.
    pub const FULL: u32 = 2;
}

/// A mapped live area. Copying it copies the pointer: the mapping itself is never undone while threads may write.
#[derive(Clone, Copy)]
pub struct Area {
    base: *mut u8,
    layout: LiveLayout,
}

// SAFETY: all shared words in the area are accessed through atomics; the plain words of a record are written by the
// one thread that owns the chunk and read by others only after they have acquired the record's commit word.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// Wraps a mapping.
    ///
    /// # Safety
    /// `base` must point to at least `layout.total_bytes()` zeroed or valid bytes, page-aligned, mapped readable and
    /// writable for as long as any copy of the result is used.
    pub const unsafe fn from_raw(base: *mut u8, layout: LiveLayout) -> Self {
        Self { base, layout }
    }

    /// The numbers that fix the layout.
    pub const fn layout(&self) -> &LiveLayout {
        &self.layout
    }

    #[inline]
    fn u32_at(&self, offset: u64) -> &AtomicU32 {
        debug_assert!(offset.is_multiple_of(4) && offset + 4 <= self.layout.total_bytes());
        // SAFETY: the offset is inside the mapping and aligned (asserted above in debug builds; every caller computes
        // it from the layout), and the mapping outlives `self` by `from_raw`'s contract.
        unsafe { &*self.base.add(offset as usize).cast::<AtomicU32>() }
    }

    #[inline]
    fn u64_at(&self, offset: u64) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= self.layout.total_bytes());
        // SAFETY: as in `u32_at`.
        unsafe { &*self.base.add(offset as usize).cast::<AtomicU64>() }
    }

    /// Writes the header page of a new area; the magic goes last.
    pub fn initialise(&self, nonce: u64, pid: u32, counter: u32, start_ticks: u64) {
        let put32 = |at: usize, value: u32| self.u32_at(at as u64).store(value, Ordering::Relaxed);
        let put64 = |at: usize, value: u64| self.u64_at(at as u64).store(value, Ordering::Relaxed);
        put32(header::VERSION, super::layout::FORMAT_VERSION);
        put32(header::HEADER_BYTES, super::layout::HEADER_BYTES as u32);
        put64(header::NONCE, nonce);
        put64(header::TOTAL_BYTES, self.layout.total_bytes());
        put32(header::PID, pid);
        put32(header::LANE_COUNT, self.layout.lane_count);
        put32(header::CHUNK_COUNT, self.layout.chunk_count);
        put64(header::LANES_OFFSET, self.layout.lanes_offset());
        put64(header::DEFINITIONS_OFFSET, self.layout.definitions_offset());
        put64(header::DEFINITIONS_BYTES, self.layout.definitions_bytes);
        put64(header::CHUNKS_OFFSET, self.layout.chunks_offset());
        put32(header::COUNTER, counter);
        put64(header::START_TICKS, start_ticks);
        for index in 0..self.layout.chunk_count {
            self.u32_at(self.chunk_offset(index) + chunk::GENERATION as u64)
                .store(1, Ordering::Relaxed);
        }
        self.u64_at(header::MAGIC as u64)
            .store(LIVE_MAGIC, Ordering::Release);
    }

    /// Sets the state that a reader sees.
    pub fn set_state(&self, value: u32) {
        self.u32_at(header::STATE as u64).store(value, Ordering::Release);
    }

    /// Tells a reader how far the segment file is whole.
    pub fn set_segment_bytes(&self, value: u64) {
        self.u64_at(header::SEGMENT_BYTES as u64)
            .store(value, Ordering::Release);
    }

    /// Adds a calibration to the ring; the first entry is never overwritten.
    pub fn push_calibration(&self, entry: &Calibration) {
        let count = self.u32_at(header::CALIBRATIONS as u64).load(Ordering::Relaxed);
        let position = if count == 0 {
            0
        } else {
            1 + (count as usize - 1) % (CALIBRATION_ENTRIES - 1)
        };
        let offset = (CALIBRATION_OFFSET + position * CALIBRATION_BYTES) as u64;
        let bytes = entry.to_bytes();
        // The tick word is zero while the rest is being written, so a reader never takes half an entry.
        self.u64_at(offset).store(0, Ordering::Release);
        for (word, value) in bytes.chunks_exact(8).enumerate().skip(1) {
            let value = u64::from_le_bytes(value.try_into().unwrap_or_default());
            self.u64_at(offset + 8 * word as u64)
                .store(value, Ordering::Relaxed);
        }
        self.u64_at(offset).store(entry.ticks, Ordering::Release);
        self.u32_at(header::CALIBRATIONS as u64)
            .store(count.wrapping_add(1), Ordering::Release);
    }

    /// Appends a definition; false if the definitions are full. Any thread; no lock, no allocation.
    pub fn define(&self, kind: u8, payload: &[u8]) -> bool {
        let bytes = definition::framed_bytes(payload.len()) as u64;
        // Only what fits is reserved: giving a reservation back could free bytes that another thread has taken since.
        let reserved = self.u64_at(header::DEFINITIONS_USED as u64).fetch_update(
            Ordering::AcqRel,
            Ordering::Relaxed,
            |used| Some(used + bytes).filter(|&end| end <= self.layout.definitions_bytes),
        );
        let Ok(at) = reserved else { return false };
        let offset = self.layout.definitions_offset() + at;
        for (word, part) in payload.chunks(8).enumerate() {
            let mut value = [0u8; 8];
            value[..part.len()].copy_from_slice(part);
            self.u64_at(offset + 8 + 8 * word as u64)
                .store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
        self.u64_at(offset)
            .store(definition::commit_word(kind, payload), Ordering::Release);
        true
    }

    /// Copies the definitions in `[from, used)` into `out`; returns the new end. Stops before one still being written.
    pub fn copy_definitions(&self, from: u64, out: &mut Vec<u8>) -> u64 {
        let used = self
            .u64_at(header::DEFINITIONS_USED as u64)
            .load(Ordering::Acquire);
        let end = used.min(self.layout.definitions_bytes);
        let mut at = from;
        while at < end {
            let offset = self.layout.definitions_offset() + at;
            let word = self.u64_at(offset).load(Ordering::Acquire);
            if word == 0 {
                break;
            }
            let bytes = definition::framed_bytes((word & 0xFF_FFFF) as usize) as u64;
            if at + bytes > end {
                break;
            }
            out.extend_from_slice(&word.to_le_bytes());
            for step in (8..bytes).step_by(8) {
                out.extend_from_slice(&self.u64_at(offset + step).load(Ordering::Relaxed).to_le_bytes());
            }
            at += bytes;
        }
        at
    }

    /// Tells a reader how many bytes of definitions are in segments.
    pub fn set_definitions_flushed(&self, bytes: u64) {
        self.u64_at(header::DEFINITIONS_FLUSHED as u64)
            .store(bytes, Ordering::Release);
    }

    /// Counts what was not recorded.
    pub fn count_loss(
        &self,
        cause: LossCause,
        kind: RecordKind,
        count: u64,
        first_ticks: u64,
        last_ticks: u64,
    ) {
        let index = cause as usize * RecordKind::PLACES + kind.place();
        let offset = self.layout.losses_offset() + (index * LOSS_ENTRY_BYTES) as u64;
        let first = self.u64_at(offset + 8);
        if first.load(Ordering::Relaxed) == 0 {
            let _ = first.compare_exchange(0, first_ticks.max(1), Ordering::Relaxed, Ordering::Relaxed);
        }
        self.u64_at(offset + 16).fetch_max(last_ticks, Ordering::Relaxed);
        self.u64_at(offset).fetch_add(count, Ordering::Release);
    }

    /// All losses counted so far.
    pub fn losses(&self) -> Vec<Loss> {
        let mut out = Vec::new();
        for cause in (0..LossCause::COUNT as u8).filter_map(LossCause::from_u8) {
            for kind in (0..RecordKind::COUNT as u8).filter_map(RecordKind::from_u8) {
                let index = cause as usize * RecordKind::PLACES + kind.place();
                let offset = self.layout.losses_offset() + (index * LOSS_ENTRY_BYTES) as u64;
                let count = self.u64_at(offset).load(Ordering::Acquire);
                if count > 0 {
                    out.push(Loss {
                        cause,
                        kind,
                        count,
                        first_ticks: self.u64_at(offset + 8).load(Ordering::Relaxed),
                        last_ticks: self.u64_at(offset + 16).load(Ordering::Relaxed),
                    });
                }
            }
        }
        let count = (0..self.layout.lane_count)
            .map(|index| {
                self.u64_at(self.lane_offset(index) + lane::IN_FLIGHT_LOST as u64)
                    .load(Ordering::Relaxed)
            })
            .sum();
        if count > 0 {
            // Lanes count them without a time: on the hot path a number is all there is room for.
            let start_ticks = self.u64_at(header::START_TICKS as u64).load(Ordering::Relaxed);
            out.push(Loss {
                cause: LossCause::NoInFlightSlot,
                kind: RecordKind::Call,
                count,
                first_ticks: start_ticks,
                last_ticks: start_ticks,
            });
        }
        out
    }

    /// Offset of a lane's block.
    pub const fn lane_offset(&self, index: u32) -> u64 {
        self.layout.lanes_offset() + index as u64 * LANE_BYTES as u64
    }

    /// Names the owner of a lane.
    pub fn own_lane(&self, index: u32, thread_id: u32) {
        let offset = self.lane_offset(index);
        self.u32_at(offset + lane::THREAD_ID as u64)
            .store(thread_id, Ordering::Relaxed);
        self.u32_at(offset + lane::STATE as u64)
            .store(1, Ordering::Release);
    }

    /// Says that a lane waits for its next owner.
    pub fn free_lane(&self, index: u32) {
        self.u32_at(self.lane_offset(index) + lane::STATE as u64)
            .store(2, Ordering::Release);
    }

    /// Counts a call for which no in-flight slot was left.
    pub fn count_in_flight_lost(&self, index: u32) {
        self.u64_at(self.lane_offset(index) + lane::IN_FLIGHT_LOST as u64)
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Address of a lane's in-flight slot.
    #[inline]
    pub fn in_flight_slot(&self, index: u32, slot: u32) -> *mut u64 {
        let offset = self.lane_offset(index) + 64 + u64::from(slot) * RECORD_BYTES as u64;
        // SAFETY: inside the mapping: `slot` is below IN_FLIGHT_SLOTS and `index` below the lane count at all callers.
        unsafe { self.base.add(offset as usize).cast() }
    }

    /// Offset of a chunk.
    pub const fn chunk_offset(&self, index: u32) -> u64 {
        self.layout.chunks_offset() + index as u64 * CHUNK_BYTES as u64
    }

    /// Address of a chunk.
    #[inline]
    pub fn chunk_address(&self, index: u32) -> *mut u8 {
        // SAFETY: inside the mapping: `index` comes from the ring of free chunks, all below the chunk count.
        unsafe { self.base.add(self.chunk_offset(index) as usize) }
    }

    /// Gives a free chunk to a lane; returns its generation.
    pub fn own_chunk(&self, index: u32, lane: u32, thread_id: u32, ordinal: u64) -> u32 {
        let offset = self.chunk_offset(index);
        self.u32_at(offset + chunk::LANE as u64)
            .store(lane, Ordering::Relaxed);
        self.u32_at(offset + chunk::THREAD_ID as u64)
            .store(thread_id, Ordering::Relaxed);
        self.u64_at(offset + chunk::ORDINAL as u64)
            .store(ordinal, Ordering::Relaxed);
        let generation = self
            .u32_at(offset + chunk::GENERATION as u64)
            .load(Ordering::Relaxed);
        self.u32_at(offset + chunk::STATE as u64)
            .store(chunk_state::OWNED, Ordering::Release);
        generation
    }

    /// Says that a lane has filled a chunk.
    pub fn fill_chunk(&self, index: u32) {
        self.u32_at(self.chunk_offset(index) + chunk::STATE as u64)
            .store(chunk_state::FULL, Ordering::Release);
    }

    /// A chunk's header line.
    pub fn chunk_header(&self, index: u32) -> ChunkHeader {
        let offset = self.chunk_offset(index);
        ChunkHeader {
            state: self.u32_at(offset + chunk::STATE as u64).load(Ordering::Acquire),
            generation: self
                .u32_at(offset + chunk::GENERATION as u64)
                .load(Ordering::Relaxed),
            lane: self.u32_at(offset + chunk::LANE as u64).load(Ordering::Relaxed),
            thread_id: self
                .u32_at(offset + chunk::THREAD_ID as u64)
                .load(Ordering::Relaxed),
            ordinal: self
                .u64_at(offset + chunk::ORDINAL as u64)
                .load(Ordering::Relaxed),
            flushed: self
                .u32_at(offset + chunk::FLUSHED as u64)
                .load(Ordering::Relaxed),
        }
    }

    /// Remembers how many records of a chunk are in segments.
    pub fn set_chunk_flushed(&self, index: u32, records: u32) {
        self.u32_at(self.chunk_offset(index) + chunk::FLUSHED as u64)
            .store(records, Ordering::Release);
    }

    /// Makes a chunk's records stale and frees it. The generation changes first: from that store on no reader takes
    /// them, whatever comes after.
    pub fn recycle_chunk(&self, index: u32) {
        let offset = self.chunk_offset(index);
        let generation = self.u32_at(offset + chunk::GENERATION as u64);
        let next = generation.load(Ordering::Relaxed).wrapping_add(1).max(1);
        generation.store(next, Ordering::Release);
        self.u32_at(offset + chunk::FLUSHED as u64)
            .store(0, Ordering::Release);
        self.u32_at(offset + chunk::STATE as u64)
            .store(chunk_state::FREE, Ordering::Release);
    }

    /// Copies the committed records `[first, …)` of a chunk into `out`, up to the first that is not committed.
    pub fn copy_records(&self, index: u32, generation: u32, first: u32, out: &mut Vec<Record>) {
        let offset = self.chunk_offset(index);
        for position in first as usize..RECORDS_PER_CHUNK {
            let at = offset + ((position + 1) * RECORD_BYTES) as u64;
            let word = self.u64_at(at).load(Ordering::Acquire);
            if word as u32 != generation {
                return;
            }
            let mut words = [word; 8];
            for (step, value) in words.iter_mut().enumerate().skip(1) {
                *value = self.u64_at(at + 8 * step as u64).load(Ordering::Relaxed);
            }
            out.push(Record::from_words(words));
        }
    }

    /// Copies the calls in progress of all lanes: (lane, thread id, record without leave).
    pub fn in_flight(&self) -> Vec<(u32, u32, Record)> {
        let mut out = Vec::new();
        for index in 0..self.layout.lane_count {
            let offset = self.lane_offset(index);
            if self.u32_at(offset + lane::STATE as u64).load(Ordering::Acquire) == 0 {
                continue;
            }
            let thread_id = self
                .u32_at(offset + lane::THREAD_ID as u64)
                .load(Ordering::Relaxed);
            for slot in 0..super::layout::IN_FLIGHT_SLOTS as u64 {
                let at = offset + 64 + slot * RECORD_BYTES as u64;
                let word = self.u64_at(at).load(Ordering::Acquire);
                if word == 0 {
                    continue;
                }
                let mut words = [word; 8];
                for (step, value) in words.iter_mut().enumerate().skip(1) {
                    *value = self.u64_at(at + 8 * step as u64).load(Ordering::Relaxed);
                }
                // The owner may have left and entered another call between the loads: then the word has changed or
                // is zero, and what was copied is a mixture.
                if self.u64_at(at).load(Ordering::Acquire) == word {
                    out.push((index, thread_id, Record::from_words(words)));
                }
            }
        }
        out
    }
}

/// A chunk's header line as read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// [`chunk_state`].
    pub state: u32,
    /// Generation of its records.
    pub generation: u32,
    /// Lane that writes it.
    pub lane: u32,
    /// Thread id of the lane's owner when it took the chunk.
    pub thread_id: u32,
    /// Ordinal of the chunk in its lane.
    pub ordinal: u64,
    /// Records already in segments.
    pub flushed: u32,
}
