//! Flight mode: the live area keeps the last records, and none are written while the process runs.
//!
//! The background thread drops the oldest full chunks, so that lanes always find free ones. Before it drops a chunk, it
//! publishes up to which tick records may be missing. So a reader knows from when on it has everything.

use super::area::chunk_state;
use super::clock::ticks_per_second;
use super::lanes::LaneSet;
use super::record::Record;
use std::time::Duration;

/// Chunks are dropped if fewer than this part of them is free: one of four. Lanes fill the free ones until the next cycle.
const CROWDED: u64 = 4;
/// Then they are dropped until this part is free: three of eight.
const ENOUGH: (u64, u64) = (3, 8);

/// What the background thread knows about full chunks.
pub struct Flight {
    /// Age at which records may be dropped; `None` if only the size of the area limits them.
    keep: Option<Duration>,
    /// Of each chunk: its generation, and the last tick at which one of its records was left. Known once it is full.
    ends: Vec<Option<(u32, u64)>>,
    /// Records of one chunk. The buffer is reused.
    records: Vec<Record>,
}

impl Flight {
    /// Creates the state for an area with this number of chunks.
    pub fn new(keep: Option<Duration>, chunks: u32) -> Self {
        Self {
            keep,
            ends: vec![None; chunks as usize],
            records: Vec::new(),
        }
    }

    /// Returns true if lanes may soon find no free chunk.
    pub fn is_crowded(set: &LaneSet) -> bool {
        set.free.len() < u64::from(set.area.layout().chunk_count) / CROWDED
    }

    /// Drops the oldest full chunks. Returns true if it dropped any.
    pub fn drop_oldest(&mut self, set: &LaneSet, now_ticks: u64) -> bool {
        let is_crowded = Self::is_crowded(set);
        if !is_crowded && self.keep.is_none() {
            return false;
        }
        // The rate of the counter is known better with time.
        let keep_ticks = self
            .keep
            .map(|keep| (keep.as_secs_f64() * ticks_per_second() as f64) as u64);
        let mut full = self.full(set);
        full.sort_unstable();
        let wanted = u64::from(set.area.layout().chunk_count) * ENOUGH.0 / ENOUGH.1;
        let mut has_dropped = false;
        for (end_ticks, index) in full {
            let is_old = keep_ticks.is_some_and(|keep| end_ticks.saturating_add(keep) < now_ticks);
            if !(is_old || is_crowded && set.free.len() < wanted) {
                break;
            }
            set.area.set_flight_from_ticks(end_ticks.saturating_add(1));
            set.area.recycle_chunk(index);
            set.free.push(index);
            has_dropped = true;
        }
        has_dropped
    }

    /// Returns the full chunks, each with the last tick at which one of its records was left.
    fn full(&mut self, set: &LaneSet) -> Vec<(u64, u32)> {
        let mut full = Vec::new();
        for (index, known) in (0u32..).zip(&mut self.ends) {
            let header = set.area.chunk_header(index);
            if header.state != chunk_state::FULL {
                continue;
            }
            let end_ticks = match *known {
                Some((generation, end_ticks)) if generation == header.generation => end_ticks,
                _ => {
                    self.records.clear();
                    set.area
                        .copy_records(index, header.generation, 0, &mut self.records);
                    let left = self.records.iter().map(|record| record.leave_ticks);
                    let end_ticks = left.max().unwrap_or(0);
                    *known = Some((header.generation, end_ticks));
                    end_ticks
                }
            };
            full.push((end_ticks, index));
        }
        full
    }
}
