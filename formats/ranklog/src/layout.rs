//! Where everything lies in the live area. The written form is RANKLOG.md, section "Live area"; a test compares.

use super::record::RECORD_BYTES;

/// First eight bytes of a live area.
pub const LIVE_MAGIC: u64 = u64::from_le_bytes(*b"RSLIVE01");
/// First eight bytes of a segment file.
pub const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"RSLOG001");
/// Version of both layouts. A reader refuses a newer one by name.
pub const FORMAT_VERSION: u32 = 1;

/// Bytes of the live area's header page.
pub const HEADER_BYTES: usize = 4096;
/// Offset of the calibration ring inside the header page.
pub const CALIBRATION_OFFSET: usize = 256;
/// Entries in the calibration ring; the first is never overwritten.
pub const CALIBRATION_ENTRIES: usize = 16;
/// Bytes of the loss table, which follows the header page.
pub const LOSS_TABLE_BYTES: usize = 8192;
/// Bytes of it in the first logs, which knew eight causes.
pub const FIRST_LOSS_TABLE_BYTES: usize = 4096;
/// Bytes of one entry of the loss table: count, first and last tick, cause and kind.
pub const LOSS_ENTRY_BYTES: usize = 32;
/// Bytes of a lane's block: a header line and the in-flight slots.
pub const LANE_BYTES: usize = 64 + IN_FLIGHT_SLOTS * RECORD_BYTES;
/// Slots for blocking calls in progress per lane. Calls nest (c10d → Gloo → message), so this is a depth.
pub const IN_FLIGHT_SLOTS: usize = 4;
/// Bytes of a chunk: one header line and its records.
pub const CHUNK_BYTES: usize = 8192;
/// Records in a chunk.
pub const RECORDS_PER_CHUNK: usize = CHUNK_BYTES / RECORD_BYTES - 1;

/// Offsets of the fields in the header page.
pub mod header {
    /// u64: [`super::LIVE_MAGIC`], stored last when the area is ready.
    pub const MAGIC: usize = 0;
    /// u32: [`super::FORMAT_VERSION`].
    pub const VERSION: usize = 8;
    /// u32: bytes of the header page.
    pub const HEADER_BYTES: usize = 12;
    /// u64: random number shared with the segment file's name.
    pub const NONCE: usize = 16;
    /// u64: bytes of the whole area.
    pub const TOTAL_BYTES: usize = 24;
    /// u32: process id as its own namespace sees it.
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
    /// u64: bytes of definitions reserved so far; each definition is valid by its own commit word.
    pub const DEFINITIONS_USED: usize = 80;
    /// u64: bytes of definitions that are in the segment file.
    pub const DEFINITIONS_FLUSHED: usize = 88;
    /// u64: bytes of the segment file after the last complete frame.
    pub const SEGMENT_BYTES: usize = 96;
    /// u32: 1 = ticks are the time-stamp counter, 2 = CLOCK_MONOTONIC_RAW in nanoseconds, 3 = CNTVCT_EL0.
    pub const COUNTER: usize = 104;
    /// u32: number of calibrations taken so far; entry i is at ring position min(i, 1 + (i-1) mod 15).
    pub const CALIBRATIONS: usize = 108;
    /// u64: tick at which the area was made.
    pub const START_TICKS: usize = 112;
}

/// Offsets of the fields in a lane's header line.
pub mod lane {
    /// u32: 0 never used, 1 owned by a thread, 2 free for the next thread.
    pub const STATE: usize = 0;
    /// u32: thread id of the owner.
    pub const THREAD_ID: usize = 4;
    /// u64: how often a call found no in-flight slot.
    pub const IN_FLIGHT_LOST: usize = 8;
}

/// Offsets of the fields in a chunk's header line.
pub mod chunk {
    /// u32: generation; records of another one are stale.
    pub const GENERATION: usize = 0;
    /// u32: 0 free, 1 owned by a lane, 2 full.
    pub const STATE: usize = 4;
    /// u32: lane that writes it.
    pub const LANE: usize = 8;
    /// u32: thread id of the lane's owner when it took the chunk.
    pub const THREAD_ID: usize = 12;
    /// u64: ordinal of this chunk in its lane, from 0.
    pub const ORDINAL: usize = 16;
    /// u32: records of this generation that are already in segments.
    pub const FLUSHED: usize = 24;
}

/// The numbers that fix a live area's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveLayout {
    /// Number of lane blocks.
    pub lane_count: u32,
    /// Number of chunks.
    pub chunk_count: u32,
    /// Capacity of the definitions in bytes.
    pub definitions_bytes: u64,
}

impl LiveLayout {
    /// Divides `total_bytes` among definitions, lanes and chunks; `None` if it is too small to be of use (256 KiB).
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

    /// Offset of the loss table in bytes.
    pub const fn losses_offset(&self) -> u64 {
        HEADER_BYTES as u64
    }

    /// Offset of the lane blocks in bytes.
    pub const fn lanes_offset(&self) -> u64 {
        (HEADER_BYTES + LOSS_TABLE_BYTES) as u64
    }

    /// Offset of the definitions in bytes, at a page.
    pub const fn definitions_offset(&self) -> u64 {
        (self.lanes_offset() + self.lane_count as u64 * LANE_BYTES as u64 + 4095) & !4095
    }

    /// Offset of the first chunk in bytes, at a page.
    pub const fn chunks_offset(&self) -> u64 {
        self.definitions_offset() + self.definitions_bytes
    }

    /// Bytes of the whole area.
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
