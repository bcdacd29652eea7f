//! Pairs of events of one context: made once, put around launches, read when they have happened, used again.
//!
//! What two events say is how far apart they are. So every context has a clock of its own: an event on a stream that
//! only we use, once a second, whose distance to the one before is added up. When it was asked for and when it had
//! happened are stamped on the host, which ties that clock to the others (a device record with FLAG_CLOCK). Distances
//! come as `float` milliseconds: from an event that is seconds away they are good to half a microsecond.

use super::super::capture;
use super::super::driver::{self, NOT_READY, RELAXED, SUCCESS};
use super::super::plugin::handles::Call;
use crate::life;
use crate::thread::ThreadState;
use rankscope_formats::ranklog::clock::{clock_ns, ticks, ticks_per_second};
use rankscope_formats::ranklog::record::{
    DeviceWork, FLAG_CLOCK, FLAG_EVENTS, FLAG_SEQUENCE_UNKNOWN, Record, RecordKind,
};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Launches of one context that may be under way at once; of further ones nothing is told.
const SLOTS: usize = 256;
/// Contexts of one process.
const POOLS: usize = 16;
/// Events that distances are counted from, in turn: what was launched before the last one is still counted from its own.
const BASES: usize = 4;
/// Seconds after which a base is too far away to count from.
const FAR_S: u64 = 6;
/// The first base comes after 16 ms, and each later than the one before, until they come once a second.
const FIRST_DOUBLINGS: u32 = 6;
/// Launches that are read in one go, and of those that are not over how many are asked.
const MOST_READ: u32 = 16;
/// See [`MOST_READ`].
const MOST_ASKED: u32 = 4;
/// How often a base is asked at once whether it has happened; it mostly has within microseconds, and what is asked later
/// binds the clocks less well.
const ASKED_AT_ONCE: u32 = 24;
/// After so many readings all that has happened was read.
pub const READS_ALL: usize = SLOTS / MOST_READ as usize;
/// [`ASKED_AT_ONCE`] for the first base, which the pool needs.
const ASKED_AT_FIRST: u32 = 100_000;

/// `state` of a slot: nobody's.
const FREE: u32 = 0;
/// A call is being timed.
const TAKEN: u32 = 1;
/// Both events are on their stream.
const RECORDED: u32 = 2;

/// `state` of a pool.
const NONE: u32 = 0;
const MAKING: u32 = 1;
const READY: u32 = 2;
/// A driver's call failed in a way that says: no more of these.
const DEAD: u32 = 3;

/// One launch between two events.
struct Slot {
    state: AtomicU32,
    base: AtomicU32,
    call: AtomicU64,
    peer: AtomicU32,
    start: AtomicUsize,
    stop: AtomicUsize,
}

/// An event, and when it happened by the context's clock.
struct Base {
    event: AtomicUsize,
    ns: AtomicU64,
}

/// The events of one context.
pub struct Pool {
    state: AtomicU32,
    /// The process life that made it: a child has no device.
    life: AtomicU32,
    context: AtomicUsize,
    stream: AtomicUsize,
    /// Communicators that use it.
    users: AtomicU32,
    slots: [Slot; SLOTS],
    /// Slots taken so far, and the first of them that may still be under way.
    next: AtomicU32,
    tail: AtomicU32,
    bases: [Base; BASES],
    base: AtomicU32,
    /// Host's ticks when the base was put on its stream.
    base_ticks: AtomicU64,
    /// The next one is on its stream since these ticks; 0: it is not.
    asked_ticks: AtomicU64,
    /// How many there were.
    made: AtomicU32,
    /// One thread reads at a time; nobody waits for it.
    reading: AtomicU32,
    /// Where the context's clock stood when its pool was closed, and the host's then, ns.
    closed_ns: AtomicU64,
    closed_host_ns: AtomicU64,
}

static POOL: [Pool; POOLS] = [const {
    Pool {
        state: AtomicU32::new(NONE),
        life: AtomicU32::new(0),
        context: AtomicUsize::new(0),
        stream: AtomicUsize::new(0),
        users: AtomicU32::new(0),
        slots: [const {
            Slot {
                state: AtomicU32::new(FREE),
                base: AtomicU32::new(0),
                call: AtomicU64::new(0),
                peer: AtomicU32::new(0),
                start: AtomicUsize::new(0),
                stop: AtomicUsize::new(0),
            }
        }; SLOTS],
        next: AtomicU32::new(0),
        tail: AtomicU32::new(0),
        bases: [const {
            Base {
                event: AtomicUsize::new(0),
                ns: AtomicU64::new(0),
            }
        }; BASES],
        base: AtomicU32::new(0),
        base_ticks: AtomicU64::new(0),
        asked_ticks: AtomicU64::new(0),
        made: AtomicU32::new(0),
        reading: AtomicU32::new(0),
        closed_ns: AtomicU64::new(0),
        closed_host_ns: AtomicU64::new(0),
    }
}; POOLS];

/// A slot of a pool that a call holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pool: u8,
    slot: u8,
}

/// What a held slot tells of.
pub struct Told {
    /// The call by which its record is found.
    pub call: u64,
    /// Peer of a message.
    pub peer: i32,
}

/// The pool with this number.
pub fn at(number: u32) -> Option<&'static Pool> {
    POOL.get(number as usize)
}

/// Whether there is a pool for a context.
pub enum Found {
    /// This one.
    Number(u32),
    /// Another thread is making it.
    Later,
    /// There is none to be had.
    Never,
}

/// The pool of a context, made if it is not there. Milliseconds the first time.
#[cold]
pub fn of(context: usize, thread: &'static ThreadState, communicator: u32) -> Found {
    let find = || {
        POOL.iter().position(|pool| {
            pool.state.load(Ordering::Acquire) != NONE && pool.context.load(Ordering::Relaxed) == context
        })
    };
    let Some(number) = find().or_else(|| {
        // The one that had this context before keeps its clock.
        let is_free = |pool: &Pool| pool.state.load(Ordering::Relaxed) == NONE;
        let position = POOL
            .iter()
            .position(|pool| is_free(pool) && pool.context.load(Ordering::Relaxed) == context)
            .or_else(|| {
                POOL.iter()
                    .position(|pool| is_free(pool) && pool.context.load(Ordering::Relaxed) == 0)
            })?;
        let pool = &POOL[position];
        pool.state
            .compare_exchange(NONE, MAKING, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        pool.context.store(context, Ordering::Relaxed);
        pool.life.store(life::number(), Ordering::Relaxed);
        let is_made = InContext::enter(context).is_some_and(|_inside| pool.make(thread, communicator));
        pool.state
            .store(if is_made { READY } else { DEAD }, Ordering::Release);
        Some(position)
    }) else {
        return Found::Never;
    };
    let pool = &POOL[number];
    if pool.is_usable() {
        pool.users.fetch_add(1, Ordering::Relaxed);
        Found::Number(number as u32)
    } else if pool.state.load(Ordering::Acquire) == MAKING {
        Found::Later
    } else {
        Found::Never
    }
}

/// The calling thread in another context, and such that what it asks disturbs no capture of another thread.
struct InContext {
    mode: i32,
    has_pushed: bool,
}

impl InContext {
    fn enter(context: usize) -> Option<Self> {
        let mut mode = RELAXED;
        let mut current = 0;
        // SAFETY: the context is one in which a communicator works; both places are ours.
        unsafe {
            if driver::exchange_capture_mode(&raw mut mode) != SUCCESS {
                return None;
            }
            let mut inside = Self {
                mode,
                has_pushed: false,
            };
            if driver::current_context(&raw mut current) != SUCCESS || current != context {
                inside.has_pushed = driver::push_context(context) == SUCCESS;
                if !inside.has_pushed {
                    return None;
                }
            }
            Some(inside)
        }
    }
}

impl Drop for InContext {
    fn drop(&mut self) {
        let mut popped = 0;
        // SAFETY: undoes what `enter` did.
        unsafe {
            if self.has_pushed {
                driver::pop_context(&raw mut popped);
            }
            driver::exchange_capture_mode(&raw mut self.mode);
        }
    }
}

/// Held while the slots of a pool are read.
struct Reading<'a>(&'a Pool);

impl<'a> Reading<'a> {
    fn begin(pool: &'a Pool) -> Option<Self> {
        (pool.reading.swap(1, Ordering::Acquire) == 0).then_some(Self(pool))
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.reading.store(0, Ordering::Release);
    }
}

impl Pool {
    fn is_usable(&self) -> bool {
        self.state.load(Ordering::Acquire) == READY && self.life.load(Ordering::Relaxed) == life::number()
    }

    /// True if this is the pool of that context.
    pub fn is_of(&self, context: usize) -> bool {
        self.context.load(Ordering::Relaxed) == context
    }

    /// Makes the stream and all events, in the current context, and starts the clock.
    fn make(&self, thread: &'static ThreadState, communicator: u32) -> bool {
        let fresh = |place: &AtomicUsize| {
            let mut event = 0;
            // SAFETY: a place of ours.
            let is_made = unsafe { driver::event_create(&raw mut event, 0) } == SUCCESS;
            place.store(event, Ordering::Relaxed);
            is_made
        };
        let mut stream = 0;
        // SAFETY: a place of ours.
        if unsafe { driver::stream_create(&raw mut stream, driver::NON_BLOCKING) } != SUCCESS {
            return false;
        }
        self.stream.store(stream, Ordering::Relaxed);
        for slot in &self.slots {
            slot.state.store(FREE, Ordering::Relaxed);
            if !fresh(&slot.start) || !fresh(&slot.stop) {
                return false;
            }
        }
        if !self.bases.iter().all(|base| fresh(&base.event)) {
            return false;
        }
        self.next.store(0, Ordering::Relaxed);
        self.tail.store(0, Ordering::Relaxed);
        self.base.store(0, Ordering::Relaxed);
        let begun = ticks();
        // SAFETY: an event and a stream of ours in one context.
        if unsafe { driver::event_record(self.bases[0].event.load(Ordering::Relaxed), stream) } != SUCCESS
            || !has_happened_within(self.bases[0].event.load(Ordering::Relaxed), ASKED_AT_FIRST)
        {
            return false;
        }
        let over = ticks();
        let host_ns = clock_ns(libc::CLOCK_MONOTONIC_RAW) as u64;
        // The clock goes on where it stood: a device has one.
        let ns = match self.closed_ns.load(Ordering::Relaxed) {
            0 => host_ns + 1,
            closed => closed + host_ns.saturating_sub(self.closed_host_ns.load(Ordering::Relaxed)),
        };
        self.bases[0].ns.store(ns, Ordering::Relaxed);
        self.base_ticks.store(begun, Ordering::Relaxed);
        self.asked_ticks.store(0, Ordering::Relaxed);
        self.made.store(0, Ordering::Relaxed);
        tell_time(thread, communicator, ns, begun, over);
        true
    }

    /// Takes a slot for a call; `None` if none is free, or the last base is far away.
    pub fn take(&self, number: u32, told: &Told) -> Option<Held> {
        let base = self.base.load(Ordering::Acquire);
        let is_near =
            ticks().saturating_sub(self.base_ticks.load(Ordering::Relaxed)) < FAR_S * ticks_per_second();
        if !self.is_usable() || !is_near {
            return None;
        }
        let taken = self.next.fetch_add(1, Ordering::Relaxed);
        let slot = &self.slots[taken as usize % SLOTS];
        slot.state
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        slot.base.store(base, Ordering::Relaxed);
        slot.call.store(told.call, Ordering::Relaxed);
        slot.peer.store(told.peer as u32, Ordering::Relaxed);
        Some(Held {
            pool: number as u8,
            slot: (taken as usize % SLOTS) as u8,
        })
    }

    /// Reads what has happened, and keeps the clock. Asks the driver a few questions and waits for nothing.
    pub fn read(&self, thread: &'static ThreadState, communicator: u32) {
        if !self.is_usable() {
            return;
        }
        let Some(_reading) = Reading::begin(self) else {
            return;
        };
        let Some(_inside) = InContext::enter(self.context.load(Ordering::Relaxed)) else {
            return;
        };
        self.keep_clock(thread, communicator);
        let next = self.next.load(Ordering::Relaxed);
        let mut tail = self.tail.load(Ordering::Relaxed);
        if next.wrapping_sub(tail) > SLOTS as u32 {
            tail = next.wrapping_sub(SLOTS as u32);
        }
        let (mut read, mut asked, mut is_front) = (0, 0, true);
        for number in 0..next.wrapping_sub(tail) {
            let slot = &self.slots[tail.wrapping_add(number) as usize % SLOTS];
            let mut is_over = slot.state.load(Ordering::Acquire) == FREE;
            if slot.state.load(Ordering::Acquire) == RECORDED {
                // SAFETY: an event of ours.
                match unsafe { driver::event_query(slot.stop.load(Ordering::Relaxed)) } {
                    SUCCESS => {
                        self.tell(slot, thread);
                        slot.state.store(FREE, Ordering::Release);
                        is_over = true;
                        read += 1;
                    }
                    NOT_READY => asked += 1,
                    _ => {
                        // The context has failed, and every further question gets the same answer.
                        self.state.store(DEAD, Ordering::Release);
                        return;
                    }
                }
            }
            is_front &= is_over;
            if is_front {
                self.tail.store(tail.wrapping_add(number + 1), Ordering::Relaxed);
            }
            if read >= MOST_READ || asked >= MOST_ASKED {
                break;
            }
        }
    }

    /// Both events of a slot have happened.
    fn tell(&self, slot: &Slot, thread: &'static ThreadState) {
        let (start, stop) = (
            slot.start.load(Ordering::Relaxed),
            slot.stop.load(Ordering::Relaxed),
        );
        let base = &self.bases[slot.base.load(Ordering::Relaxed) as usize % BASES];
        let since_base = elapsed_ns(base.event.load(Ordering::Relaxed), start);
        let (object, duration_ns) = match (since_base, elapsed_ns(start, stop)) {
            (Some(since), Some(duration)) => (
                base.ns.load(Ordering::Relaxed).saturating_add_signed(since),
                duration.max(0) as u64,
            ),
            _ => (0, 0),
        };
        commit(slot, thread, object, duration_ns);
    }

    /// Once a second a base, at first more often, so that short runs have some too; and what is to be known of the one
    /// that is under way.
    fn keep_clock(&self, thread: &'static ThreadState, communicator: u32) {
        let current = self.base.load(Ordering::Relaxed);
        let next = (current + 1) % BASES as u32;
        let event = self.bases[next as usize].event.load(Ordering::Relaxed);
        let mut begun = self.asked_ticks.load(Ordering::Relaxed);
        let mut patience = 1;
        if begun == 0 {
            let now = ticks();
            let doublings = self.made.load(Ordering::Relaxed).min(FIRST_DOUBLINGS);
            let interval = ticks_per_second() >> (FIRST_DOUBLINGS - doublings);
            let is_due = now.saturating_sub(self.base_ticks.load(Ordering::Relaxed)) >= interval;
            let is_counted_from = |slot: &Slot| {
                slot.state.load(Ordering::Relaxed) != FREE && slot.base.load(Ordering::Relaxed) == next
            };
            if !is_due || self.slots.iter().any(is_counted_from) {
                return;
            }
            // SAFETY: an event and a stream of ours in one context.
            if unsafe { driver::event_record(event, self.stream.load(Ordering::Relaxed)) } != SUCCESS {
                return;
            }
            self.asked_ticks.store(now, Ordering::Relaxed);
            (begun, patience) = (now, ASKED_AT_ONCE);
        }
        if !has_happened_within(event, patience) {
            return;
        }
        let over = ticks();
        self.asked_ticks.store(0, Ordering::Relaxed);
        let before = &self.bases[current as usize];
        let Some(since) = elapsed_ns(before.event.load(Ordering::Relaxed), event) else {
            return;
        };
        let ns = before.ns.load(Ordering::Relaxed).saturating_add_signed(since);
        self.bases[next as usize].ns.store(ns, Ordering::Relaxed);
        self.base_ticks.store(begun, Ordering::Relaxed);
        self.base.store(next, Ordering::Release);
        self.made.fetch_add(1, Ordering::Relaxed);
        tell_time(thread, communicator, ns, begun, over);
    }

    /// A communicator that used it is gone; with the last one all events go, while their context is surely alive.
    pub fn left(&self, thread: &'static ThreadState) {
        if self.users.fetch_sub(1, Ordering::AcqRel) != 1
            || self.life.load(Ordering::Relaxed) != life::number()
        {
            return;
        }
        let Some(_reading) = Reading::begin(self) else {
            return;
        };
        let was = self.state.swap(MAKING, Ordering::AcqRel);
        let inside = if was == READY {
            InContext::enter(self.context.load(Ordering::Relaxed))
        } else {
            None
        };
        if inside.is_none() {
            // Dead, or not to be entered: then nothing of it is touched again.
            self.state.store(DEAD, Ordering::Release);
            return;
        }
        for slot in &self.slots {
            if slot.state.swap(FREE, Ordering::AcqRel) == RECORDED {
                commit(slot, thread, 0, 0);
            }
        }
        let base = &self.bases[self.base.load(Ordering::Relaxed) as usize % BASES];
        let passed = ticks().saturating_sub(self.base_ticks.load(Ordering::Relaxed));
        let passed_ns = u128::from(passed) * 1_000_000_000 / u128::from(ticks_per_second().max(1));
        self.closed_ns.store(
            base.ns.load(Ordering::Relaxed) + passed_ns as u64,
            Ordering::Relaxed,
        );
        self.closed_host_ns
            .store(clock_ns(libc::CLOCK_MONOTONIC_RAW) as u64, Ordering::Relaxed);
        let events = self
            .slots
            .iter()
            .flat_map(|slot| [&slot.start, &slot.stop])
            .chain(self.bases.iter().map(|base| &base.event));
        // SAFETY: events and a stream of ours, not used again.
        unsafe {
            for event in events {
                driver::event_destroy(event.swap(0, Ordering::Relaxed));
            }
            driver::stream_destroy(self.stream.swap(0, Ordering::Relaxed));
        }
        self.state.store(NONE, Ordering::Release);
    }
}

impl Held {
    /// Number of its pool.
    pub fn pool(self) -> u32 {
        u32::from(self.pool)
    }

    fn slot(self) -> &'static Slot {
        &POOL[usize::from(self.pool) % POOLS].slots[usize::from(self.slot)]
    }

    /// Puts the first event on the stream; false if that is not to be done, and nothing comes of it.
    pub fn start(self, stream: usize) -> bool {
        let slot = self.slot();
        // Asked just before, for a capture may have begun.
        // SAFETY: an event of ours; the stream is what the program passes to NCCL.
        capture::is_free(stream)
            && unsafe { driver::event_record(slot.start.load(Ordering::Relaxed), stream) } == SUCCESS
    }

    /// Puts the second event behind the launch.
    pub fn stop(self, stream: usize, thread: &'static ThreadState) {
        let slot = self.slot();
        // SAFETY: as above.
        let is_recorded = capture::is_free(stream)
            && unsafe { driver::event_record(slot.stop.load(Ordering::Relaxed), stream) } == SUCCESS;
        if is_recorded {
            slot.state.store(RECORDED, Ordering::Release);
        } else {
            self.give_up(thread);
        }
    }

    /// The call was not announced: as if it had never been held.
    pub fn withdraw(self) {
        self.slot().state.store(FREE, Ordering::Release);
    }

    /// Nothing comes of the call: says so, for it was announced.
    pub fn give_up(self, thread: &'static ThreadState) {
        let slot = self.slot();
        commit(slot, thread, 0, 0);
        slot.state.store(FREE, Ordering::Release);
    }
}

fn has_happened_within(event: usize, asked: u32) -> bool {
    // SAFETY: an event of ours.
    (0..asked).any(|_| unsafe { driver::event_query(event) } == SUCCESS)
}

/// From one event to another, ns; `None` if the driver does not say.
fn elapsed_ns(from: usize, to: usize) -> Option<i64> {
    let mut ms = 0.0f32;
    // SAFETY: events of ours that have happened, and a place of ours.
    let outcome = unsafe { driver::event_elapsed(&raw mut ms, from, to) };
    (outcome == SUCCESS && ms.is_finite()).then(|| (f64::from(ms) * 1e6).round() as i64)
}

fn commit(slot: &Slot, thread: &'static ThreadState, object: u64, duration_ns: u64) {
    let Some(call) = Call::from_bits(slot.call.load(Ordering::Relaxed)) else {
        return;
    };
    let now = ticks();
    let record = Record {
        operation: call.operation,
        flags: call.flags | FLAG_EVENTS,
        enter_ticks: now,
        leave_ticks: now,
        object,
        communicator: call.communicator,
        sequence: call.sequence,
        peer: slot.peer.load(Ordering::Relaxed) as i32,
        aux: DeviceWork {
            duration_ns,
            ..DeviceWork::default()
        }
        .to_aux(),
        ..Record::new(RecordKind::Device)
    };
    life::commit(thread, &record);
}

fn tell_time(thread: &'static ThreadState, communicator: u32, ns: u64, begun: u64, over: u64) {
    let record = Record {
        flags: FLAG_CLOCK | FLAG_SEQUENCE_UNKNOWN,
        enter_ticks: begun,
        leave_ticks: over,
        object: ns,
        communicator,
        ..Record::new(RecordKind::Device)
    };
    life::commit(thread, &record);
}
