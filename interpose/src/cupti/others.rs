//! Other users of CUPTI in this process, above all torch.profiler.
//!
//! CUPTI's activity interface has one state for the whole process. The last profiler that registers callbacks gets all
//! buffers, and a profiler that disables a kind disables it for all.
//!
//! So these functions are intercepted. When another profiler starts to record, rankscope stops, delivers its records,
//! and restores the clock as it would be without rankscope. When no other profiler records any more, rankscope starts
//! again. Each buffer returns to the profiler that supplied it, regardless of which callbacks are registered by then.
//! The real function is called with no rankscope lock held. It may wait for another thread, and that thread may also
//! call an intercepted function.

use super::session;
use super::state::{self, CallOrigin};
use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::Narrow;
use rankscope_ranklog::clock::{ticks, ticks_per_second};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Return value if no loaded library has the function: `CUPTI_ERROR_NOT_INITIALIZED`.
const MISSING: usize = 15;
/// `CUPTI_SUCCESS`
const SUCCESS: u32 = 0;

/// Time in seconds after the last sign of another profiler during which it is left alone, because it may continue at
/// once.
const GRACE_S: f64 = 2.0;
/// The same time if it has not flushed since it recorded. It may still do so, and those records have timestamps of its
/// clock.
const UNFLUSHED_GRACE_S: f64 = 30.0;

crate::wrappers! {
    register_callbacks = "cuptiActivityRegisterCallbacks", seen "11.8", narrow registers_callbacks;
    enable = "cuptiActivityEnable", seen "11.8", narrow |call| enables(call, 0);
    enable_and_dump = "cuptiActivityEnableAndDump", seen "11.8", narrow |call| enables(call, 0);
    enable_context = "cuptiActivityEnableContext", seen "11.8", narrow |call| enables(call, 1);
    disable = "cuptiActivityDisable", seen "11.8", narrow |call| disables(call, 0);
    disable_context = "cuptiActivityDisableContext", seen "11.8", narrow |call| disables(call, 1);
    flush = "cuptiActivityFlushAll", seen "11.8", narrow flushes;
    register_timestamp = "cuptiActivityRegisterTimestampCallback", seen "11.8", narrow registers_timestamp;
    timestamp = "cuptiGetTimestamp", seen "11.8", narrow asks_time;
    subscribe_v2 = "cuptiSubscribe_v2", seen "13.0", narrow subscribes;
    finalize = "cuptiFinalize", seen "11.8", narrow finalizes;
}

/// Activity kinds that other profilers have enabled, one bit each. Kinds above 63 share the last bit.
static KINDS: AtomicU64 = AtomicU64::new(0);
/// Functions that another profiler registered last; 0 for none.
static REQUESTED: AtomicUsize = AtomicUsize::new(0);
static COMPLETED: AtomicUsize = AtomicUsize::new(0);
static TIMESTAMP: AtomicUsize = AtomicUsize::new(0);
/// Number of other profilers' calls in progress.
static BUSY: AtomicU32 = AtomicU32::new(0);
/// Time at which the last such call ended, in ticks; 0 if there was none.
static TOUCHED: AtomicU64 = AtomicU64::new(0);
/// True if another profiler has not flushed since it recorded.
static IS_UNFLUSHED: AtomicBool = AtomicBool::new(false);
/// True if another profiler uses the second interface, which must not be mixed with the first.
static IS_V2: AtomicBool = AtomicBool::new(false);

/// Returns true while another profiler records activity, or may continue to do so.
pub fn are_at_it() -> bool {
    if KINDS.load(Ordering::Acquire) != 0 || BUSY.load(Ordering::Acquire) > 0 {
        return true;
    }
    let touched = TOUCHED.load(Ordering::Acquire);
    let grace = if IS_UNFLUSHED.load(Ordering::Acquire) {
        UNFLUSHED_GRACE_S
    } else {
        GRACE_S
    };
    touched != 0 && (ticks().saturating_sub(touched) as f64) < grace * ticks_per_second() as f64
}

/// Returns true if another profiler uses the second interface.
pub fn use_v2() -> bool {
    IS_V2.load(Ordering::Acquire)
}

/// Returns the functions that another profiler registered for its buffers, if any.
pub fn callbacks() -> Option<(usize, usize)> {
    let requested = REQUESTED.load(Ordering::Acquire);
    (requested != 0).then(|| (requested, COMPLETED.load(Ordering::Acquire)))
}

/// Returns the clock that another profiler registered; 0 if none.
pub fn clock() -> usize {
    TIMESTAMP.load(Ordering::Acquire)
}

/// Guard for a call of another profiler in progress.
struct Busy;

impl Busy {
    fn begin() -> Self {
        BUSY.fetch_add(1, Ordering::AcqRel);
        Self
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        TOUCHED.store(ticks().max(1), Ordering::Release);
        BUSY.fetch_sub(1, Ordering::AcqRel);
    }
}

fn bit(kind: usize) -> u64 {
    1 << (kind as u32).min(63)
}

fn is_success(returned: &Returned) -> bool {
    returned.as_u32() == SUCCESS
}

/// Hook of `cuptiActivityRegisterCallbacks(requested, completed)`. It stops recording, and stores the other profiler's
/// functions.
fn registers_callbacks(call: RealCall<'_, Narrow>) -> Returned {
    let origin = state::call_origin();
    if origin == CallOrigin::NotOurs {
        return call.forward();
    }
    let _busy = Busy::begin();
    let arguments = call.arguments();
    let before = (
        REQUESTED.swap(arguments[0], Ordering::AcqRel),
        COMPLETED.swap(arguments[1], Ordering::AcqRel),
    );
    let mut changed = *arguments;
    if origin == CallOrigin::Theirs {
        session::changing().yield_to_other();
        // Buffers of rankscope may still come back. `completed` forwards the other profiler's buffers to it.
        changed[1] = session::completed as *const () as usize;
    }
    // SAFETY: the arguments are the caller's, except that `completed` may replace its second one. It has the same
    // signature and calls the caller's function.
    let returned = unsafe { call.forward_changed(&changed) };
    if !is_success(&returned) {
        REQUESTED.store(before.0, Ordering::Release);
        COMPLETED.store(before.1, Ordering::Release);
    }
    returned
}

/// Hook of `cuptiActivityEnable(kind)` and related functions, whose kind is at this position. It stops recording, and
/// stores that another profiler has enabled the kind.
fn enables(call: RealCall<'_, Narrow>, kind_position: usize) -> Returned {
    let origin = state::call_origin();
    if origin == CallOrigin::NotOurs {
        return call.forward();
    }
    let _busy = Busy::begin();
    let kind = call.arguments()[kind_position];
    // This must happen before the real call, because records may come at once.
    let before = KINDS.fetch_or(bit(kind), Ordering::AcqRel);
    IS_UNFLUSHED.store(true, Ordering::Release);
    if origin == CallOrigin::Theirs {
        session::changing().yield_to_other();
    }
    let returned = call.forward();
    if !is_success(&returned) && before & bit(kind) == 0 {
        KINDS.fetch_and(!bit(kind), Ordering::AcqRel);
    }
    returned
}

/// Hook of `cuptiActivityDisable(kind)` and related functions, whose kind is at this position. It stores that the kind
/// is disabled, and enables it again for rankscope if rankscope records.
fn disables(call: RealCall<'_, Narrow>, kind_position: usize) -> Returned {
    let origin = state::call_origin();
    if origin == CallOrigin::NotOurs {
        return call.forward();
    }
    let _busy = Busy::begin();
    let kind = call.arguments()[kind_position];
    let returned = call.forward();
    KINDS.fetch_and(!bit(kind), Ordering::AcqRel);
    if origin == CallOrigin::Theirs {
        session::changing().enable_again();
    }
    returned
}

/// Hook of `cuptiActivityFlushAll(flag)`. It stores that the other profiler's records were delivered.
fn flushes(call: RealCall<'_, Narrow>) -> Returned {
    if state::call_origin() == CallOrigin::NotOurs {
        return call.forward();
    }
    let _busy = Busy::begin();
    let returned = call.forward();
    IS_UNFLUSHED.store(false, Ordering::Release);
    returned
}

/// Hook of `cuptiActivityRegisterTimestampCallback(clock)`. A profiler that is about to record calls this first. Before
/// the real call, rankscope's pending records are delivered by the clock with which they began. Between two clocks
/// their times would be arbitrary.
fn registers_timestamp(call: RealCall<'_, Narrow>) -> Returned {
    let origin = state::call_origin();
    if origin == CallOrigin::NotOurs {
        return call.forward();
    }
    let _busy = Busy::begin();
    if origin == CallOrigin::Theirs {
        session::changing().yield_to_other();
    }
    let [clock, ..] = *call.arguments();
    // CUPTI decides whether the clock is valid.
    let returned = call.forward();
    if is_success(&returned) {
        TIMESTAMP.store(clock, Ordering::Release);
    }
    returned
}

/// Hook of `cuptiGetTimestamp(place)`. While rankscope records, CUPTI has rankscope's clock. The caller expects the
/// clock that CUPTI would have without rankscope, so the hook replaces the answer.
fn asks_time(call: RealCall<'_, Narrow>) -> Returned {
    let [place, ..] = *call.arguments();
    let returned = call.forward();
    if is_success(&returned)
        && place != 0
        && let Some(now) = session::time_of_others()
    {
        // SAFETY: the address is not null. CUPTI reported success, so it has just written its answer there.
        unsafe { (place as *mut u64).write(now) };
    }
    returned
}

/// Hook of `cuptiSubscribe_v2(subscriber, callback, data, parameters)`. It ends recording, so that a profiler that
/// starts with the second interface does not find the first in use.
fn subscribes(call: RealCall<'_, Narrow>) -> Returned {
    let origin = state::call_origin();
    if origin == CallOrigin::NotOurs {
        return call.forward();
    }
    let _busy = Busy::begin();
    // A profiler with this interface makes no intercepted call when it records.
    IS_V2.store(true, Ordering::Release);
    if origin == CallOrigin::Theirs {
        session::changing().end("another profiler subscribed by the second interface");
    }
    call.forward()
}

/// Hook of `cuptiFinalize()`. It ends recording, and forgets everything that was registered, because CUPTI forgets it
/// too.
fn finalizes(call: RealCall<'_, Narrow>) -> Returned {
    let origin = state::call_origin();
    if origin == CallOrigin::NotOurs {
        return call.forward();
    }
    let _busy = Busy::begin();
    if origin == CallOrigin::Theirs {
        session::changing().end("another profiler ended CUPTI");
        // The CUPTI thread first completes what it is doing with CUPTI, and does nothing more with it afterwards.
        session::wait_until_unused();
    }
    KINDS.store(0, Ordering::Release);
    REQUESTED.store(0, Ordering::Release);
    TIMESTAMP.store(0, Ordering::Release);
    call.forward()
}
