//! Other users of CUPTI in this process: torch.profiler above all. Its activity interface has one place for everything:
//! whoever registers last gets all buffers, whoever disables a kind disables it for everybody.
//!
//! So these functions are intercepted. When somebody else begins to record, we stop, hand out what is there, and put the
//! clock back to what it would be without us; when nobody records any more, we come back. Each buffer goes back to whom
//! it was asked from, whoever is registered by then. The real function is called with no lock of ours held: it may wait
//! for another thread, which may come here too.

use super::session;
use super::state::{self, Whose};
use crate::core::stub::{Call, Narrow};
use rankscope_ranklog::clock::{ticks, ticks_per_second};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Returned where no loaded library has the function: `CUPTI_ERROR_NOT_INITIALIZED`.
const MISSING: usize = 15;
/// `CUPTI_SUCCESS`
const SUCCESS: u32 = 0;

/// After the last sign of another profiler it is left alone for so long: it may go on at once.
const GRACE_S: f64 = 2.0;
/// As long as it has not flushed after it stopped it may do so yet, and what comes then is stamped by its clock.
const UNFLUSHED_GRACE_S: f64 = 30.0;

crate::wrappers! {
    register_callbacks = "cuptiActivityRegisterCallbacks", seen "11.8", narrow registers_callbacks;
    enable = "cuptiActivityEnable", seen "11.8", narrow |real, a: &Narrow| enables(real, a, a[0]);
    enable_and_dump = "cuptiActivityEnableAndDump", seen "11.8", narrow |real, a: &Narrow| enables(real, a, a[0]);
    enable_context = "cuptiActivityEnableContext", seen "11.8", narrow |real, a: &Narrow| enables(real, a, a[1]);
    disable = "cuptiActivityDisable", seen "11.8", narrow |real, a: &Narrow| disables(real, a, a[0]);
    disable_context = "cuptiActivityDisableContext", seen "11.8", narrow |real, a: &Narrow| disables(real, a, a[1]);
    flush = "cuptiActivityFlushAll", seen "11.8", narrow flushes;
    register_timestamp = "cuptiActivityRegisterTimestampCallback", seen "11.8", narrow registers_timestamp;
    timestamp = "cuptiGetTimestamp", seen "11.8", narrow asks_time;
    subscribe_v2 = "cuptiSubscribe_v2", seen "13.0", narrow subscribes;
    finalize = "cuptiFinalize", seen "11.8", narrow finalizes;
}

/// Kinds of activity that others have enabled, one bit each; kinds above 63 share the last.
static KINDS: AtomicU64 = AtomicU64::new(0);
/// The functions that they registered last; 0: none.
static REQUESTED: AtomicUsize = AtomicUsize::new(0);
static COMPLETED: AtomicUsize = AtomicUsize::new(0);
static TIMESTAMP: AtomicUsize = AtomicUsize::new(0);
/// Calls of theirs that are going on.
static BUSY: AtomicU32 = AtomicU32::new(0);
/// When the last one ended; 0: there was none.
static TOUCHED: AtomicU64 = AtomicU64::new(0);
/// They have not flushed since they recorded.
static IS_UNFLUSHED: AtomicBool = AtomicBool::new(false);
/// They use the second interface, with which the first must not be mixed.
static IS_V2: AtomicBool = AtomicBool::new(false);

/// True while somebody else records activity, or may go on to.
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

/// True if they use the second interface.
pub fn use_v2() -> bool {
    IS_V2.load(Ordering::Acquire)
}

/// The functions that others registered for their buffers, if they did.
pub fn callbacks() -> Option<(usize, usize)> {
    let requested = REQUESTED.load(Ordering::Acquire);
    (requested != 0).then(|| (requested, COMPLETED.load(Ordering::Acquire)))
}

/// The clock that others registered; 0: none.
pub fn clock() -> usize {
    TIMESTAMP.load(Ordering::Acquire)
}

/// A call of theirs, as long as it lives.
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

fn is_success(returned: usize) -> bool {
    returned as u32 == SUCCESS
}

/// `cuptiActivityRegisterCallbacks(requested, completed)`
unsafe fn registers_callbacks(real: usize, arguments: &Narrow) -> usize {
    let whose = state::whose_call();
    if whose == Whose::NotOurs {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    let _busy = Busy::begin();
    let before = (
        REQUESTED.swap(arguments[0], Ordering::AcqRel),
        COMPLETED.swap(arguments[1], Ordering::AcqRel),
    );
    let mut handed_on = *arguments;
    if whose == Whose::Theirs {
        session::changing().step_aside();
        // Buffers of ours may still come back; theirs go on to them.
        handed_on[1] = session::completed as *const () as usize;
    }
    // SAFETY: the same function, and perhaps one of ours in the place of theirs, which it calls.
    let returned = unsafe { handed_on.call(real) };
    if !is_success(returned) {
        REQUESTED.store(before.0, Ordering::Release);
        COMPLETED.store(before.1, Ordering::Release);
    }
    returned
}

/// `cuptiActivityEnable(kind)` and its kin.
unsafe fn enables(real: usize, arguments: &Narrow, kind: usize) -> usize {
    let whose = state::whose_call();
    if whose == Whose::NotOurs {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    let _busy = Busy::begin();
    // Before, since records may come at once.
    let before = KINDS.fetch_or(bit(kind), Ordering::AcqRel);
    IS_UNFLUSHED.store(true, Ordering::Release);
    if whose == Whose::Theirs {
        session::changing().step_aside();
    }
    // SAFETY: handed through.
    let returned = unsafe { arguments.call(real) };
    if !is_success(returned) && before & bit(kind) == 0 {
        KINDS.fetch_and(!bit(kind), Ordering::AcqRel);
    }
    returned
}

/// `cuptiActivityDisable(kind)` and its kin.
unsafe fn disables(real: usize, arguments: &Narrow, kind: usize) -> usize {
    let whose = state::whose_call();
    if whose == Whose::NotOurs {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    let _busy = Busy::begin();
    // SAFETY: handed through.
    let returned = unsafe { arguments.call(real) };
    KINDS.fetch_and(!bit(kind), Ordering::AcqRel);
    if whose == Whose::Theirs {
        session::changing().enable_again();
    }
    returned
}

/// `cuptiActivityFlushAll(flag)`: what they recorded is out.
unsafe fn flushes(real: usize, arguments: &Narrow) -> usize {
    if state::whose_call() == Whose::NotOurs {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    let _busy = Busy::begin();
    // SAFETY: handed through.
    let returned = unsafe { arguments.call(real) };
    IS_UNFLUSHED.store(false, Ordering::Release);
    returned
}

/// `cuptiActivityRegisterTimestampCallback(clock)`: who is about to record does this first. What is under way of ours is
/// taken out before, by the clock that it was begun with: between two clocks its times would be anything.
unsafe fn registers_timestamp(real: usize, arguments: &Narrow) -> usize {
    let whose = state::whose_call();
    if whose == Whose::NotOurs {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    let _busy = Busy::begin();
    if whose == Whose::Theirs {
        session::changing().step_aside();
    }
    // SAFETY: handed through: whether it is a good one says CUPTI.
    let returned = unsafe { arguments.call(real) };
    if is_success(returned) {
        TIMESTAMP.store(arguments[0], Ordering::Release);
    }
    returned
}

/// `cuptiGetTimestamp(place)`: while we record CUPTI's clock is ours, and whoever asks means the one that there would be
/// without us.
unsafe fn asks_time(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: handed through.
    let returned = unsafe { arguments.call(real) };
    if is_success(returned)
        && arguments[0] != 0
        && let Some(now) = session::time_of_others()
    {
        // SAFETY: CUPTI has just written its answer there.
        unsafe { (arguments[0] as *mut u64).write(now) };
    }
    returned
}

/// `cuptiSubscribe_v2(subscriber, callback, data, parameters)`: who begins with the second interface finds none of the
/// first in use.
unsafe fn subscribes(real: usize, arguments: &Narrow) -> usize {
    let whose = state::whose_call();
    if whose == Whose::NotOurs {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    let _busy = Busy::begin();
    // Whoever has it does not tell us when it records.
    IS_V2.store(true, Ordering::Release);
    if whose == Whose::Theirs {
        session::changing().end("another profiler subscribed by the second interface");
    }
    // SAFETY: handed through.
    unsafe { arguments.call(real) }
}

/// `cuptiFinalize()`: CUPTI is gone, and everything that was registered.
unsafe fn finalizes(real: usize, arguments: &Narrow) -> usize {
    let whose = state::whose_call();
    if whose == Whose::NotOurs {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    let _busy = Busy::begin();
    if whose == Whose::Theirs {
        session::changing().end("another profiler ended CUPTI");
        // What our thread does with CUPTI just now comes to its end first, and nothing follows.
        session::wait_until_unused();
    }
    KINDS.store(0, Ordering::Release);
    REQUESTED.store(0, Ordering::Release);
    TIMESTAMP.store(0, Ordering::Release);
    // SAFETY: handed through.
    unsafe { arguments.call(real) }
}
