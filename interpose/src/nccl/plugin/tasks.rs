//! Operations between the moment at which they reached their stream and the end of their last channel on the device:
//! a table that never allocates, written by the library's own threads.

use super::handles::{self, Call, Slot};
use crate::core::life;
use crate::core::thread;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{DeviceWork, Record, RecordKind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Operations that may be under way at one time, of all communicators.
const TASKS: usize = 4096;
/// Places that are looked at before the oldest of them must go.
const LOOKED_AT: usize = 64;

/// What was told when an operation reached its stream.
#[derive(Clone, Copy)]
pub struct Told {
    /// The call it comes from; without a number if that is not known.
    pub call: Call,
    /// Root or peer.
    pub peer: i32,
    /// Payload and the size of an element.
    pub bytes: u64,
    /// See `bytes`.
    pub element_bytes: u8,
    /// The library's own number of it.
    pub number: u32,
    /// Channels that will tell of themselves; 0 where none does.
    pub channels: u8,
    /// What else is known.
    pub work: DeviceWork,
}

/// One operation. A place is free while its state is even.
struct Task {
    /// Turn × 2, plus one while taken.
    state: AtomicU64,
    /// How many operations began before it.
    serial: AtomicU64,
    /// 0 while the place changes hands.
    call: AtomicU64,
    peer: AtomicU32,
    number: AtomicU32,
    bytes: AtomicU64,
    work: AtomicU64,
    /// Element size × 256 plus the channels that are awaited.
    sizes: AtomicU32,
    began: AtomicU32,
    ended: AtomicU32,
    first_ticks: AtomicU64,
    /// `u64::MAX` before the first channel began.
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

/// Where the next search for a free place begins.
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

    /// Gives the place back; false if somebody else has.
    fn give_back(&self, turn: u32) -> bool {
        let state = u64::from(turn) << 1 | 1;
        // Nobody's turn and not free: who comes here first clears up alone.
        let is_first = self
            .state
            .compare_exchange(state, state | CLOSING, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if is_first {
            // Whoever looks for a communicator's operations must not find the last owner's in the next one's place.
            self.call.store(0, Ordering::Relaxed);
            // The turn stays within 32 bits, as handles have it.
            self.state
                .store(u64::from(turn.wrapping_add(1)) << 1, Ordering::Release);
        }
        is_first
    }

    fn is_turn(&self, turn: u32) -> bool {
        self.state.load(Ordering::Acquire) == u64::from(turn) << 1 | 1
    }

    /// What is known of it, as a record.
    fn record(&self) -> Record {
        let now = ticks();
        let call = Call::from_bits(self.call.load(Ordering::Relaxed)).unwrap_or(NOBODY);
        let mut work = DeviceWork::from_aux(self.work.load(Ordering::Relaxed));
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
        let ended = self.ended.load(Ordering::Acquire);
        // While a channel is still at it the whole is not done.
        if ended > 0 && ended == self.began.load(Ordering::Relaxed) && start <= stop && start != 0 {
            record.object = start;
            record.enter_ticks = self.first_ticks.load(Ordering::Relaxed).min(now);
            work.duration_ns = stop - start;
            work.channels = ended.min(255) as u8;
        }
        record.aux = work.to_aux();
        record
    }
}

/// Part of a place's state while it is given back.
const CLOSING: u64 = 1 << 62;

const NOBODY: Call = Call {
    communicator: rankscope_ranklog::record::NO_COMMUNICATOR,
    sequence: 0,
    operation: 0,
    flags: rankscope_ranklog::record::FLAG_SEQUENCE_UNKNOWN,
};

/// An operation reached its stream. Its handle.
pub fn begin(told: &Told) -> u64 {
    let serial = NEXT.fetch_add(1, Ordering::Relaxed);
    let places = || (0..LOOKED_AT).map(move |step| (serial as usize + step) % TASKS);
    let found = places().find_map(|position| TASK[position].take().map(|turn| (position, turn)));
    let found = found.or_else(|| {
        let oldest = places().min_by_key(|&position| TASK[position].serial.load(Ordering::Relaxed))?;
        evict(oldest).map(|turn| (oldest, turn))
    });
    // Another thread was faster: this operation stays without what the device tells.
    let Some((position, turn)) = found else { return 0 };
    let task = &TASK[position];
    task.serial.store(serial, Ordering::Relaxed);
    task.peer.store(told.peer as u32, Ordering::Relaxed);
    task.number.store(told.number, Ordering::Relaxed);
    task.bytes.store(told.bytes, Ordering::Relaxed);
    task.work.store(told.work.to_aux(), Ordering::Relaxed);
    task.sizes.store(
        u32::from(told.element_bytes) << 8 | u32::from(told.channels),
        Ordering::Relaxed,
    );
    task.began.store(0, Ordering::Relaxed);
    task.ended.store(0, Ordering::Relaxed);
    task.first_ticks.store(u64::MAX, Ordering::Relaxed);
    task.start_ns.store(u64::MAX, Ordering::Relaxed);
    task.stop_ns.store(0, Ordering::Relaxed);
    // The library hands the handle to its other threads by locks of its own: what stands here is there before them.
    task.call.store(told.call.to_bits(), Ordering::Release);
    handles::of_task(Slot {
        position: position as u16,
        turn,
    })
}

/// Makes a place free that is still taken: of its operation some channels never told, nor will. What is known is kept.
#[cold]
fn evict(position: usize) -> Option<u32> {
    let task = &TASK[position];
    let state = task.state.load(Ordering::Relaxed);
    if state & 1 == 1 && state & CLOSING == 0 {
        let record = task.record();
        if !task.give_back((state >> 1) as u32) {
            return None;
        }
        life::commit(thread::state(), &record);
    }
    task.take()
}

fn at(slot: Slot) -> Option<&'static Task> {
    TASK.get(usize::from(slot.position))
        .filter(|task| task.is_turn(slot.turn))
}

/// A channel began with an operation.
pub fn channel_began(slot: Slot, timer_ns: u64) {
    if let Some(task) = at(slot) {
        task.first_ticks.fetch_min(ticks(), Ordering::Relaxed);
        task.start_ns.fetch_min(timer_ns, Ordering::Relaxed);
        task.began.fetch_add(1, Ordering::Relaxed);
    }
}

/// A channel is done with an operation; with the last one its record is written.
pub fn channel_ended(slot: Slot, timer_ns: u64) {
    let Some(task) = at(slot) else { return };
    task.stop_ns.fetch_max(timer_ns, Ordering::Relaxed);
    let ended = task.ended.fetch_add(1, Ordering::AcqRel) + 1;
    if ended == task.sizes.load(Ordering::Relaxed) & 0xFF {
        finish(task, slot.turn);
    }
}

/// The library is done with handing an operation on. If none of its channels will tell, all is known.
pub fn handed_on(slot: Slot) {
    if let Some(task) = at(slot)
        && task.sizes.load(Ordering::Relaxed) & 0xFF == 0
    {
        finish(task, slot.turn);
    }
}

fn finish(task: &Task, turn: u32) {
    let record = task.record();
    if task.give_back(turn) {
        life::commit(thread::state(), &record);
    }
}

/// Writes down what is known of operations of this communicator that are still under way: they are not waited for.
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
