//! Times of operations where NCCL does not report them (before 2.27, or with another plugin): a pair of events around
//! each launch.
//!
//! The events are put on the program's own streams. So they are used only on request, or as a substitute: while kernels
//! were requested, but CUPTI is unavailable because another profiler has it.
//!
//! The following rules keep the events harmless (research: CUDA driver interface, stream capture). No event is put on a
//! stream that is being captured. Nothing synchronises. Events are created once per context and reused. A thread that
//! queries events first declares that its calls concern no other thread's capture. Events are read by threads that put
//! the next operation on a stream, because these threads call the driver anyway. The recorder's thread does not read
//! them: it does not share the program's descriptors, which the driver needs. Threads that watch a communicator
//! do not read them either: they must reach their abort however long another thread holds these locks.
//!
//! A group's launch begins at its outermost end. Its events are recorded there, one pair per stream. Its calls are
//! joined with the launch by group and stream.

pub mod pool;

use super::open_group;
use super::plugin;
use crate::core::communicators::Entry;
use crate::core::configuration;
use crate::core::life;
use crate::core::resolve;
use crate::cuda::driver;
use crate::thread::{HeldSlot, OpenLaunch, STREAMS, ThreadState};
use pool::{Found, LaunchLabel};
use rankscope_ranklog::definition::{KIND_PROPERTY, Payload};
use rankscope_ranklog::lanes::LaneSet;
use rankscope_ranklog::record::{FLAG_CAPTURED, FLAG_SEQUENCE_UNKNOWN, Record};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Number of calls per second and communicator to time; 0 for none.
static WANTED: AtomicU32 = AtomicU32::new(0);
/// The same number while CUPTI should report kernels and does not; otherwise 0.
static SUBSTITUTE: AtomicU32 = AtomicU32::new(0);
static IS_DEFINED: AtomicBool = AtomicBool::new(false);

/// Property of the log's header for this source.
const SOURCE: &str = "source.nccl_events";

/// Values of a communicator's `pool`: not searched yet, and unavailable. Other values are pool numbers plus one.
const UNKNOWN: u32 = 0;
const REFUSED: u32 = u32::MAX;

/// Checks whether events are requested and possible. Runs when a communicator has been created. Cold.
pub fn prepare() {
    let wanted = configuration::wanted_events();
    if wanted > 0 && driver::is_whole() {
        WANTED.store(wanted, Ordering::Relaxed);
    }
}

/// Number of calls to time per second while CUPTI does not report: the default of the launcher's option.
const SUBSTITUTE_PER_S: u32 = 2000;

/// Switches the substitute for CUPTI on or off. With `is_needed`, CUPTI should report NCCL's kernels but does not. Has
/// no effect if the user forbids events.
pub fn substitute(is_needed: bool) {
    let is_possible = is_needed && configuration::allows_events() && driver::is_whole();
    SUBSTITUTE.store(if is_possible { SUBSTITUTE_PER_S } else { 0 }, Ordering::Relaxed);
}

#[inline]
fn wanted_per_s() -> u32 {
    WANTED
        .load(Ordering::Relaxed)
        .max(SUBSTITUTE.load(Ordering::Relaxed))
}

/// Returns true if launches are timed by events. If NCCL reports times itself, those are better.
#[inline]
pub fn are_on() -> bool {
    wanted_per_s() != 0 && plugin::version() < plugin::FIRST_WITH_TIMES
}

/// Reads launches that were timed before CUPTI reported again.
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

/// Writes that this source is active. Runs when the recorder is ready.
pub fn define(set: &LaneSet) {
    if IS_DEFINED.load(Ordering::Relaxed) {
        let payload = Payload::property(SOURCE, b"1");
        set.area.define(KIND_PROPERTY, payload.as_bytes());
    }
}

/// Returns the pool of the context of a call's stream, if the communicator works in this context.
///
/// # Safety
/// `stream` and `real` must be those of the call.
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
    // SAFETY: the stream is the one that the program passes to NCCL, and `context` is a local.
    if unsafe { driver::stream_context(stream, &raw mut context) } != driver::SUCCESS || context == 0 {
        return None;
    }
    if known != UNKNOWN {
        // A special stream belongs to the current context, which is not necessarily the communicator's.
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
                // The second thread finds the pool of the first one in its next call.
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

/// Returns true if a communicator works on the device of the current context.
fn is_on_current_device(handle: usize, real: usize, thread: &ThreadState) -> bool {
    type Ask = unsafe extern "C" fn(usize, *mut i32) -> i32;
    let address = resolve::beside(real, c"ncclCommCuDevice");
    if address == 0 {
        return false;
    }
    let (mut of_communicator, mut current) = (-1, -2);
    // The library may call itself meanwhile through hooked functions.
    let depth = thread.nccl.depth.replace(1);
    // SAFETY: `address` is `ncclCommCuDevice` of the library that owns `handle`. It has this signature in every version
    // and checks the handle itself. Both functions write only to locals.
    let is_there = unsafe {
        std::mem::transmute::<usize, Ask>(address)(handle, &raw mut of_communicator) == 0
            && driver::current_device(&raw mut current) == driver::SUCCESS
            && of_communicator == current
    };
    thread.nccl.depth.set(depth);
    is_there
}

/// How a call's launch is timed, from the start of its hook to the real function.
pub enum Timed {
    /// The launch is not timed.
    No,
    /// The launch is timed by a separate pair of events.
    Alone(Guard),
    /// The launch is timed together with its group.
    InGroup,
}

/// Starts to time a call that is about to be made on a stream. `call` identifies its record, and `handle` is its
/// communicator.
///
/// # Safety
/// The stream in `record` must be the call's, and `real` its function.
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
    // An operation that moves no data launches nothing, and an event on a stream would order it with other streams.
    let is_empty = record.bytes == 0 && record.element_bytes != 0;
    if record.flags & (FLAG_CAPTURED | FLAG_SEQUENCE_UNKNOWN) != 0
        || is_empty
        || entry.size() < 2
        || life::lane(&thread.lane).is_none()
    {
        return Timed::No;
    }
    let is_in_group = open_group::is_open(thread);
    let open = usize::from(thread.nccl.launches_open.get());
    if is_in_group {
        let known = thread.nccl.launches.iter().take(open);
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
    // SAFETY: the caller guarantees that the stream and `real` are those of the call.
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
            .then(|| pool.take(number, &LaunchLabel { call, peer }))
            .flatten()
    });
    if is_in_group {
        thread.nccl.launches[open].set(OpenLaunch {
            stream,
            communicator: entry.index(),
            held,
            is_mixed: false,
        });
        thread.nccl.launches_open.set(open as u8 + 1);
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

/// A slot that is released in any way in which its call ends.
pub struct Guard {
    held: HeldSlot,
    thread: &'static ThreadState,
}

impl Guard {
    /// Records the second event. The call's work is on its stream.
    pub fn launched(self, stream: usize) {
        self.held.stop(stream, self.thread);
        std::mem::forget(self);
    }

    /// Releases the slot of a call that the library refused. The call's record does not announce events.
    pub fn refused(self) {
        self.held.withdraw();
        std::mem::forget(self);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.held.abandon(self.thread);
    }
}

/// Records the first events of a group. Runs just before its outermost end.
#[inline]
pub fn group_ends(thread: &'static ThreadState) {
    if thread.nccl.launches_open.get() > 0 {
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
            held.abandon(thread);
            place.set(OpenLaunch { held: None, ..launch });
        }
    }
}

/// Records the second events of a group, just after its outermost end. `is_launched` is true if its operations are on
/// their streams; otherwise the slots are released.
#[inline]
pub fn group_ended(thread: &'static ThreadState, is_launched: bool) {
    if thread.nccl.launches_open.get() > 0 {
        stop_group(thread, is_launched);
    }
}

#[cold]
fn stop_group(thread: &'static ThreadState, is_launched: bool) {
    for place in open_launches(thread) {
        let launch = place.replace(OpenLaunch::NONE);
        match launch.held {
            Some(held) if is_launched => held.stop(launch.stream, thread),
            Some(held) => held.abandon(thread),
            None => {}
        }
    }
    thread.nccl.launches_open.set(0);
}

fn open_launches(thread: &'static ThreadState) -> impl Iterator<Item = &'static std::cell::Cell<OpenLaunch>> {
    let open = usize::from(thread.nccl.launches_open.get());
    thread.nccl.launches.iter().take(open)
}

/// Values needed to finish the end of a communicator after the real call.
#[derive(Clone, Copy)]
pub struct Leaving {
    pool: u32,
    communicator: u32,
}

/// Prepares the end of a communicator, while its entry still exists. If two threads end it, only one gets a value.
pub fn leaves(entry: &Entry) -> Option<Leaving> {
    let pool = entry.event_pool().swap(REFUSED, Ordering::AcqRel);
    (pool != UNKNOWN && pool != REFUSED).then(|| Leaving {
        pool: pool - 1,
        communicator: entry.index(),
    })
}

/// Finishes the end of a communicator. With `is_over`, the end was orderly and final, so the driver may be called.
/// Otherwise nothing of it is touched any more.
pub fn left(leaving: Leaving, thread: &'static ThreadState, is_over: bool) {
    if let Some(pool) = pool::at(leaving.pool) {
        pool.left(thread, leaving.communicator, is_over);
    }
}
