//! State of the recording by CUPTI in this process, and what every part of it needs: calls that are marked as ours,
//! properties in the log.

use crate::core::life;
use crate::core::thread;
use rankscope_cupti_sys::bindings::CUptiResult;
use rankscope_cupti_sys::table::Table;
use rankscope_ranklog::definition::{KIND_PROPERTY, Payload};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

pub(super) const SUCCESS: CUptiResult = CUptiResult(0);
/// Where we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No driver is known yet.
    Waiting,
    /// CUPTI records for us.
    Recording,
    /// It is not wanted now.
    Off,
    /// Another profiler has it.
    Aside,
    /// It never will again in this process.
    Ended,
}

pub(super) struct Inner {
    pub(super) state: State,
    /// While recording: [`OVERHEAD`] was asked for too.
    pub(super) asked_overhead: bool,
}

pub(super) static INNER: Mutex<Inner> = Mutex::new(Inner {
    state: State::Waiting,
    asked_overhead: false,
});

/// The process life whose thread this is; 0: none has begun.
pub(super) static LIFE: AtomicU32 = AtomicU32::new(0);
pub(super) static TABLE: OnceLock<Table> = OnceLock::new();
/// Another profiler has ended CUPTI.
pub(super) static IS_GONE: AtomicBool = AtomicBool::new(false);
/// CUPTI's clock is ours now.
pub(super) static HAS_OUR_CLOCK: AtomicBool = AtomicBool::new(false);
/// What CUPTI says that it is.
pub(super) static VERSION: AtomicU32 = AtomicU32::new(0);
/// When recording was stopped last, in ticks.
pub(super) static STOPPED: AtomicU64 = AtomicU64::new(0);
/// When recording was stopped last, in ticks: what was launched before was recorded.
pub fn stopped_ticks() -> u64 {
    STOPPED.load(Ordering::Acquire)
}

/// What the log says of records of overhead: of several the last of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Overheads {
    /// They were asked for.
    Recorded = 1,
    /// Some were left out.
    Partly = 2,
    /// CUPTI does not tell of them.
    Refused = 3,
}

pub(super) static OVERHEADS: AtomicU32 = AtomicU32::new(0);
/// Says in the log what is known of records of overhead, once: definitions stay for ever.
pub fn tell_overheads(what: Overheads, words: &str) {
    if OVERHEADS.fetch_max(what as u32, Ordering::Relaxed) < what as u32 {
        define("source.cupti_overhead", words);
    }
}

/// CUPTI's version, 0 before it is known.
pub fn version() -> u32 {
    VERSION.load(Ordering::Relaxed)
}

/// Whose a call to an intercepted function of CUPTI is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Another profiler's, while our thread is there.
    Theirs,
    /// Another profiler's, and we have never begun: it is remembered, and nothing else.
    BeforeUs,
    /// Our own, of CUPTI itself inside it, or in a forked child of a process that had begun.
    NotOurs,
}

/// Whose this thread's call is. Nobody waits for us who does not profile beside us.
pub fn whose_call() -> Whose {
    if thread::state().cupti_depth.get() > 0 {
        return Whose::NotOurs;
    }
    match LIFE.load(Ordering::Relaxed) {
        0 => Whose::BeforeUs,
        begun if begun == life::number() => Whose::Theirs,
        _ => Whose::NotOurs,
    }
}

/// True in the process life that has begun.
pub fn is_ours() -> bool {
    let begun = LIFE.load(Ordering::Relaxed);
    begun != 0 && begun == life::number()
}

/// Calls CUPTI, marked as ours.
pub(super) fn own<T>(call: impl FnOnce() -> T) -> T {
    let depth = &thread::state().cupti_depth;
    depth.set(depth.get() + 1);
    let returned = call();
    depth.set(depth.get() - 1);
    returned
}

/// Begins a process life: our thread is there.
pub fn begin_life() {
    LIFE.store(life::number(), Ordering::Release);
}

/// True unless another profiler has ended CUPTI.
pub fn is_there() -> bool {
    !IS_GONE.load(Ordering::Acquire)
}

/// Writes a property of this source down.
pub fn define(key: &str, value: &str) {
    if let Some(set) = life::definitions() {
        let payload = Payload::property(key, value.as_bytes());
        set.area.define(KIND_PROPERTY, payload.as_bytes());
    }
}

/// Extra work of NCCL calls, one of the constants below.
pub(super) static ASKS: AtomicU32 = AtomicU32::new(NOTHING);
/// No extra work.
pub(super) const NOTHING: u32 = 0;
/// Name the stream, and push an identity, which CUPTI records with each launch.
pub(super) const LINKS: u32 = 1;
/// Start our thread.
pub(super) const THREAD: u32 = 2;
/// Name the stream only: this CUPTI does not record identities.
pub(super) const STREAMS: u32 = 3;
