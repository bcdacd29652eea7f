//! Flight mode: the live area keeps the last records, and none are written while the process runs.
//!
//! The background thread drops the oldest full chunks, so that lanes always find free ones. Before it drops a chunk, it
//! publishes up to which tick records may be missing. So a reader knows from when on it has everything.

use super::area::chunk_state;
use super::clock::ticks_per_second;
use super::lanes::LaneSet;
use super::mark::is_system_counter;
use super::record::Record;
use std::time::{Duration, Instant};

/// Chunks are dropped if fewer than this part of them is free: one of four. Lanes fill the free ones until the next cycle.
const CROWDED: u64 = 4;
/// Then they are dropped until this part is free: three of eight.
const ENOUGH: (u64, u64) = (3, 8);
/// Time between two searches for chunks that are too old. Each reads the headers of all chunks.
const BETWEEN_SEARCHES: Duration = Duration::from_millis(500);

/// What the background thread knows about full chunks.
pub struct Flight {
    /// Age at which records may be dropped; `None` if only the size of the area limits them.
    keep: Option<Duration>,
    /// Of each chunk: its generation, and the last tick at which one of its records was left. Known once it is full.
    ends: Vec<Option<(u32, u64)>>,
    /// Records of one chunk. The buffer is reused.
    records: Vec<Record>,
    last_search: Instant,
    /// Last tick at which a record of the job was left, as far as it is known.
    newest_ticks: u64,
}

impl Flight {
    /// Creates the state for an area with this number of chunks.
    pub fn new(keep: Option<Duration>, chunks: u32) -> Self {
        Self {
            keep,
            ends: vec![None; chunks as usize],
            records: Vec::new(),
            last_search: Instant::now(),
            newest_ticks: 0,
        }
    }

    /// Returns true if lanes may soon find no free chunk.
    pub fn is_crowded(set: &LaneSet) -> bool {
        set.free.len() < u64::from(set.area.layout().chunk_count) / CROWDED
    }

    /// Drops the oldest full chunks. Returns true if it dropped any.
    ///
    /// The age of a record is its distance from the last record of the job. So a job that hangs keeps what preceded the hang.
    pub fn drop_oldest(&mut self, set: &LaneSet) -> bool {
        let is_crowded = Self::is_crowded(set);
        let searches = self.keep.is_some() && self.last_search.elapsed() >= BETWEEN_SEARCHES;
        if !is_crowded && !searches {
            return false;
        }
        self.last_search = Instant::now();
        // The rate of the counter is known better with time.
        let keep_ticks = self
            .keep
            .map(|keep| (keep.as_secs_f64() * ticks_per_second() as f64) as u64);
        let mut full = self.full(set);
        full.sort_unstable();
        let newest_ticks = keep_ticks.map_or(0, |_| self.newest_of_the_job(set));
        let wanted = u64::from(set.area.layout().chunk_count) * ENOUGH.0 / ENOUGH.1;
        let mut has_dropped = false;
        for (end_ticks, index) in full {
            let is_old = keep_ticks.is_some_and(|keep| end_ticks.saturating_add(keep) < newest_ticks);
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

    /// Returns the last tick at which a record of the job was left. Samples of the system are no records of the job.
    fn newest_of_the_job(&mut self, set: &LaneSet) -> u64 {
        for index in 0..set.area.layout().chunk_count {
            let header = set.area.chunk_header(index);
            if header.state == chunk_state::OWNED {
                self.records.clear();
                set.area
                    .copy_records(index, header.generation, 0, &mut self.records);
                let of_job = self.records.iter().filter(|record| !is_system_counter(record));
                let end_ticks = of_job.map(|record| record.leave_ticks).max();
                self.newest_ticks = self.newest_ticks.max(end_ticks.unwrap_or(0));
            }
        }
        self.newest_ticks
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
                    let of_job = self.records.iter().filter(|record| !is_system_counter(record));
                    let newest_ticks = of_job.map(|record| record.leave_ticks).max().unwrap_or(0);
                    self.newest_ticks = self.newest_ticks.max(newest_ticks);
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
