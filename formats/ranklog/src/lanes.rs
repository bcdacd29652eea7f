//! Hot path of recording: a thread's lane, its chunk, and its calls in progress. It takes no lock, does not allocate
//! and makes no system call.

use super::area::Area;
use super::free_ring::FreeRing;
use super::layout::{IN_FLIGHT_SLOTS, RECORDS_PER_CHUNK};
use super::loss::LossCause;
use super::record::{RECORD_BYTES, Record, RecordKind};
use super::record_slot;
use super::sequence_lock;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// State that all lanes share.
pub struct LaneSet {
    /// Live area.
    pub area: Area,
    /// Free chunks.
    pub free: FreeRing,
    lanes: *mut Lane,
    lane_count: u32,
    fresh: AtomicU32,
    /// Head of the stack of freed lanes. The low half is index + 1; the high half is a tag against the ABA problem.
    freed: AtomicU64,
    /// Not 0 while the disk is failing. A lack of free chunks is then counted as a loss of the disk.
    pub disk_failing: AtomicU32,
}

/// Lane of one thread at a time. Only that thread accesses it.
#[repr(align(128))]
pub struct Lane {
    chunk: Cell<*mut u8>,
    next: Cell<u32>,
    generation: Cell<u32>,
    chunk_index: Cell<u32>,
    index: Cell<u32>,
    depth: Cell<u32>,
    /// Number of calls that were ever in progress, without 0: the generation of the next slot.
    calls: Cell<u32>,
    thread_id: Cell<u32>,
    ordinal: Cell<u64>,
    next_free: AtomicU32,
}

// SAFETY: the raw pointers stay valid forever, because the memory is never unmapped. Shared parts are atomics. Each
// lane is used only by the thread that took it off the stack. The compare-exchange (AcqRel) of that thread orders its
// accesses after those of the previous owner.
unsafe impl Sync for LaneSet {}
// SAFETY: as above.
unsafe impl Send for LaneSet {}

impl LaneSet {
    /// Returns the number of bytes that the states of the lanes need.
    pub fn bytes_for(lane_count: u32) -> usize {
        lane_count as usize * size_of::<Lane>()
    }

    /// Creates a set over zeroed memory. All chunks start free.
    ///
    /// # Safety
    /// `lanes` must point to `bytes_for(lane_count)` zeroed bytes, aligned to 128. `ring` must meet the requirements of
    /// [`FreeRing::new`]. Neither may ever be freed. `area` must be initialised.
    pub unsafe fn new(area: Area, lanes: *mut u8, ring: *const AtomicU32) -> Self {
        let chunk_count = area.layout().chunk_count;
        // SAFETY: the caller guarantees the requirements of `FreeRing::new`.
        let free = unsafe { FreeRing::new(ring, chunk_count) };
        for chunk in 0..chunk_count {
            free.push(chunk);
        }
        Self {
            area,
            free,
            lanes: lanes.cast(),
            lane_count: area.layout().lane_count,
            fresh: AtomicU32::new(0),
            freed: AtomicU64::new(0),
            disk_failing: AtomicU32::new(0),
        }
    }

    /// Returns true if recording has stopped for lack of disk space, so that no chunk becomes free again.
    pub fn is_stopped(&self) -> bool {
        self.disk_failing.load(Ordering::Relaxed) != 0 && self.free.is_empty()
    }

    fn lane(&self, index: u32) -> &Lane {
        // SAFETY: every index comes from `fresh`, which is checked against the count, or from the stack of such
        // indices. The memory is never freed, and zeroed memory is a valid `Lane` (null pointer, zero numbers).
        unsafe { &*self.lanes.add(index as usize) }
    }

    /// Returns a lane for the calling thread; `None` if all are taken. The caller then counts the dropped records.
    ///
    /// A freed lane keeps its half-full chunk, so that any number of short-lived threads share a few chunks.
    pub fn acquire(&self, thread_id: u32, name: [u8; 16], now_ticks: u64) -> Option<&Lane> {
        let lane = self.pop_freed().or_else(|| self.fresh_lane())?;
        lane.thread_id.set(thread_id);
        lane.depth.set(0);
        self.area.own_lane(lane.index.get(), thread_id);
        let mut record = Record::new(RecordKind::Thread);
        record.enter_ticks = now_ticks;
        record.leave_ticks = now_ticks;
        record.object = u64::from(thread_id);
        let (front, back) = name.split_at(8);
        record.bytes = u64::from_le_bytes(front.try_into().unwrap_or_default());
        record.aux = u64::from_le_bytes(back.try_into().unwrap_or_default());
        lane.commit(self, &record);
        Some(lane)
    }

    /// Returns the number of lanes that threads have used so far. Only these can have calls in progress.
    pub fn used_lanes(&self) -> u32 {
        self.fresh.load(Ordering::Acquire)
    }

    fn fresh_lane(&self) -> Option<&Lane> {
        let index = self
            .fresh
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| {
                (n < self.lane_count).then_some(n + 1)
            })
            .ok()?;
        let lane = self.lane(index);
        lane.index.set(index);
        // The lane counts as full although it has no chunk, so that the first commit takes one.
        lane.next.set(RECORDS_PER_CHUNK as u32);
        lane.chunk_index.set(u32::MAX);
        Some(lane)
    }

    fn pop_freed(&self) -> Option<&Lane> {
        let mut head = self.freed.load(Ordering::Acquire);
        loop {
            let index = (head as u32).checked_sub(1)?;
            let lane = self.lane(index);
            let next = u64::from(lane.next_free.load(Ordering::Relaxed)) | ((head >> 32) + 1) << 32;
            match self
                .freed
                .compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(lane),
                Err(now) => head = now,
            }
        }
    }

    /// Releases a lane when its thread ends.
    pub fn release(&self, lane: &Lane) {
        self.area.free_lane(lane.index.get());
        let mut head = self.freed.load(Ordering::Acquire);
        loop {
            lane.next_free.store(head as u32, Ordering::Relaxed);
            let next = u64::from(lane.index.get() + 1) | ((head >> 32) + 1) << 32;
            match self
                .freed
                .compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

/// Returns the words of a record after its commit word.
///
/// It reads the fields with separate volatile loads, which a compiler would otherwise combine. A hook has just written
/// the fields separately. The processor cannot forward such stores to one wide load, and stalls. This stall was half of
/// the cost of a call.
#[inline(always)]
fn body_of(record: &Record) -> [u64; 7] {
    // SAFETY: `field` is a reference, so it is valid for reads.
    let half = |field: &u32| u64::from(unsafe { std::ptr::read_volatile(field) });
    // SAFETY: as above; only the bits of the value matter.
    let peer = unsafe { std::ptr::read_volatile(&raw const record.peer) } as u32;
    [
        record.enter_ticks,
        record.leave_ticks,
        record.bytes,
        record.object,
        half(&record.communicator) | half(&record.tag) << 32,
        half(&record.sequence) | u64::from(peer) << 32,
        record.aux,
    ]
}

/// Returns the commit word of a record, read in the same way.
#[inline(always)]
fn commit_word_of(record: &Record, generation: u32) -> u64 {
    // SAFETY: `field` is a reference, so it is valid for reads.
    let byte = |field: &u8| u64::from(unsafe { std::ptr::read_volatile(field) });
    u64::from(generation)
        | byte(&record.kind) << 32
        | byte(&record.operation) << 40
        | byte(&record.flags) << 48
        | byte(&record.element_bytes) << 56
}

impl Lane {
    /// Returns the number of the lane in its log.
    pub fn index(&self) -> u32 {
        self.index.get()
    }

    /// Makes a record visible, with seven plain stores and one release store. Returns false, and counts a loss, if no
    /// chunk is free.
    #[inline]
    pub fn commit(&self, set: &LaneSet, record: &Record) -> bool {
        if self.next.get() as usize >= RECORDS_PER_CHUNK && !self.next_chunk(set, record) {
            return false;
        }
        let position = self.next.get();
        // SAFETY: `chunk` points to a chunk that this lane owns, and `position` is below RECORDS_PER_CHUNK, so the slot
        // is inside it, and aligned. Nobody else writes it, and readers wait for the commit word.
        let slot = unsafe {
            &*self
                .chunk
                .get()
                .add((position as usize + 1) * RECORD_BYTES)
                .cast::<[AtomicU64; 8]>()
        };
        let [first, rest @ ..] = slot;
        let commit_word = commit_word_of(record, self.generation.get());
        record_slot::put(first, rest, commit_word, body_of(record));
        self.next.set(position + 1);
        true
    }

    #[cold]
    fn next_chunk(&self, set: &LaneSet, record: &Record) -> bool {
        if self.chunk_index.get() != u32::MAX {
            set.area.fill_chunk(self.chunk_index.get());
            self.chunk_index.set(u32::MAX);
        }
        let Some(index) = set.free.pop() else {
            let cause = if set.disk_failing.load(Ordering::Relaxed) != 0 {
                LossCause::Disk
            } else {
                LossCause::NoChunk
            };
            let kind = RecordKind::from_u8(record.kind).unwrap_or(RecordKind::Call);
            set.area.count_loss(
                cause,
                kind,
                1,
                record.enter_ticks,
                record.leave_ticks.max(record.enter_ticks),
            );
            return false;
        };
        let generation =
            set.area
                .own_chunk(index, self.index.get(), self.thread_id.get(), self.ordinal.get());
        self.ordinal.set(self.ordinal.get() + 1);
        self.chunk.set(set.area.chunk_address(index));
        self.chunk_index.set(index);
        self.generation.set(generation);
        self.next.set(0);
        true
    }

    /// Stores a blocking call in progress, so that a hang can be diagnosed. Calls nest; [`Lane::leave`] removes the
    /// last one.
    #[inline]
    pub fn enter(&self, set: &LaneSet, record: &Record) {
        let depth = self.depth.get();
        self.depth.set(depth + 1);
        if depth as usize >= IN_FLIGHT_SLOTS {
            set.area.count_in_flight_lost(self.index.get());
            return;
        }
        // The commit words of two calls in a row differ, also if the calls are alike. 0 marks a free slot.
        let generation = self.calls.get().wrapping_add(1).max(1);
        self.calls.set(generation);
        // The slot belongs to this lane and therefore to this thread.
        let [first, rest @ ..] = set.area.call_slot(self.index.get(), depth);
        sequence_lock::put(first, rest, commit_word_of(record, generation), body_of(record));
    }

    /// Removes the innermost blocking call in progress.
    #[inline]
    pub fn leave(&self, set: &LaneSet) {
        let depth = self.depth.get().saturating_sub(1);
        self.depth.set(depth);
        if (depth as usize) < IN_FLIGHT_SLOTS {
            sequence_lock::clear(&set.area.call_slot(self.index.get(), depth)[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::LiveLayout;

    /// Creates a lane set over ordinary memory that is never freed.
    pub(crate) fn lane_set(total_bytes: u64) -> &'static LaneSet {
        let layout = LiveLayout::for_bytes(total_bytes).expect("large enough");
        let zeroed = |bytes: usize| -> *mut u8 {
            let words = vec![[0u64; 512]; bytes.div_ceil(4096)].leak();
            let address = words.as_mut_ptr().cast::<u8>();
            address.wrapping_add(address.align_offset(128))
        };
        let base = zeroed(layout.total_bytes() as usize + 4096);
        let lanes = zeroed(LaneSet::bytes_for(layout.lane_count) + 4096);
        let ring = zeroed(FreeRing::bytes_for(layout.chunk_count) + 4096);
        // SAFETY: the memory is leaked, zeroed, aligned to 128, and large enough for every access.
        let area = unsafe { Area::from_raw(base, layout) };
        area.initialise(1, 2, 2, 3);
        // SAFETY: as above.
        Box::leak(Box::new(unsafe {
            LaneSet::new(area, lanes, ring.cast::<AtomicU32>().cast_const())
        }))
    }

    #[test]
    fn records_come_out_in_the_order_they_went_in() {
        let set = lane_set(1 << 20);
        let lane = set
            .acquire(77, *b"main\0\0\0\0\0\0\0\0\0\0\0\0", 5)
            .expect("a lane");
        let mut record = Record::new(RecordKind::Call);
        for n in 0..300 {
            record.enter_ticks = n;
            assert!(lane.commit(set, &record));
        }
        let mut out = Vec::new();
        let mut chunks: Vec<_> = (0..set.area.layout().chunk_count)
            .map(|index| (set.area.chunk_header(index), index))
            .filter(|(header, _)| header.state != 0)
            .collect();
        chunks.sort_by_key(|(header, _)| header.ordinal);
        for (header, index) in chunks {
            set.area.copy_records(index, header.generation, 0, &mut out);
        }
        assert_eq!(out.len(), 301);
        assert_eq!(out[0].object, 77);
        assert!(
            out[1..]
                .iter()
                .zip(0..)
                .all(|(record, n)| record.enter_ticks == n)
        );
    }

    #[test]
    fn a_full_area_counts_what_it_drops() {
        let set = lane_set(256 * 1024);
        let lane = set.acquire(1, [0; 16], 5).expect("a lane");
        let record = Record {
            enter_ticks: 9,
            leave_ticks: 10,
            ..Record::new(RecordKind::Call)
        };
        let capacity = u64::from(set.area.layout().chunk_count) * RECORDS_PER_CHUNK as u64 - 1;
        let kept = (0..capacity + 50).filter(|_| lane.commit(set, &record)).count() as u64;
        assert_eq!(kept, capacity);
        let losses = set.area.losses();
        assert_eq!(losses.len(), 1);
        assert_eq!((losses[0].cause, losses[0].count), (LossCause::NoChunk, 50));
        assert_eq!((losses[0].first_ticks, losses[0].last_ticks), (9, 10));
    }

    #[test]
    fn short_threads_share_lanes_and_chunks() {
        let set = lane_set(1 << 20);
        let record = Record::new(RecordKind::Call);
        for thread_id in 0..2000 {
            let lane = set.acquire(thread_id, [0; 16], 1).expect("a freed lane");
            assert_eq!(lane.index(), 0);
            lane.commit(set, &record);
            set.release(lane);
        }
        let used = (0..set.area.layout().chunk_count)
            .filter(|&i| set.area.chunk_header(i).state != 0)
            .count();
        assert_eq!(used, 4000usize.div_ceil(RECORDS_PER_CHUNK));
    }

    #[test]
    fn threads_race_for_lanes_and_chunks_without_losing_one() {
        let set = lane_set(8 << 20);
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                scope.spawn(move || {
                    let lane = set.acquire(thread, [0; 16], 1).expect("a lane");
                    for n in 0..5000u64 {
                        let record = Record {
                            object: u64::from(thread) << 32 | n,
                            ..Record::new(RecordKind::Call)
                        };
                        assert!(lane.commit(set, &record));
                    }
                    set.release(lane);
                });
            }
        });
        let mut seen = Vec::new();
        for index in 0..set.area.layout().chunk_count {
            let header = set.area.chunk_header(index);
            set.area.copy_records(index, header.generation, 0, &mut seen);
        }
        let mut objects: Vec<u64> = seen
            .iter()
            .filter(|r| r.kind == RecordKind::Call as u8)
            .map(|r| r.object)
            .collect();
        objects.sort_unstable();
        objects.dedup();
        assert_eq!(objects.len(), 40_000);
    }

    #[test]
    fn calls_in_progress_are_seen_until_they_end() {
        let set = lane_set(1 << 20);
        let lane = set.acquire(4, [0; 16], 1).expect("a lane");
        let outer = Record {
            enter_ticks: 10,
            ..Record::new(RecordKind::Execute)
        };
        let inner = Record {
            enter_ticks: 11,
            ..Record::new(RecordKind::Call)
        };
        lane.enter(set, &outer);
        lane.enter(set, &inner);
        let seen: Vec<u64> = set
            .area
            .in_flight(set.used_lanes())
            .iter()
            .map(|(_, _, record)| record.enter_ticks)
            .collect();
        assert_eq!(seen, vec![10, 11]);
        lane.leave(set);
        lane.leave(set);
        assert!(set.area.in_flight(set.used_lanes()).is_empty());
        assert!(set.area.losses().is_empty());
        for _ in 0..6 {
            lane.enter(set, &outer);
        }
        let losses = set.area.losses();
        assert_eq!((losses[0].cause, losses[0].count), (LossCause::NoInFlightSlot, 2));
    }

    #[test]
    fn a_copy_of_a_call_in_progress_is_never_a_mixture_of_two_calls() {
        let set = lane_set(1 << 20);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let lane = set.acquire(4, [0; 16], 1).expect("a lane");
                ready.send(()).expect("the reader waits");
                let mut n = 1;
                while !stop.load(Ordering::Relaxed) {
                    let call = Record {
                        enter_ticks: n,
                        bytes: n,
                        object: n,
                        aux: n,
                        ..Record::new(RecordKind::Call)
                    };
                    lane.enter(set, &call);
                    lane.leave(set);
                    n += 1;
                }
            });
            is_ready.recv().expect("the writer starts");
            let mut seen = 0;
            while seen < 2_000 {
                for (_, _, call) in set.area.in_flight(set.used_lanes()) {
                    let n = call.enter_ticks;
                    assert_eq!((call.bytes, call.object, call.aux), (n, n, n));
                    seen += 1;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
