//! Operations from the moment at which they reached their stream to the end of their last channel on the device.
//!
//! The table never allocates. The library's own threads write it.

use super::handles::{self, Call, Slot};
use crate::core::life;
use crate::thread;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{DeviceWork, Record, RecordKind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Maximum number of operations in flight, of all communicators together.
const TASKS: usize = 4096;
/// Number of slots that are searched before the oldest of them is evicted.
const LOOKED_AT: usize = 64;

/// Values that were reported when an operation reached its stream.
#[derive(Clone, Copy)]
pub struct TaskReport {
    /// Call that the operation comes from; without a sequence number if that is unknown.
    pub call: Call,
    /// Root or peer.
    pub peer: i32,
    /// Payload, in bytes.
    pub bytes: u64,
    /// Size of an element, in bytes.
    pub element_bytes: u8,
    /// The library's own number of the operation.
    pub number: u32,
    /// Number of channels that will report; 0 if none does.
    pub channels: u8,
    /// Algorithm, protocol, channels and warps.
    pub work: DeviceWork,
}

/// One operation. A slot is free while its state is even.
struct Task {
    /// Number of the slot's use × 2, plus one while the slot is taken.
    state: AtomicU64,
    /// Number of operations that started before this one.
    serial: AtomicU64,
    /// Handle of the call; 0 while the slot changes its owner.
    call: AtomicU64,
    peer: AtomicU32,
    number: AtomicU32,
    bytes: AtomicU64,
    work: AtomicU64,
    /// Element size × 256 plus the number of awaited channels.
    sizes: AtomicU32,
    began: AtomicU32,
    ended: AtomicU32,
    first_ticks: AtomicU64,
    /// Time of the first channel's start, ns; `u64::MAX` before it.
    start_ns: AtomicU64,
    stop_ns: AtomicU64,
}

static TASK: [Task; TASKS] = [const {
    Task {
        state: AtomicU64::new(0),
        serial: AtomicU64::new(0),
        call: AtomicU64::new(0),
        peer: AtomicU32::new(0),
        number: AtomicU32::new(0),
        bytes: AtomicU64::new(0),
        work: AtomicU64::new(0),
        sizes: AtomicU32::new(0),
        began: AtomicU32::new(0),
        ended: AtomicU32::new(0),
        first_ticks: AtomicU64::new(0),
        start_ns: AtomicU64::new(0),
        stop_ns: AtomicU64::new(0),
    }
}; TASKS];

/// Position at which the next search for a free slot starts.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Task {
    fn take(&self) -> Option<u32> {
        let state = self.state.load(Ordering::Relaxed);
        (state & 1 == 0
            && self
                .state
                .compare_exchange(state, state + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok())
        .then_some((state >> 1) as u32)
    }

    /// Releases the slot; false if another thread has done so.
    fn give_back(&self, turn: u32) -> bool {
        let state = u64::from(turn) << 1 | 1;
        // This state is neither a valid use nor free. The thread that sets it cleans up alone.
        let is_first = self
            .state
            .compare_exchange(state, state | CLOSING, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if is_first {
            // A thread that searches for a communicator's operations must not find the old call in the slot's next use.
            self.call.store(0, Ordering::Relaxed);
            // The number of the use stays within 32 bits, as in handles.
            self.state
                .store(u64::from(turn.wrapping_add(1)) << 1, Ordering::Release);
        }
        is_first
    }

    fn is_turn(&self, turn: u32) -> bool {
        self.state.load(Ordering::Acquire) == u64::from(turn) << 1 | 1
    }

    /// Returns the known values as a record.
    fn record(&self) -> Record {
        let now = ticks();
        let call = Call::from_bits(self.call.load(Ordering::Relaxed)).unwrap_or(NOBODY);
        let mut work = DeviceWork::from_aux(self.work.load(Ordering::Relaxed));
        // These precede the times: a channel stores its time, and then counts itself.
        let ended = self.ended.load(Ordering::Acquire);
        let began = self.began.load(Ordering::Acquire);
        let (start, stop) = (
            self.start_ns.load(Ordering::Relaxed),
            self.stop_ns.load(Ordering::Relaxed),
        );
        let sizes = self.sizes.load(Ordering::Relaxed);
        let mut record = Record {
            operation: call.operation,
            flags: call.flags,
            element_bytes: (sizes >> 8) as u8,
            enter_ticks: now,
            leave_ticks: now,
            bytes: self.bytes.load(Ordering::Relaxed),
            communicator: call.communicator,
            sequence: call.sequence,
            tag: self.number.load(Ordering::Relaxed),
            peer: self.peer.load(Ordering::Relaxed) as i32,
            ..Record::new(RecordKind::Device)
        };
        // While a channel is still running, the operation is not complete.
        if ended > 0 && ended == began && start <= stop && start != 0 {
            record.object = start;
            record.enter_ticks = self.first_ticks.load(Ordering::Relaxed).min(now);
            work.duration_ns = stop - start;
            work.channels = ended.min(255) as u8;
        }
        record.aux = work.to_aux();
        record
    }
}

/// Bit of a slot's state that is set while the slot is being released.
const CLOSING: u64 = 1 << 62;

const NOBODY: Call = Call {
    communicator: rankscope_ranklog::record::NO_COMMUNICATOR,
    sequence: 0,
    operation: 0,
    flags: rankscope_ranklog::record::FLAG_SEQUENCE_UNKNOWN,
};

/// Stores an operation that reached its stream, and returns its handle.
pub fn begin(report: &TaskReport) -> u64 {
    let serial = NEXT.fetch_add(1, Ordering::Relaxed);
    let places = || (0..LOOKED_AT).map(move |step| (serial as usize + step) % TASKS);
    let found = places().find_map(|position| TASK[position].take().map(|turn| (position, turn)));
    let found = found.or_else(|| {
        let oldest = places().min_by_key(|&position| TASK[position].serial.load(Ordering::Relaxed))?;
        evict(oldest).map(|turn| (oldest, turn))
    });
    // Another thread took the slot. This operation has no device times.
    let Some((position, turn)) = found else { return 0 };
    let task = &TASK[position];
    task.serial.store(serial, Ordering::Relaxed);
    task.peer.store(report.peer as u32, Ordering::Relaxed);
    task.number.store(report.number, Ordering::Relaxed);
    task.bytes.store(report.bytes, Ordering::Relaxed);
    task.work.store(report.work.to_aux(), Ordering::Relaxed);
    task.sizes.store(
        u32::from(report.element_bytes) << 8 | u32::from(report.channels),
        Ordering::Relaxed,
    );
    task.began.store(0, Ordering::Relaxed);
    task.ended.store(0, Ordering::Relaxed);
    task.first_ticks.store(u64::MAX, Ordering::Relaxed);
    task.start_ns.store(u64::MAX, Ordering::Relaxed);
    task.stop_ns.store(0, Ordering::Relaxed);
    // The library passes the handle to its other threads under locks of its own. So they see all values stored here.
    task.call.store(report.call.to_bits(), Ordering::Release);
    handles::of_task(Slot {
        position: position as u16,
        turn,
    })
}

/// Frees a slot that is still taken. Some channels of its operation never reported, and will not. The known values are
/// recorded.
#[cold]
fn evict(position: usize) -> Option<u32> {
    let task = &TASK[position];
    let state = task.state.load(Ordering::Acquire);
    if state & 1 == 1 && state & CLOSING == 0 {
        if task.call.load(Ordering::Acquire) == 0 {
            // Another thread has just taken the slot, and is storing its values.
            return None;
        }
        let record = task.record();
        if !task.give_back((state >> 1) as u32) {
            return None;
        }
        life::commit(&thread::state().lane, &record);
    }
    task.take()
}

fn at(slot: Slot) -> Option<&'static Task> {
    TASK.get(usize::from(slot.position))
        .filter(|task| task.is_turn(slot.turn))
}

/// Stores that a channel started to process an operation.
pub fn channel_began(slot: Slot, timer_ns: u64) {
    if let Some(task) = at(slot) {
        task.first_ticks.fetch_min(ticks(), Ordering::Relaxed);
        task.start_ns.fetch_min(timer_ns, Ordering::Relaxed);
        task.began.fetch_add(1, Ordering::Release);
    }
}

/// Stores that a channel has finished an operation. The last channel commits the record.
pub fn channel_ended(slot: Slot, timer_ns: u64) {
    let Some(task) = at(slot) else { return };
    task.stop_ns.fetch_max(timer_ns, Ordering::Relaxed);
    let ended = task.ended.fetch_add(1, Ordering::AcqRel) + 1;
    if ended == task.sizes.load(Ordering::Relaxed) & 0xFF {
        finish(task, slot.turn);
    }
}

/// Handles that the library has passed an operation on. If no channel will report, commits the record.
pub fn emit_if_whole(slot: Slot) {
    if let Some(task) = at(slot)
        && task.sizes.load(Ordering::Relaxed) & 0xFF == 0
    {
        finish(task, slot.turn);
    }
}

fn finish(task: &Task, turn: u32) {
    let record = task.record();
    if task.give_back(turn) {
        life::commit(&thread::state().lane, &record);
    }
}

/// Commits the known values of operations of this communicator that are still in flight. They are not awaited any
/// longer.
pub fn communicator_ended(communicator: u32) {
    for task in &TASK {
        let state = task.state.load(Ordering::Acquire);
        let call = Call::from_bits(task.call.load(Ordering::Acquire));
        if state & 1 == 1
            && state & CLOSING == 0
            && call.is_some_and(|call| call.communicator == communicator)
        {
            finish(task, (state >> 1) as u32);
        }
    }
}
