//! Layout of the live area. RANKLOG.md specifies it in section "Live area"; a test compares the two.

use super::record::RECORD_BYTES;

/// First eight bytes of a live area.
pub const LIVE_MAGIC: u64 = u64::from_le_bytes(*b"RSLIVE01");
/// First eight bytes of a segment file.
pub const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"RSLOG001");
/// Version of both layouts. A reader rejects newer versions with an error that names them.
pub const FORMAT_VERSION: u32 = 1;

/// Size of the header page of the live area, in bytes.
pub const HEADER_BYTES: usize = 4096;
/// Offset of the calibration ring inside the header page, in bytes.
pub const CALIBRATION_OFFSET: usize = 256;
/// Number of entries in the calibration ring. The first entry is never overwritten.
pub const CALIBRATION_ENTRIES: usize = 16;
/// Size of the loss table, in bytes. It follows the header page.
pub const LOSS_TABLE_BYTES: usize = 8192;
/// Size of the loss table in the oldest logs, in bytes. They had eight causes.
pub const FIRST_LOSS_TABLE_BYTES: usize = 4096;
/// Size of an entry of the loss table, in bytes: count, first and last tick, cause and kind.
pub const LOSS_ENTRY_BYTES: usize = 32;
/// Size of a lane's block, in bytes: a header line and the in-flight slots.
pub const LANE_BYTES: usize = 64 + IN_FLIGHT_SLOTS * RECORD_BYTES;
/// Number of slots per lane for blocking calls in progress. Calls nest (c10d → Gloo → message), so this is a nesting
/// depth.
pub const IN_FLIGHT_SLOTS: usize = 4;
/// Size of a chunk, in bytes: one header line and its records.
pub const CHUNK_BYTES: usize = 8192;
/// Number of records in a chunk.
pub const RECORDS_PER_CHUNK: usize = CHUNK_BYTES / RECORD_BYTES - 1;

/// Offsets of the fields in the header page.
pub mod header {
    /// u64: [`super::LIVE_MAGIC`]. It is stored last, when the area is ready.
    pub const MAGIC: usize = 0;
    /// u32: [`super::FORMAT_VERSION`].
    pub const VERSION: usize = 8;
    /// u32: size of the header page, in bytes.
    pub const HEADER_BYTES: usize = 12;
    /// u64: random number, which is also part of the name of the segment file.
    pub const NONCE: usize = 16;
    /// u64: size of the whole area, in bytes.
    pub const TOTAL_BYTES: usize = 24;
    /// u32: process ID in the process's own namespace.
    pub const PID: usize = 32;
    /// u32: 0 starting, 1 recording, 2 recording stopped, 3 closed (all records are in segments).
    pub const STATE: usize = 36;
    /// u32: number of lane blocks.
    pub const LANE_COUNT: usize = 40;
    /// u32: number of chunks.
    pub const CHUNK_COUNT: usize = 44;
    /// u64: offset of the lane blocks.
    pub const LANES_OFFSET: usize = 48;
    /// u64: offset of the definitions.
    pub const DEFINITIONS_OFFSET: usize = 56;
    /// u64: capacity of the definitions in bytes.
    pub const DEFINITIONS_BYTES: usize = 64;
    /// u64: offset of the first chunk.
    pub const CHUNKS_OFFSET: usize = 72;
    /// u64: bytes of definitions reserved so far. Each definition becomes valid by its own commit word.
    pub const DEFINITIONS_USED: usize = 80;
    /// u64: bytes of definitions that are already in the segment file.
    pub const DEFINITIONS_FLUSHED: usize = 88;
    /// u64: size of the segment file after the last complete frame, in bytes.
    pub const SEGMENT_BYTES: usize = 96;
    /// u32: meaning of ticks: 1 = time-stamp counter, 2 = CLOCK_MONOTONIC_RAW in nanoseconds, 3 = CNTVCT_EL0.
    pub const COUNTER: usize = 104;
    /// u32: number of calibrations taken so far; entry i is at ring position min(i, 1 + (i-1) mod 15).
    pub const CALIBRATIONS: usize = 108;
    /// u64: tick at which the area was created.
    pub const START_TICKS: usize = 112;
    /// u64: in flight mode, records that were left before this tick were dropped, or may have been. 0: none were.
    pub const FLIGHT_FROM_TICKS: usize = 120;
}

/// Offsets of the fields in a lane's header line.
pub mod lane {
    /// u32: 0 never used, 1 owned by a thread, 2 free for the next thread.
    pub const STATE: usize = 0;
    /// u32: thread ID of the owner.
    pub const THREAD_ID: usize = 4;
    /// u64: number of calls that found no in-flight slot.
    pub const IN_FLIGHT_LOST: usize = 8;
}

/// Offsets of the fields in a chunk's header line.
pub mod chunk {
    /// u32: generation. Records of another generation are stale.
    pub const GENERATION: usize = 0;
    /// u32: 0 free, 1 owned by a lane, 2 full.
    pub const STATE: usize = 4;
    /// u32: lane that writes the chunk.
    pub const LANE: usize = 8;
    /// u32: thread ID of the lane's owner at the time when it took the chunk.
    pub const THREAD_ID: usize = 12;
    /// u64: ordinal of the chunk in its lane, from 0.
    pub const ORDINAL: usize = 16;
    /// u32: number of records of this generation that are already in segments.
    pub const FLUSHED: usize = 24;
}

/// Sizes that determine the layout of a live area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveLayout {
    /// Number of lane blocks.
    pub lane_count: u32,
    /// Number of chunks.
    pub chunk_count: u32,
    /// Capacity of the definitions, in bytes.
    pub definitions_bytes: u64,
}

impl LiveLayout {
    /// Divides `total_bytes` among definitions, lanes and chunks; `None` if it is below the minimum of 256 KiB.
    pub fn for_bytes(total_bytes: u64) -> Option<Self> {
        if total_bytes < 256 * 1024 {
            return None;
        }
        let definitions_bytes = (total_bytes / 16).clamp(32 * 1024, 1024 * 1024) & !4095;
        let lane_count = (total_bytes / 16 / LANE_BYTES as u64).clamp(32, 2048) as u32;
        let mut layout = Self {
            lane_count,
            chunk_count: 0,
            definitions_bytes,
        };
        let left = total_bytes.checked_sub(layout.chunks_offset())?;
        layout.chunk_count = u32::try_from(left / CHUNK_BYTES as u64).ok()?;
        (layout.chunk_count >= 8).then_some(layout)
    }

    /// Returns the offset of the loss table, in bytes.
    pub const fn losses_offset(&self) -> u64 {
        HEADER_BYTES as u64
    }

    /// Returns the offset of the lane blocks, in bytes.
    pub const fn lanes_offset(&self) -> u64 {
        (HEADER_BYTES + LOSS_TABLE_BYTES) as u64
    }

    /// Returns the offset of the definitions, in bytes. It is aligned to a page.
    pub const fn definitions_offset(&self) -> u64 {
        (self.lanes_offset() + self.lane_count as u64 * LANE_BYTES as u64 + 4095) & !4095
    }

    /// Returns the offset of the first chunk, in bytes. It is aligned to a page.
    pub const fn chunks_offset(&self) -> u64 {
        self.definitions_offset() + self.definitions_bytes
    }

    /// Returns the size of the whole area, in bytes.
    pub const fn total_bytes(&self) -> u64 {
        self.chunks_offset() + self.chunk_count as u64 * CHUNK_BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_fit_and_are_aligned() {
        for total in [256 * 1024, 1 << 20, 8 << 20, 64 << 20] {
            let layout = LiveLayout::for_bytes(total).expect("large enough");
            assert!(layout.total_bytes() <= total);
            assert_eq!(layout.definitions_offset() % 4096, 0);
            assert_eq!(layout.chunks_offset() % 4096, 0);
            assert_eq!(layout.lanes_offset() % 64, 0);
        }
        assert_eq!(LiveLayout::for_bytes(4096), None);
    }
}
