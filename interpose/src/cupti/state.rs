//! State of the CUPTI recording in this process, and shared functions: calls marked as rankscope's, and properties in
//! the log.

use crate::core::life;
use crate::thread;
use rankscope_cupti_sys::bindings::CUptiResult;
use rankscope_cupti_sys::table::Table;
use rankscope_ranklog::definition::{KIND_PROPERTY, Payload};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

pub(super) const SUCCESS: CUptiResult = CUptiResult(0);
/// State of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No working driver is known yet.
    Waiting,
    /// CUPTI records for rankscope.
    Recording,
    /// Recording is not requested now.
    Off,
    /// Another profiler uses CUPTI.
    Yielded,
    /// Recording has ended for the rest of this process.
    Ended,
}

pub(super) struct Inner {
    pub(super) state: State,
    /// While recording: true if [`OVERHEAD`](super::session) was requested too.
    pub(super) asked_overhead: bool,
}

pub(super) static INNER: Mutex<Inner> = Mutex::new(Inner {
    state: State::Waiting,
    asked_overhead: false,
});

/// Process life to which the CUPTI thread belongs; 0 if none has started.
pub(super) static LIFE: AtomicU32 = AtomicU32::new(0);
pub(super) static TABLE: OnceLock<Table> = OnceLock::new();
/// True if another profiler has ended CUPTI.
pub(super) static IS_GONE: AtomicBool = AtomicBool::new(false);
/// True while CUPTI has rankscope's clock.
pub(super) static HAS_OUR_CLOCK: AtomicBool = AtomicBool::new(false);
/// Version that CUPTI reports.
pub(super) static VERSION: AtomicU32 = AtomicU32::new(0);
/// Time at which recording was last stopped, in ticks.
pub(super) static STOPPED: AtomicU64 = AtomicU64::new(0);
/// Returns the time at which recording was last stopped, in ticks. Work that was launched earlier was recorded.
pub fn stopped_ticks() -> u64 {
    STOPPED.load(Ordering::Acquire)
}

/// Status of overhead records in the log. If several apply, the log ends up with the highest of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Overheads {
    /// They were requested.
    Recorded = 1,
    /// Some were omitted.
    Partly = 2,
    /// CUPTI does not report them.
    Refused = 3,
}

pub(super) static OVERHEADS: AtomicU32 = AtomicU32::new(0);
/// Writes the status of overhead records, at most once per status, because definitions stay forever.
pub fn report_overheads(what: Overheads, words: &str) {
    if OVERHEADS.fetch_max(what as u32, Ordering::Relaxed) < what as u32 {
        define("source.cupti_overhead", words);
    }
}

/// Returns CUPTI's version; 0 before it is known.
pub fn version() -> u32 {
    VERSION.load(Ordering::Relaxed)
}

/// Origin of a call to an intercepted CUPTI function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOrigin {
    /// Another profiler, while the CUPTI thread exists.
    Theirs,
    /// Another profiler, and rankscope has never started. The call is remembered and has no other effect.
    BeforeUs,
    /// rankscope itself, CUPTI inside such a call, or a forked child of a process that had started.
    NotOurs,
}

/// Returns the origin of this thread's call. Only calls of other profilers ever wait for rankscope.
pub fn call_origin() -> CallOrigin {
    if thread::state().cupti.depth.get() > 0 {
        return CallOrigin::NotOurs;
    }
    match LIFE.load(Ordering::Relaxed) {
        0 => CallOrigin::BeforeUs,
        begun if begun == life::number() => CallOrigin::Theirs,
        _ => CallOrigin::NotOurs,
    }
}

/// Returns true in the process life that has started the CUPTI thread.
pub fn is_ours() -> bool {
    let begun = LIFE.load(Ordering::Relaxed);
    begun != 0 && begun == life::number()
}

/// Calls CUPTI, and marks the call as rankscope's.
pub(super) fn own<T>(call: impl FnOnce() -> T) -> T {
    let depth = &thread::state().cupti.depth;
    depth.set(depth.get() + 1);
    let returned = call();
    depth.set(depth.get() - 1);
    returned
}

/// Stores that this process life has a CUPTI thread.
pub fn begin_life() {
    LIFE.store(life::number(), Ordering::Release);
}

/// Returns true unless another profiler has ended CUPTI.
pub fn is_there() -> bool {
    !IS_GONE.load(Ordering::Acquire)
}

/// Writes a property of this source.
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
/// Name the stream, and push an identity that CUPTI records with each launch.
pub(super) const LINKS: u32 = 1;
/// Start the CUPTI thread.
pub(super) const THREAD: u32 = 2;
/// Name the stream only, because this CUPTI does not record identities.
pub(super) const STREAMS: u32 = 3;
