//! Traffic of proxies to and from each peer, on request: bytes on the wire, and what each step waited for.
//!
//! Each buffer that goes over the network causes several events, so this is not for everyday use.

use super::abi::{self, state};
use super::contexts::Context;
use super::handles::{self, Slot};
use crate::core::life;
use crate::thread;
use rankscope_ranklog::Operation;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::{FLAG_TRAFFIC, NO_COMMUNICATOR, ProxyWaits, Record, RecordKind};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Maximum number of proxy works in flight. Each has at most eight steps in flight (`NCCL_STEPS`).
const WORKS: usize = 2048;
const STEPS: usize = 8 * WORKS;
/// Number of slots that are searched for a free one.
const LOOKED_AT: usize = 64;

/// State of a slot: the number of its use × 2, plus one while it is taken.
struct Turns(AtomicU64);

impl Turns {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn take(&self) -> Option<u32> {
        let turns = self.0.load(Ordering::Relaxed);
        (turns & 1 == 0
            && self
                .0
                .compare_exchange(turns, turns + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok())
        .then_some((turns >> 1) as u32)
    }

    fn is(&self, turn: u32) -> bool {
        self.0.load(Ordering::Acquire) == u64::from(turn) << 1 | 1
    }

    /// Releases the slot. Only a holder of this use can do so, and only once.
    fn give_back(&self, turn: u32) {
        let next = u64::from(turn.wrapping_add(1)) << 1;
        let taken = u64::from(turn) << 1 | 1;
        let _ = self
            .0
            .compare_exchange(taken, next, Ordering::AcqRel, Ordering::Relaxed);
    }
}

struct Work {
    turns: Turns,
    communicator: AtomicU32,
    peer: AtomicU32,
    channel: AtomicU32,
    is_send: AtomicU32,
    bytes: AtomicU64,
    enter_ticks: AtomicU64,
    /// Waiting time in ticks, by [`Waiting`].
    waited: [AtomicU64; 3],
}

impl Work {
    /// Releases the slot. Until its next owner has stored its values, it belongs to no communicator. If the next owner has
    /// already stored another communicator, that one stays.
    fn give_back(&self, turn: u32, communicator: u32) {
        let _ = self.communicator.compare_exchange(
            communicator,
            NO_COMMUNICATOR,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        self.turns.give_back(turn);
    }
}

struct Step {
    turns: Turns,
    work: AtomicU64,
    waiting: AtomicU32,
    since_ticks: AtomicU64,
    bytes: AtomicU64,
}

/// Cause for which a step waits: its position in [`Work::waited`] plus one.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Waiting {
    Nothing = 0,
    Device = 1,
    Peer = 2,
    Network = 3,
}

static WORK: [Work; WORKS] = [const {
    Work {
        turns: Turns::new(),
        communicator: AtomicU32::new(NO_COMMUNICATOR),
        peer: AtomicU32::new(0),
        channel: AtomicU32::new(0),
        is_send: AtomicU32::new(0),
        bytes: AtomicU64::new(0),
        enter_ticks: AtomicU64::new(0),
        waited: [const { AtomicU64::new(0) }; 3],
    }
}; WORKS];
static STEP: [Step; STEPS] = [const {
    Step {
        turns: Turns::new(),
        work: AtomicU64::new(0),
        waiting: AtomicU32::new(0),
        since_ticks: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    }
}; STEPS];
static NEXT_WORK: AtomicU32 = AtomicU32::new(0);
static NEXT_STEP: AtomicU32 = AtomicU32::new(0);

fn free<T>(
    table: &'static [T],
    next: &AtomicU32,
    turns: impl Fn(&T) -> &Turns,
) -> Option<(&'static T, Slot)> {
    let first = next.fetch_add(1, Ordering::Relaxed) as usize;
    let found = (0..LOOKED_AT).find_map(|step| {
        let position = (first + step) % table.len();
        let turn = turns(&table[position]).take()?;
        let slot = Slot {
            position: position as u16,
            turn,
        };
        Some((&table[position], slot))
    });
    if found.is_none() {
        count_lost();
    }
    found
}

/// Counts a work, or a step of one, for which there was no slot.
#[cold]
fn count_lost() {
    if let Some(set) = life::definitions() {
        let now = ticks();
        set.area
            .count_loss(LossCause::NoRange, RecordKind::Device, 1, now, now);
    }
}

fn work_at(slot: Slot) -> Option<&'static Work> {
    WORK.get(usize::from(slot.position))
        .filter(|work| work.turns.is(slot.turn))
}

fn step_at(slot: Slot) -> Option<&'static Step> {
    STEP.get(usize::from(slot.position))
        .filter(|step| step.turns.is(slot.turn))
}

/// Stores the start of a proxy's work for a peer, and returns its handle; 0 if no slot is free.
pub fn work_began(context: &'static Context, told: &abi::ProxyOp) -> u64 {
    let Some((work, slot)) = free(&WORK, &NEXT_WORK, |work| &work.turns) else {
        return 0;
    };
    work.communicator
        .store(context.index().unwrap_or(NO_COMMUNICATOR), Ordering::Relaxed);
    work.peer.store(told.peer as u32, Ordering::Relaxed);
    work.channel.store(u32::from(told.channel), Ordering::Relaxed);
    work.is_send
        .store(u32::from(told.is_send != 0), Ordering::Relaxed);
    work.bytes.store(0, Ordering::Relaxed);
    work.enter_ticks.store(ticks(), Ordering::Relaxed);
    for waited in &work.waited {
        waited.store(0, Ordering::Relaxed);
    }
    handles::of_traffic(slot)
}

/// Commits the record of a work that has ended.
pub fn work_ended(slot: Slot) {
    let Some(work) = work_at(slot) else { return };
    let is_send = work.is_send.load(Ordering::Relaxed) != 0;
    let waited = |waiting: Waiting| {
        let units = work.waited[waiting as usize - 1].load(Ordering::Relaxed) / ProxyWaits::UNIT_TICKS;
        u32::try_from(units).unwrap_or(u32::MAX)
    };
    let waits = ProxyWaits {
        device: waited(Waiting::Device),
        peer: waited(Waiting::Peer),
        network: waited(Waiting::Network),
    };
    let record = Record {
        operation: if is_send {
            Operation::Send
        } else {
            Operation::Receive
        } as u8,
        flags: FLAG_TRAFFIC,
        enter_ticks: work.enter_ticks.load(Ordering::Relaxed),
        leave_ticks: ticks(),
        bytes: work.bytes.load(Ordering::Relaxed),
        communicator: work.communicator.load(Ordering::Relaxed),
        tag: work.channel.load(Ordering::Relaxed),
        peer: work.peer.load(Ordering::Relaxed) as i32,
        aux: waits.to_aux(),
        ..Record::new(RecordKind::Device)
    };
    work.give_back(slot.turn, record.communicator);
    life::commit(&thread::state().lane, &record);
}

/// Stores the start of a work's step, and returns its handle; 0 if no slot is free.
pub fn step_began(work: u64) -> u64 {
    if handles::traffic(work).and_then(work_at).is_none() {
        return 0;
    }
    let Some((step, slot)) = free(&STEP, &NEXT_STEP, |step| &step.turns) else {
        return 0;
    };
    step.work.store(work, Ordering::Relaxed);
    step.waiting.store(Waiting::Nothing as u32, Ordering::Relaxed);
    step.bytes.store(0, Ordering::Relaxed);
    step.since_ticks.store(ticks(), Ordering::Relaxed);
    handles::of_step(slot)
}

/// Adds the time since the last change to the cause that the step waited for.
fn account(step: &Step, now: u64) {
    let waited = now.saturating_sub(step.since_ticks.load(Ordering::Relaxed));
    let waiting = step.waiting.load(Ordering::Relaxed) as usize;
    if let Some(work) = handles::traffic(step.work.load(Ordering::Relaxed)).and_then(work_at)
        && let Some(sum) = waiting.checked_sub(1).and_then(|at| work.waited.get(at))
    {
        sum.fetch_add(waited, Ordering::Relaxed);
    }
}

/// Stores what a step waits for now, and `bytes` once the library knows them.
pub fn step_went_on(slot: Slot, to: c_int, bytes: u64) {
    let Some(step) = step_at(slot) else { return };
    let now = ticks();
    account(step, now);
    let waiting = match to {
        state::SEND_GPU_WAIT | state::RECV_FLUSH_WAIT | state::RECV_GPU_WAIT => Waiting::Device,
        state::SEND_PEER_WAIT => Waiting::Peer,
        state::SEND_WAIT | state::RECV_WAIT => Waiting::Network,
        _ => Waiting::Nothing,
    };
    // In the other states the library still has the size of the previous step.
    if matches!(to, state::SEND_WAIT | state::RECV_FLUSH_WAIT) {
        step.bytes.store(bytes, Ordering::Relaxed);
    }
    step.waiting.store(waiting as u32, Ordering::Relaxed);
    step.since_ticks.store(now, Ordering::Relaxed);
}

/// Adds the bytes of a step that has ended to its work.
pub fn step_ended(slot: Slot) {
    let Some(step) = step_at(slot) else { return };
    account(step, ticks());
    if let Some(work) = handles::traffic(step.work.load(Ordering::Relaxed)).and_then(work_at) {
        work.bytes
            .fetch_add(step.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    step.work.store(0, Ordering::Relaxed);
    step.turns.give_back(slot.turn);
}

/// Releases the slots of a communicator that has ended, together with its proxies' work.
pub fn communicator_ended(communicator: u32) {
    for work in &WORK {
        let turns = work.turns.0.load(Ordering::Acquire);
        if turns & 1 == 1 && work.communicator.load(Ordering::Relaxed) == communicator {
            work.give_back((turns >> 1) as u32, communicator);
        }
    }
    for step in &STEP {
        let turns = step.turns.0.load(Ordering::Acquire);
        // 0: another thread took the slot a moment ago, and is about to store its work.
        let work = step.work.load(Ordering::Acquire);
        let is_orphan = work != 0 && handles::traffic(work).and_then(work_at).is_none();
        if turns & 1 == 1 && is_orphan {
            // If another owner has stored its work meanwhile, that one stays.
            let _ = step
                .work
                .compare_exchange(work, 0, Ordering::Relaxed, Ordering::Relaxed);
            step.turns.give_back((turns >> 1) as u32);
        }
    }
}
