//! Live area in memory: typed access to the mapped bytes, which the recording threads and the background thread share.

use super::clock::{CALIBRATION_BYTES, Calibration};
use super::definition;
use super::layout::{
    CALIBRATION_ENTRIES, CALIBRATION_OFFSET, CHUNK_BYTES, LANE_BYTES, LIVE_MAGIC, LOSS_ENTRY_BYTES,
    LiveLayout, RECORDS_PER_CHUNK, chunk, header, lane,
};
use super::loss::{Loss, LossCause};
use super::record::{RECORD_BYTES, Record, RecordKind};
use super::record_slot;
use super::sequence_lock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// State of a live area (header field `STATE`).
pub mod state {
    /// The background thread is still creating the area.
    pub const STARTING: u32 = 0;
    /// Records are accepted.
    pub const RECORDING: u32 = 1;
    /// Recording has stopped because of the disk, a limit, or an internal failure.
    pub const STOPPED: u32 = 2;
    /// All records are in segments. The area is no longer needed.
    pub const CLOSED: u32 = 3;
}

/// State of a chunk (chunk field `STATE`).
pub mod chunk_state {
    /// The chunk is in the ring of free chunks, or about to be put there.
    pub const FREE: u32 = 0;
    /// A lane writes the chunk.
    pub const OWNED: u32 = 1;
    /// The lane has finished the chunk.
    pub const FULL: u32 = 2;
}

/// Mapped live area. A copy of this value copies only the pointer. The mapping is never undone while threads may write.
#[derive(Clone, Copy)]
pub struct Area {
    base: *mut u8,
    layout: LiveLayout,
}

// SAFETY: all shared words in the area are accessed through atomics. Only the thread that owns a chunk writes the plain
// words of its records. Others read them only after they have acquired the record's commit word.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// Wraps a mapping.
    ///
    /// # Safety
    /// `base` must be page-aligned and point to at least `layout.total_bytes()` zeroed or valid bytes. They must stay
    /// mapped, readable and writable, for as long as any copy of the result is used.
    pub const unsafe fn from_raw(base: *mut u8, layout: LiveLayout) -> Self {
        Self { base, layout }
    }

    /// Returns the sizes that determine the layout.
    pub const fn layout(&self) -> &LiveLayout {
        &self.layout
    }

    #[inline]
    fn u32_at(&self, offset: u64) -> &AtomicU32 {
        debug_assert!(offset.is_multiple_of(4) && offset + 4 <= self.layout.total_bytes());
        // SAFETY: the offset is inside the mapping and aligned. Debug builds assert this above, and every caller
        // computes it from the layout. The mapping outlives `self` by the contract of `from_raw`.
        unsafe { &*self.base.add(offset as usize).cast::<AtomicU32>() }
    }

    #[inline]
    fn u64_at(&self, offset: u64) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= self.layout.total_bytes());
        // SAFETY: as in `u32_at`.
        unsafe { &*self.base.add(offset as usize).cast::<AtomicU64>() }
    }

    /// Writes the header page of a new area. The magic number is written last.
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

    /// Publishes that records left before this tick may be dropped. It must precede the drop.
    pub fn set_flight_from_ticks(&self, ticks: u64) {
        self.u64_at(header::FLIGHT_FROM_TICKS as u64)
            .fetch_max(ticks, Ordering::SeqCst);
    }

    /// Returns the tick before which records may have been dropped in flight mode; 0 if none were.
    pub fn flight_from_ticks(&self) -> u64 {
        self.u64_at(header::FLIGHT_FROM_TICKS as u64)
            .load(Ordering::SeqCst)
    }

    /// Returns the calibrations of the ring, in no particular order.
    pub fn calibrations(&self) -> Vec<Calibration> {
        let mut out = Vec::new();
        for position in 0..CALIBRATION_ENTRIES {
            let offset = (CALIBRATION_OFFSET + position * CALIBRATION_BYTES) as u64;
            let mut bytes = [0u8; CALIBRATION_BYTES];
            for (word, target) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let value = self.u64_at(offset + 8 * word as u64).load(Ordering::Acquire);
                *target = value.to_le_bytes();
            }
            out.extend(Calibration::from_bytes(&bytes).filter(|entry| entry.ticks != 0));
        }
        out
    }

    /// Publishes the size up to which the segment file is complete.
    pub fn set_segment_bytes(&self, value: u64) {
        self.u64_at(header::SEGMENT_BYTES as u64)
            .store(value, Ordering::Release);
    }

    /// Adds a calibration to the ring. The first entry is never overwritten.
    pub fn push_calibration(&self, entry: &Calibration) {
        let count = self.u32_at(header::CALIBRATIONS as u64).load(Ordering::Relaxed);
        let position = if count == 0 {
            0
        } else {
            1 + (count as usize - 1) % (CALIBRATION_ENTRIES - 1)
        };
        let offset = (CALIBRATION_OFFSET + position * CALIBRATION_BYTES) as u64;
        let bytes = entry.to_bytes();
        // The tick word is zero while the rest is being written, so that a reader never takes half an entry.
        self.u64_at(offset).store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, value) in bytes.chunks_exact(8).enumerate().skip(1) {
            let value = u64::from_le_bytes(value.try_into().unwrap_or_default());
            self.u64_at(offset + 8 * word as u64)
                .store(value, Ordering::Relaxed);
        }
        self.u64_at(offset).store(entry.ticks, Ordering::Release);
        self.u32_at(header::CALIBRATIONS as u64)
            .store(count.wrapping_add(1), Ordering::Release);
    }

    /// Appends a definition; returns false if the definitions are full. Any thread may call it. It takes no lock and
    /// does not allocate.
    pub fn define(&self, kind: u8, payload: &[u8]) -> bool {
        let bytes = definition::framed_bytes(payload.len()) as u64;
        // Reserves space only if the definition fits. Undoing a reservation could free bytes that another thread has
        // reserved since.
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

    /// Copies the definitions in `[from, used)` into `out` and returns the new end. Stops before a definition that is
    /// still being written.
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

    /// Publishes how many bytes of definitions are in segments.
    pub fn set_definitions_flushed(&self, bytes: u64) {
        self.u64_at(header::DEFINITIONS_FLUSHED as u64)
            .store(bytes, Ordering::Release);
    }

    /// Counts dropped records.
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

    /// Returns all losses counted so far.
    pub fn losses(&self) -> Vec<Loss> {
        let mut out = Vec::new();
        for &cause in LossCause::ALL {
            for &kind in RecordKind::ALL {
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
            // Lanes count these losses without times, because the hot path has time only for a counter.
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

    /// Returns the offset of a lane's block.
    pub const fn lane_offset(&self, index: u32) -> u64 {
        self.layout.lanes_offset() + index as u64 * LANE_BYTES as u64
    }

    /// Stores the owner of a lane.
    pub fn own_lane(&self, index: u32, thread_id: u32) {
        let offset = self.lane_offset(index);
        self.u32_at(offset + lane::THREAD_ID as u64)
            .store(thread_id, Ordering::Relaxed);
        self.u32_at(offset + lane::STATE as u64)
            .store(1, Ordering::Release);
    }

    /// Marks a lane as free for its next owner.
    pub fn free_lane(&self, index: u32) {
        self.u32_at(self.lane_offset(index) + lane::STATE as u64)
            .store(2, Ordering::Release);
    }

    /// Counts a call that found no free in-flight slot.
    pub fn count_in_flight_lost(&self, index: u32) {
        self.u64_at(self.lane_offset(index) + lane::IN_FLIGHT_LOST as u64)
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Returns an in-flight slot of a lane.
    #[inline]
    pub fn call_slot(&self, index: u32, slot: u32) -> &[AtomicU64; 8] {
        // At all callers `slot` is below IN_FLIGHT_SLOTS and `index` below the lane count.
        self.words_at(self.lane_offset(index) + 64 + u64::from(slot) * RECORD_BYTES as u64)
    }

    /// Returns the words of a record or an in-flight slot.
    #[inline]
    fn words_at(&self, offset: u64) -> &[AtomicU64; 8] {
        debug_assert!(offset.is_multiple_of(64) && offset + 64 <= self.layout.total_bytes());
        // SAFETY: as in `u32_at`.
        unsafe { &*self.base.add(offset as usize).cast() }
    }

    /// Returns the offset of a chunk.
    pub const fn chunk_offset(&self, index: u32) -> u64 {
        self.layout.chunks_offset() + index as u64 * CHUNK_BYTES as u64
    }

    /// Returns the address of a chunk.
    #[inline]
    pub fn chunk_address(&self, index: u32) -> *mut u8 {
        // SAFETY: inside the mapping: `index` comes from the ring of free chunks, whose entries are below the chunk
        // count.
        unsafe { self.base.add(self.chunk_offset(index) as usize) }
    }

    /// Assigns a free chunk to a lane and returns its generation.
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

    /// Marks a chunk as full.
    pub fn fill_chunk(&self, index: u32) {
        self.u32_at(self.chunk_offset(index) + chunk::STATE as u64)
            .store(chunk_state::FULL, Ordering::Release);
    }

    /// Reads the header line of a chunk.
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

    /// Stores how many records of a chunk are in segments.
    pub fn set_chunk_flushed(&self, index: u32, records: u32) {
        self.u32_at(self.chunk_offset(index) + chunk::FLUSHED as u64)
            .store(records, Ordering::Release);
    }

    /// Makes the records of a chunk stale and frees it. The generation changes first: from that store on no reader
    /// takes the records, whatever follows.
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

    /// Copies the committed records `[first, …)` of a chunk into `out`, up to the first one that is not committed.
    pub fn copy_records(&self, index: u32, generation: u32, first: u32, out: &mut Vec<Record>) {
        let offset = self.chunk_offset(index);
        for position in first as usize..RECORDS_PER_CHUNK {
            let at = offset + ((position + 1) * RECORD_BYTES) as u64;
            let [first, rest @ ..] = self.words_at(at);
            let Some((word, [b0, b1, b2, b3, b4, b5, b6])) = record_slot::copy(first, rest, generation)
            else {
                return;
            };
            out.push(Record::from_words([word, b0, b1, b2, b3, b4, b5, b6]));
        }
    }

    /// Copies the calls in progress of the first `lanes` lanes: (lane, thread ID, record without leave).
    pub fn in_flight(&self, lanes: u32) -> Vec<(u32, u32, Record)> {
        let mut out = Vec::new();
        for index in 0..lanes.min(self.layout.lane_count) {
            let offset = self.lane_offset(index);
            if self.u32_at(offset + lane::STATE as u64).load(Ordering::Acquire) == 0 {
                continue;
            }
            let thread_id = self
                .u32_at(offset + lane::THREAD_ID as u64)
                .load(Ordering::Relaxed);
            for slot in 0..super::layout::IN_FLIGHT_SLOTS as u32 {
                let [first, rest @ ..] = self.call_slot(index, slot);
                if let Some((commit_word, [b0, b1, b2, b3, b4, b5, b6])) = sequence_lock::copy(first, rest) {
                    let words = [commit_word, b0, b1, b2, b3, b4, b5, b6];
                    let record = Record {
                        // Of the slot, and without meaning outside it.
                        generation: 0,
                        ..Record::from_words(words)
                    };
                    out.push((index, thread_id, record));
                }
            }
        }
        out
    }
}

/// Header line of a chunk as read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// State of the chunk: [`chunk_state`].
    pub state: u32,
    /// Generation of the records.
    pub generation: u32,
    /// Lane that writes the chunk.
    pub lane: u32,
    /// Thread ID of the lane's owner when it took the chunk.
    pub thread_id: u32,
    /// Ordinal of the chunk in its lane.
    pub ordinal: u64,
    /// Number of records that are already in segments.
    pub flushed: u32,
}
