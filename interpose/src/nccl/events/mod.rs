//! When operations ran where NCCL does not tell (before 2.27, or with another plugin): a pair of events around each
//! launch, on the program's own streams. Only where it is asked for, because it puts something there; or where kernels
//! were and CUPTI cannot be had, because another profiler has it, for as long as that is so.
//!
//! What keeps it harmless (research: CUDA driver interface, stream capture): nothing is put on a stream that is being
//! captured; nothing synchronises; events are made once per context and used again; whoever asks the driver whether
//! they have happened first says that this has nothing to do with anybody's capture. They are read by threads that put
//! the next operation on a stream, and so call the driver anyway. Not by ours, which at idle priority would be put aside
//! with the driver's locks in its hands; and not by those that watch over a communicator, which must come to their abort
//! however long another thread holds these locks.
//!
//! A group's launch begins at its outermost end, so that is where its events go, one pair per stream; its calls are
//! joined with it by group and stream.

pub mod pool;

use super::groups;
use super::plugin;
use crate::core::communicators::Entry;
use crate::core::configuration;
use crate::core::life;
use crate::core::resolve;
use crate::core::thread::{HeldSlot, OpenLaunch, STREAMS, ThreadState};
use crate::cuda::driver;
use pool::{Found, Told};
use rankscope_ranklog::definition::{KIND_PROPERTY, Payload};
use rankscope_ranklog::lanes::LaneSet;
use rankscope_ranklog::record::{FLAG_CAPTURED, FLAG_SEQUENCE_UNKNOWN, Record};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Calls per second and communicator that are timed; 0: none.
static WANTED: AtomicU32 = AtomicU32::new(0);
/// CUPTI was to tell, and does not: so many a second are timed meanwhile.
static INSTEAD: AtomicU32 = AtomicU32::new(0);
static IS_DEFINED: AtomicBool = AtomicBool::new(false);

/// What the header says of this source.
const SOURCE: &str = "source.nccl_events";

/// `pool` of a communicator: not looked for yet, and none to be had. Other values are numbers plus one.
const UNKNOWN: u32 = 0;
const REFUSED: u32 = u32::MAX;

/// A communicator was made: looks whether events are asked for, and possible. Cold.
pub fn prepare() {
    let wanted = configuration::wanted_events();
    if wanted > 0 && driver::is_whole() {
        WANTED.store(wanted, Ordering::Relaxed);
    }
}

/// What is timed a second when CUPTI does not tell: as many as the launcher's option asks for by itself.
const INSTEAD_PER_S: u32 = 2000;

/// From now on CUPTI tells of NCCL's kernels, or does not though it was to. Not where the user wants no events.
pub fn stand_in(is_needed: bool) {
    let is_possible = is_needed && configuration::allows_events() && driver::is_whole();
    INSTEAD.store(if is_possible { INSTEAD_PER_S } else { 0 }, Ordering::Relaxed);
}

#[inline]
fn wanted_per_s() -> u32 {
    WANTED
        .load(Ordering::Relaxed)
        .max(INSTEAD.load(Ordering::Relaxed))
}

/// True if launches are timed. NCCL's own times are better where it tells them.
#[inline]
pub fn are_on() -> bool {
    wanted_per_s() != 0 && plugin::version() < plugin::FIRST_WITH_TIMES
}

/// Reads what was timed before CUPTI told again.
#[cold]
pub fn read_left(thread: &'static ThreadState, entry: &'static Entry, now_ticks: u64) {
    let known = entry.event_pool().load(Ordering::Relaxed);
    if known != UNKNOWN
        && known != REFUSED
        && let Some(pool) = pool::at(known - 1)
        && !pool.was_just_read(now_ticks)
    {
        pool.read(thread, entry.index());
    }
}

/// Writes down that this source is active, when the recorder is ready.
pub fn define(set: &LaneSet) {
    if IS_DEFINED.load(Ordering::Relaxed) {
        let payload = Payload::property(SOURCE, b"1");
        set.area.define(KIND_PROPERTY, payload.as_bytes());
    }
}

/// The pool of the context that a call's stream is of, if its communicator works there.
///
/// # Safety
/// `stream` and `real` must be the call's.
unsafe fn pool_of(
    entry: &'static Entry,
    handle: usize,
    stream: usize,
    real: usize,
    thread: &'static ThreadState,
) -> Option<u32> {
    let place = entry.event_pool();
    let known = place.load(Ordering::Relaxed);
    if known == REFUSED {
        return None;
    }
    let mut context = 0;
    // SAFETY: the stream is what the program passes to NCCL; a place of ours.
    if unsafe { driver::stream_context(stream, &raw mut context) } != driver::SUCCESS || context == 0 {
        return None;
    }
    if known != UNKNOWN {
        // A special stream is that of whatever context is current, which need not be the communicator's.
        return Some(known - 1).filter(|&number| pool::at(number).is_some_and(|pool| pool.is_of(context)));
    }
    if stream <= driver::LAST_SPECIAL_STREAM && !is_on_current_device(handle, real, thread) {
        return None;
    }
    match pool::join(context) {
        Found::Later => None,
        Found::Never => {
            place.store(REFUSED, Ordering::Relaxed);
            None
        }
        Found::Number(number) => {
            let outcome = place.compare_exchange(UNKNOWN, number + 1, Ordering::AcqRel, Ordering::Relaxed);
            if outcome.is_err() {
                // Who comes second finds what the first has noted, the next time.
                pool::at(number)?.leave();
                return None;
            }
            if !IS_DEFINED.swap(true, Ordering::Relaxed)
                && let Some(set) = life::definitions()
            {
                define(set);
            }
            Some(number)
        }
    }
}

/// True if a communicator works on the device of the current context.
fn is_on_current_device(handle: usize, real: usize, thread: &ThreadState) -> bool {
    type Ask = unsafe extern "C" fn(usize, *mut i32) -> i32;
    let address = resolve::beside(real, c"ncclCommCuDevice");
    if address == 0 {
        return false;
    }
    let (mut of_communicator, mut current) = (-1, -2);
    // The library may call itself meanwhile, through what we hook.
    let depth = thread.nccl_depth.replace(1);
    // SAFETY: this function of NCCL has this signature in every version and checks the handle itself; places of ours.
    let is_there = unsafe {
        std::mem::transmute::<usize, Ask>(address)(handle, &raw mut of_communicator) == 0
            && driver::current_device(&raw mut current) == driver::SUCCESS
            && of_communicator == current
    };
    thread.nccl_depth.set(depth);
    is_there
}

/// A call whose launch is to be timed, between its hook's beginning and the real function.
pub enum Timed {
    /// Not at all.
    No,
    /// By its own pair.
    Alone(Guard),
    /// With its group.
    InGroup,
}

/// A call is about to be made on a stream. `call` is how its record is found, `handle` its communicator.
///
/// # Safety
/// The stream must be the call's, `real` its function.
#[cold]
pub unsafe fn begin(
    thread: &'static ThreadState,
    entry: &'static Entry,
    handle: usize,
    record: &Record,
    call: u64,
    real: usize,
) -> Timed {
    let stream = record.object as usize;
    // What moves nothing is launched nowhere, and an event on a stream orders it with others.
    let is_empty = record.bytes == 0 && record.element_bytes != 0;
    if record.flags & (FLAG_CAPTURED | FLAG_SEQUENCE_UNKNOWN) != 0
        || is_empty
        || entry.size() < 2
        || life::lane(thread).is_none()
    {
        return Timed::No;
    }
    let is_in_group = groups::is_open(thread);
    let open = usize::from(thread.nccl_launches_open.get());
    if is_in_group {
        let known = thread.nccl_launches.iter().take(open);
        if let Some(place) = known.into_iter().find(|place| place.get().stream == stream) {
            let launch = place.get();
            if launch.communicator != entry.index() {
                place.set(OpenLaunch {
                    is_mixed: true,
                    ..launch
                });
                return Timed::No;
            }
            return if launch.held.is_some() {
                Timed::InGroup
            } else {
                Timed::No
            };
        }
        if open == STREAMS {
            return Timed::No;
        }
    }
    // SAFETY: the caller's promise.
    let held = unsafe { pool_of(entry, handle, stream, real, thread) }.and_then(|number| {
        let pool = pool::at(number)?;
        let wanted = wanted_per_s();
        let is_taken = entry
            .event_rate()
            .takes(record.sequence, record.enter_ticks, wanted);
        if is_taken || !pool.was_just_read(record.enter_ticks) {
            pool.read(thread, entry.index());
        }
        let peer = record.peer;
        is_taken
            .then(|| pool.take(number, &Told { call, peer }))
            .flatten()
    });
    if is_in_group {
        thread.nccl_launches[open].set(OpenLaunch {
            stream,
            communicator: entry.index(),
            held,
            is_mixed: false,
        });
        thread.nccl_launches_open.set(open as u8 + 1);
        return if held.is_some() { Timed::InGroup } else { Timed::No };
    }
    match held {
        Some(held) if held.start(stream) => Timed::Alone(Guard { held, thread }),
        Some(held) => {
            held.withdraw();
            Timed::No
        }
        None => Timed::No,
    }
}

/// A slot that is given back when its call is left in any way.
pub struct Guard {
    held: HeldSlot,
    thread: &'static ThreadState,
}

impl Guard {
    /// The call is on its stream.
    pub fn launched(self, stream: usize) {
        self.held.stop(stream, self.thread);
        std::mem::forget(self);
    }

    /// The library refused the call, and its record says nothing of events.
    pub fn refused(self) {
        self.held.withdraw();
        std::mem::forget(self);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.held.give_up(self.thread);
    }
}

/// The outermost end of a group is about to be made.
#[inline]
pub fn group_ends(thread: &'static ThreadState) {
    if thread.nccl_launches_open.get() > 0 {
        start_group(thread);
    }
}

#[cold]
fn start_group(thread: &'static ThreadState) {
    for place in open_launches(thread) {
        let launch = place.get();
        if let Some(held) = launch.held
            && (launch.is_mixed || !held.start(launch.stream))
        {
            held.give_up(thread);
            place.set(OpenLaunch { held: None, ..launch });
        }
    }
}

/// It has been made. `is_launched`: what was in it is on its streams.
#[inline]
pub fn group_ended(thread: &'static ThreadState, is_launched: bool) {
    if thread.nccl_launches_open.get() > 0 {
        stop_group(thread, is_launched);
    }
}

#[cold]
fn stop_group(thread: &'static ThreadState, is_launched: bool) {
    for place in open_launches(thread) {
        let launch = place.replace(OpenLaunch::NONE);
        match launch.held {
            Some(held) if is_launched => held.stop(launch.stream, thread),
            Some(held) => held.give_up(thread),
            None => {}
        }
    }
    thread.nccl_launches_open.set(0);
}

fn open_launches(thread: &'static ThreadState) -> impl Iterator<Item = &'static std::cell::Cell<OpenLaunch>> {
    let open = usize::from(thread.nccl_launches_open.get());
    thread.nccl_launches.iter().take(open)
}

/// What is left to be done when a communicator that is ending has ended.
#[derive(Clone, Copy)]
pub struct Leaving {
    pool: u32,
    communicator: u32,
}

/// A communicator is about to end; its entry is still there. Of two threads that end it one gets this.
pub fn leaves(entry: &Entry) -> Option<Leaving> {
    let pool = entry.event_pool().swap(REFUSED, Ordering::AcqRel);
    (pool != UNKNOWN && pool != REFUSED).then(|| Leaving {
        pool: pool - 1,
        communicator: entry.index(),
    })
}

/// It has ended. `is_over`: in order and for good, so that the driver may be asked; else nothing of it is touched any more.
pub fn left(leaving: Leaving, thread: &'static ThreadState, is_over: bool) {
    if let Some(pool) = pool::at(leaving.pool) {
        pool.left(thread, leaving.communicator, is_over);
    }
}
