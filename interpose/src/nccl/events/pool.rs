//! Pools of event pairs, one pool per context. Pairs are created once, recorded around launches, read when complete,
//! and reused.
//!
//! Two events give only the time between them. So every context has a separate clock: a base event, recorded once a
//! second on a stream that only rankscope uses. Its distance to the previous base event is added up. The host takes a
//! timestamp when it requests the base event and when it sees it complete. These timestamps tie this clock to the
//! others (a device record with FLAG_CLOCK). Distances are `float` milliseconds. From an event that is seconds away
//! they are accurate to half a microsecond.

use super::super::capture;
use super::super::plugin::handles::Call;
use crate::core::life;
use crate::cuda::driver;
use crate::cuda::driver::{NOT_READY, RELAXED, SUCCESS};
use crate::thread::{HeldSlot, ThreadState};
use rankscope_ranklog::clock::{clock_ns, ticks, ticks_per_second};
use rankscope_ranklog::record::{
    DeviceWork, FLAG_CLOCK, FLAG_EVENTS, FLAG_SEQUENCE_UNKNOWN, Record, RecordKind,
};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Maximum number of launches of one context in flight; further ones are not timed.
const SLOTS: usize = 256;
/// Maximum number of contexts of one process.
const POOLS: usize = 16;
/// Number of base events, which are used in turn. A long launch keeps the base that it started with.
const BASES: usize = 16;
/// Age in seconds from which a base is too old to measure from.
const FAR_S: u64 = 6;
/// The first interval between bases is 16 ms. Each interval is twice the previous one, until it is one second.
const FIRST_DOUBLINGS: u32 = 6;
/// Maximum number of driver queries in one reading.
const MAX_ASKED: u32 = 12;
/// Number of readings after which every complete launch was read.
const READS_ALL: usize = 2 * SLOTS / MAX_ASKED as usize;
/// Number of immediate queries for a new base. It is mostly complete within microseconds, and a later answer ties the
/// clocks less precisely.
const ASKED_AT_ONCE: u32 = 24;
/// Number of times that the end of a communicator checks whether another thread still reads.
const PATIENCE: u32 = 200;

/// `state` of a slot: unused.
const FREE: u32 = 0;
/// `state` of a slot: a call is being timed.
const TAKEN: u32 = 1;
/// `state` of a slot: both events are on their stream.
const RECORDED: u32 = 2;

/// Values of a pool's `state`.
const NONE: u32 = 0;
const MAKING: u32 = 1;
const READY: u32 = 2;
/// The driver returned an error. It is not called for this pool any more.
const DEAD: u32 = 3;

/// No base is complete yet.
const NO_BASE: u32 = u32::MAX;

/// One launch between two events.
struct Slot {
    state: AtomicU32,
    base: AtomicU32,
    call: AtomicU64,
    peer: AtomicU32,
    start: AtomicUsize,
    stop: AtomicUsize,
}

/// A base event, and the time at which it happened by the context's clock.
struct Base {
    event: AtomicUsize,
    ns: AtomicU64,
}

/// The events of one context.
pub struct Pool {
    state: AtomicU32,
    /// Number of times that the pool was made. A slot held since an earlier time is no longer valid.
    generation: AtomicU32,
    /// Process life that made the pool. A forked child cannot use the device.
    life: AtomicU32,
    context: AtomicUsize,
    /// The driver's number of the context, if it has one. The context's address may meanwhile belong to another
    /// context.
    context_id: AtomicU64,
    stream: AtomicUsize,
    /// Number of communicators that use the pool.
    users: AtomicU32,
    slots: [Slot; SLOTS],
    /// Positions at which the searches for the next free slot and the next complete slot start.
    next: AtomicU32,
    cursor: AtomicU32,
    bases: [Base; BASES],
    /// Last base that is complete; [`NO_BASE`] if there is none.
    base: AtomicU32,
    /// Ticks of the host when that base was recorded, and the approximate time at which it happened by the host's
    /// clock, ns.
    base_ticks: AtomicU64,
    base_host_ns: AtomicU64,
    /// The base that is recorded and not yet complete, and the ticks since then; 0 ticks: there is none.
    asked: AtomicU32,
    asked_ticks: AtomicU64,
    asked_host_ns: AtomicU64,
    /// Number of bases so far.
    made: AtomicU32,
    /// Lock for readers: one thread reads at a time. No other thread waits for it.
    reading: AtomicU32,
    read_ticks: AtomicU64,
    /// Readings of the context's clock and of the host's clock when the pool was closed, ns.
    closed_ns: AtomicU64,
    closed_host_ns: AtomicU64,
}

static POOL: [Pool; POOLS] = [const {
    Pool {
        state: AtomicU32::new(NONE),
        generation: AtomicU32::new(0),
        life: AtomicU32::new(0),
        context: AtomicUsize::new(0),
        context_id: AtomicU64::new(0),
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
        cursor: AtomicU32::new(0),
        bases: [const {
            Base {
                event: AtomicUsize::new(0),
                ns: AtomicU64::new(0),
            }
        }; BASES],
        base: AtomicU32::new(NO_BASE),
        base_ticks: AtomicU64::new(0),
        base_host_ns: AtomicU64::new(0),
        asked: AtomicU32::new(0),
        asked_ticks: AtomicU64::new(0),
        asked_host_ns: AtomicU64::new(0),
        made: AtomicU32::new(0),
        reading: AtomicU32::new(0),
        read_ticks: AtomicU64::new(0),
        closed_ns: AtomicU64::new(0),
        closed_host_ns: AtomicU64::new(0),
    }
}; POOLS];

/// Lock that is held while a pool is searched and made, and while one is closed. Two threads must not make two pools
/// for one context, and no thread may join a pool that is being closed. Only the end of a communicator waits for it,
/// and only briefly.
static IS_CHANGING: AtomicU32 = AtomicU32::new(0);

struct Changing;

impl Changing {
    fn begin() -> Option<Self> {
        (IS_CHANGING.swap(1, Ordering::AcqRel) == 0).then_some(Self)
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        IS_CHANGING.store(0, Ordering::Release);
    }
}

/// Values that are reported with a slot.
pub struct LaunchLabel {
    /// Call that identifies the record.
    pub call: u64,
    /// Peer of a message.
    pub peer: i32,
}

/// Returns the pool with this number.
pub fn at(number: u32) -> Option<&'static Pool> {
    POOL.get(number as usize)
}

/// Result of the search for a context's pool.
pub enum Found {
    /// The number of the pool.
    Number(u32),
    /// Another thread is changing the pools. Try again later.
    Later,
    /// No pool is available.
    Never,
}

/// Returns the driver's number of a context; 0 if the driver has none (before CUDA 12).
fn id_of(context: usize) -> u64 {
    let mut id = 0;
    // SAFETY: the context is alive, because a stream of the program belongs to it, or because it is current. `id` is a
    // local.
    if unsafe { driver::context_id(context, &raw mut id) } == SUCCESS {
        id
    } else {
        0
    }
}

/// Adds a communicator to the pool of a live context, and makes the pool if it does not exist. The first time takes
/// milliseconds.
#[cold]
pub fn join(context: usize) -> Found {
    let Some(_changing) = Changing::begin() else {
        return Found::Later;
    };
    let id = id_of(context);
    let had = |pool: &Pool| {
        pool.context.load(Ordering::Relaxed) == context && pool.context_id.load(Ordering::Relaxed) == id
    };
    let is_free = |pool: &Pool| pool.state.load(Ordering::Relaxed) == NONE;
    let known = POOL.iter().position(|pool| !is_free(pool) && had(pool));
    // Prefers the pool that had this context before, because its clock continues. Otherwise prefers a pool without a
    // previous context.
    let free = || {
        let fresh = |pool: &Pool| is_free(pool) && pool.context.load(Ordering::Relaxed) == 0;
        POOL.iter()
            .position(|pool| is_free(pool) && had(pool))
            .or_else(|| POOL.iter().position(fresh))
            .or_else(|| POOL.iter().position(is_free))
    };
    let Some(number) = known.or_else(free) else {
        return Found::Never;
    };
    let pool = &POOL[number];
    if known.is_none() {
        let is_same = had(pool) && id != 0;
        pool.context.store(context, Ordering::Relaxed);
        pool.context_id.store(id, Ordering::Relaxed);
        pool.life.store(life::number(), Ordering::Relaxed);
        let is_made = InContext::enter(context).is_some_and(|_inside| pool.make(is_same));
        pool.state
            .store(if is_made { READY } else { DEAD }, Ordering::Release);
    }
    if !pool.is_usable() {
        return Found::Never;
    }
    pool.users.fetch_add(1, Ordering::AcqRel);
    Found::Number(number as u32)
}

/// Makes a context current for the calling thread, and sets a mode in which its driver calls disturb no other thread's
/// capture.
struct InContext {
    mode: i32,
    has_pushed: bool,
}

impl InContext {
    fn enter(context: usize) -> Option<Self> {
        let mut mode = RELAXED;
        let mut current = 0;
        // SAFETY: a communicator works in the context. Both pointers are to locals.
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
        // SAFETY: restores what `enter` changed on this thread. The pointers are to a local and to a field of `self`.
        unsafe {
            if self.has_pushed {
                driver::pop_context(&raw mut popped);
            }
            driver::exchange_capture_mode(&raw mut self.mode);
        }
    }
}

/// Guard that is held while the slots of a pool are read, or while it is closed.
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

    /// Returns true if this is the pool of that context. The context must be alive.
    pub fn is_of(&self, context: usize) -> bool {
        self.context.load(Ordering::Relaxed) == context
            && self.context_id.load(Ordering::Relaxed) == id_of(context)
    }

    /// Removes a communicator that does not use the pool after all.
    pub fn leave(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    fn events(&self) -> impl Iterator<Item = &AtomicUsize> {
        self.slots
            .iter()
            .flat_map(|slot| [&slot.start, &slot.stop])
            .chain(self.bases.iter().map(|base| &base.event))
    }

    /// Creates the stream and all events, in the current context. The clock starts with the first complete base. With
    /// `is_same`, the context is surely the previous one. Its remaining events are then reused, and its clock
    /// continues.
    fn make(&self, is_same: bool) -> bool {
        if !is_same {
            self.closed_ns.store(0, Ordering::Relaxed);
            self.stream.store(0, Ordering::Relaxed);
            self.events().for_each(|place| place.store(0, Ordering::Relaxed));
        }
        let mut stream = self.stream.load(Ordering::Relaxed);
        // SAFETY: `stream` is a local, and the context is current.
        if stream == 0 && unsafe { driver::stream_create(&raw mut stream, driver::NON_BLOCKING) } != SUCCESS {
            return false;
        }
        self.stream.store(stream, Ordering::Relaxed);
        let are_made = self.events().all(|place| {
            if place.load(Ordering::Relaxed) != 0 {
                return true;
            }
            let mut event = 0;
            // SAFETY: `event` is a local, and the context is current.
            let is_made = unsafe { driver::event_create(&raw mut event, 0) } == SUCCESS;
            place.store(if is_made { event } else { 0 }, Ordering::Relaxed);
            is_made
        });
        if !are_made {
            self.destroy();
            return false;
        }
        for slot in &self.slots {
            slot.state.store(FREE, Ordering::Relaxed);
        }
        self.generation.fetch_add(1, Ordering::Relaxed);
        for count in [&self.next, &self.cursor, &self.users, &self.made] {
            count.store(0, Ordering::Relaxed);
        }
        for moment in [&self.base_ticks, &self.asked_ticks, &self.read_ticks] {
            moment.store(0, Ordering::Relaxed);
        }
        self.base.store(NO_BASE, Ordering::Relaxed);
        true
    }

    /// Destroys the stream and all existing events, in their context.
    fn destroy(&self) {
        for place in self.events() {
            let event = place.swap(0, Ordering::Relaxed);
            if event != 0 {
                // SAFETY: this pool created the event, and no thread uses it any more. The swap takes it out of the
                // pool, so it is destroyed once.
                unsafe { driver::event_destroy(event) };
            }
        }
        let stream = self.stream.swap(0, Ordering::Relaxed);
        if stream != 0 {
            // SAFETY: this pool created the stream, and no thread uses it any more. The swap takes it out of the pool,
            // so it is destroyed once.
            unsafe { driver::stream_destroy(stream) };
        }
    }

    /// Takes a slot for a call. Returns `None` if no slot is free, or if the last base is too old.
    pub fn take(&self, number: u32, label: &LaunchLabel) -> Option<HeldSlot> {
        let base = self.base.load(Ordering::Acquire);
        let age = ticks().saturating_sub(self.base_ticks.load(Ordering::Relaxed));
        if !self.is_usable() || base == NO_BASE || age >= FAR_S * ticks_per_second() {
            return None;
        }
        let from = self.next.load(Ordering::Relaxed) as usize;
        let taken = (from..from + SLOTS).map(|at| at % SLOTS).find(|&at| {
            let state = &self.slots[at].state;
            state.load(Ordering::Relaxed) == FREE
                && state
                    .compare_exchange(FREE, TAKEN, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
        })?;
        self.next
            .store((taken as u32 + 1) % SLOTS as u32, Ordering::Relaxed);
        let slot = &self.slots[taken];
        slot.base.store(base, Ordering::Relaxed);
        slot.call.store(label.call, Ordering::Relaxed);
        slot.peer.store(label.peer as u32, Ordering::Relaxed);
        // A thread that searches for an unused base either sees the base of this slot, or has already changed the last
        // base.
        fence(Ordering::SeqCst);
        if self.base.load(Ordering::Relaxed) != base || !self.is_usable() {
            slot.state.store(FREE, Ordering::Release);
            return None;
        }
        Some(HeldSlot {
            pool: number as u8,
            slot: taken as u8,
            generation: self.generation.load(Ordering::Relaxed) as u16,
        })
    }

    /// Returns true if the pool was read within the last millisecond. A thread whose call is not timed need not read it
    /// again then.
    pub fn was_just_read(&self, now_ticks: u64) -> bool {
        let passed = now_ticks.saturating_sub(self.read_ticks.load(Ordering::Relaxed));
        passed < ticks_per_second() / 1000
    }

    /// Reads complete launches and advances the clock. It makes a few driver calls and never waits. For threads that
    /// are about to call the driver anyway.
    pub fn read(&self, thread: &'static ThreadState, communicator: u32) {
        if !self.is_usable() || life::lane(&thread.lane).is_none() {
            return;
        }
        let Some(_reading) = Reading::begin(self) else {
            return;
        };
        // Another thread may have closed the pool meanwhile.
        if self.is_usable() {
            self.read_alone(thread, communicator);
        }
    }

    fn read_alone(&self, thread: &'static ThreadState, communicator: u32) {
        let Some(_inside) = InContext::enter(self.context.load(Ordering::Relaxed)) else {
            return;
        };
        self.read_ticks.store(ticks(), Ordering::Relaxed);
        if !self.keep_clock(thread, communicator) {
            self.die(thread);
            return;
        }
        let from = self.cursor.load(Ordering::Relaxed) as usize;
        let mut asked = 0;
        for at in (from..from + SLOTS).map(|at| at % SLOTS) {
            let slot = &self.slots[at];
            if slot.state.load(Ordering::Acquire) != RECORDED {
                continue;
            }
            if asked == MAX_ASKED {
                self.cursor.store(at as u32, Ordering::Relaxed);
                return;
            }
            asked += 1;
            // SAFETY: this pool created the event. The pool is not destroyed while this thread holds the reading lock.
            match unsafe { driver::event_query(slot.stop.load(Ordering::Relaxed)) } {
                SUCCESS => {
                    self.report(slot, thread);
                    slot.state.store(FREE, Ordering::Release);
                }
                NOT_READY => {}
                _ => {
                    self.die(thread);
                    return;
                }
            }
        }
    }

    /// Marks the pool as dead: the context has failed, so every further query would get the same answer. Reports that
    /// announced launches have no times.
    fn die(&self, thread: &'static ThreadState) {
        self.state.store(DEAD, Ordering::Release);
        self.abandon_recorded(thread);
    }

    fn abandon_recorded(&self, thread: &'static ThreadState) {
        for slot in &self.slots {
            let is_ours = slot
                .state
                .compare_exchange(RECORDED, FREE, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
            if is_ours {
                commit(slot, thread, 0, 0);
            }
        }
    }

    /// Records the times of a slot whose two events are complete.
    fn report(&self, slot: &Slot, thread: &'static ThreadState) {
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

    /// Records a base once a second, and more often at first, so that short runs also have some. Checks whether a
    /// recorded base is complete. Returns false if the driver failed.
    fn keep_clock(&self, thread: &'static ThreadState, communicator: u32) -> bool {
        let current = self.base.load(Ordering::Relaxed);
        let mut begun = self.asked_ticks.load(Ordering::Relaxed);
        let mut patience = 1;
        if begun == 0 {
            let now = ticks();
            let doublings = self.made.load(Ordering::Relaxed).min(FIRST_DOUBLINGS);
            let interval = ticks_per_second() >> (FIRST_DOUBLINGS - doublings);
            if current != NO_BASE && now.saturating_sub(self.base_ticks.load(Ordering::Relaxed)) < interval {
                return true;
            }
            let Some(next) = self.unused_base(current) else {
                return true;
            };
            let event = self.bases[next as usize].event.load(Ordering::Relaxed);
            // SAFETY: this pool created the event and the stream, both in the context that is current now.
            if unsafe { driver::event_record(event, self.stream.load(Ordering::Relaxed)) } != SUCCESS {
                return false;
            }
            self.asked.store(next, Ordering::Relaxed);
            self.asked_host_ns.store(host_ns(), Ordering::Relaxed);
            self.asked_ticks.store(now, Ordering::Relaxed);
            (begun, patience) = (now, ASKED_AT_ONCE);
        }
        let next = self.asked.load(Ordering::Relaxed);
        let event = self.bases[next as usize % BASES].event.load(Ordering::Relaxed);
        for _ in 0..patience {
            // SAFETY: this pool created the event. The pool is not destroyed while this thread holds the reading lock.
            match unsafe { driver::event_query(event) } {
                SUCCESS => {
                    self.begin_base(current, next, begun, thread, communicator);
                    break;
                }
                NOT_READY => {}
                _ => return false,
            }
        }
        true
    }

    /// Returns a base that no launch in flight is measured from.
    fn unused_base(&self, current: u32) -> Option<u32> {
        let mut used = [false; BASES];
        fence(Ordering::SeqCst);
        for slot in &self.slots {
            if slot.state.load(Ordering::Relaxed) != FREE {
                used[slot.base.load(Ordering::Relaxed) as usize % BASES] = true;
            }
        }
        (0..BASES as u32).find(|&base| base != current && !used[base as usize])
    }

    fn begin_base(
        &self,
        current: u32,
        next: u32,
        begun: u64,
        thread: &'static ThreadState,
        communicator: u32,
    ) {
        let over = ticks();
        self.asked_ticks.store(0, Ordering::Relaxed);
        let base = &self.bases[next as usize % BASES];
        let asked_ns = self.asked_host_ns.load(Ordering::Relaxed);
        // The middle between the request and the observation: the possible error is equal on both sides.
        let happened_ns = asked_ns + host_ns().saturating_sub(asked_ns) / 2;
        let ns = if current == NO_BASE {
            // The clock continues from its last reading, because a device has only one clock.
            match self.closed_ns.load(Ordering::Relaxed) {
                0 => happened_ns + 1,
                closed => closed + happened_ns.saturating_sub(self.closed_host_ns.load(Ordering::Relaxed)),
            }
        } else {
            let before = &self.bases[current as usize % BASES];
            let event = base.event.load(Ordering::Relaxed);
            let Some(since) = elapsed_ns(before.event.load(Ordering::Relaxed), event) else {
                return;
            };
            before.ns.load(Ordering::Relaxed).saturating_add_signed(since)
        };
        base.ns.store(ns, Ordering::Relaxed);
        self.base_ticks.store(begun, Ordering::Relaxed);
        self.base_host_ns.store(happened_ns, Ordering::Relaxed);
        self.base.store(next, Ordering::Release);
        self.made.fetch_add(1, Ordering::Relaxed);
        report_time(thread, communicator, ns, begun, over);
    }

    /// Removes a communicator that has ended. With `is_over` the end was orderly, so its context is alive, and the
    /// driver may be called once more. With the last communicator, all events are destroyed.
    pub fn left(&self, thread: &'static ThreadState, communicator: u32, is_over: bool) {
        let is_last = self.users.fetch_sub(1, Ordering::AcqRel) == 1;
        if self.life.load(Ordering::Relaxed) != life::number() {
            return;
        }
        if is_over {
            for _ in 0..READS_ALL {
                self.read(thread, communicator);
            }
        }
        if is_last {
            self.close(thread, is_over);
        }
    }

    fn close(&self, thread: &'static ThreadState, is_over: bool) {
        // Another thread holds these locks for microseconds, or while it makes a pool. In the second case this pool
        // stays, for the next communicator.
        let alone = (0..PATIENCE).find_map(|_| {
            let alone = Changing::begin().and_then(|changing| Some((changing, Reading::begin(self)?)));
            if alone.is_none() {
                // SAFETY: sched_yield takes no arguments.
                unsafe { libc::sched_yield() };
            }
            alone
        });
        let Some(_alone) = alone else { return };
        if self.users.load(Ordering::Acquire) != 0 {
            return;
        }
        if self
            .state
            .compare_exchange(READY, MAKING, Ordering::SeqCst, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        let base = self.base.load(Ordering::Relaxed);
        if base != NO_BASE {
            let base_ns = self.bases[base as usize % BASES].ns.load(Ordering::Relaxed);
            self.closed_ns.store(base_ns, Ordering::Relaxed);
            self.closed_host_ns
                .store(self.base_host_ns.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        self.abandon_recorded(thread);
        // A thread that still holds a slot is between the slot's two events. A context that may hang, or may be gone,
        // is not touched. In both cases the events stay with it.
        let is_held = self
            .slots
            .iter()
            .any(|slot| slot.state.load(Ordering::Acquire) != FREE);
        if is_over
            && !is_held
            && let Some(_inside) = InContext::enter(self.context.load(Ordering::Relaxed))
        {
            self.destroy();
        }
        self.state.store(NONE, Ordering::Release);
    }
}

impl HeldSlot {
    /// Returns the number of the pool.
    pub fn pool(self) -> u32 {
        u32::from(self.pool)
    }

    /// Returns the slot, unless the pool was made again meanwhile.
    fn slot(self) -> Option<&'static Slot> {
        let pool = &POOL[usize::from(self.pool) % POOLS];
        (pool.generation.load(Ordering::Relaxed) as u16 == self.generation)
            .then(|| &pool.slots[usize::from(self.slot)])
    }

    /// Records the first event on the stream. Returns false if this is not possible; the slot then has no effect.
    pub fn start(self, stream: usize) -> bool {
        self.slot()
            .is_some_and(|slot| self.record(slot.start.load(Ordering::Relaxed), stream))
    }

    fn record(self, event: usize, stream: usize) -> bool {
        let pool = &POOL[usize::from(self.pool) % POOLS];
        // A special stream belongs to the current context, which may have changed.
        let inside = (stream <= driver::LAST_SPECIAL_STREAM)
            .then(|| InContext::enter(pool.context.load(Ordering::Relaxed)));
        // The capture status is checked just before, because a capture may have begun.
        // SAFETY: the pool created the event, and does not destroy it while this slot is held. The stream is the one
        // that the program passes to NCCL.
        event != 0
            && pool.is_usable()
            && !matches!(inside, Some(None))
            && capture::is_free(stream)
            && unsafe { driver::event_record(event, stream) } == SUCCESS
    }

    /// Records the second event after the launch.
    pub fn stop(self, stream: usize, thread: &'static ThreadState) {
        let Some(slot) = self.slot() else { return };
        if self.record(slot.stop.load(Ordering::Relaxed), stream) {
            slot.state.store(RECORDED, Ordering::SeqCst);
            let pool = &POOL[usize::from(self.pool) % POOLS];
            if !pool.is_usable() {
                // No thread reads the pool any more. The thread that closed it may have checked the slots before this
                // one was recorded.
                pool.abandon_recorded(thread);
            }
        } else {
            self.abandon(thread);
        }
    }

    /// Releases the slot of a call that was not announced, without a record.
    pub fn withdraw(self) {
        if let Some(slot) = self.slot() {
            slot.state.store(FREE, Ordering::Release);
        }
    }

    /// Releases the slot of an announced call, and records that it has no times.
    pub fn abandon(self, thread: &'static ThreadState) {
        if let Some(slot) = self.slot() {
            commit(slot, thread, 0, 0);
            slot.state.store(FREE, Ordering::Release);
        }
    }
}

fn host_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC_RAW) as u64
}

/// Returns the time from one event to another, ns; `None` if the driver does not report it.
fn elapsed_ns(from: usize, to: usize) -> Option<i64> {
    let mut ms = 0.0f32;
    // SAFETY: a pool created both events, and both are complete. `ms` is a local.
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
    life::commit(&thread.lane, &record);
}

fn report_time(thread: &'static ThreadState, communicator: u32, ns: u64, begun: u64, over: u64) {
    let record = Record {
        flags: FLAG_CLOCK | FLAG_SEQUENCE_UNKNOWN,
        enter_ticks: begun,
        leave_ticks: over,
        object: ns,
        communicator,
        ..Record::new(RecordKind::Device)
    };
    life::commit(&thread.lane, &record);
}
