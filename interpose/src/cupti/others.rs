//! Other users of CUPTI in this process: torch.profiler above all. Its activity interface has one place for everything:
//! whoever registers last gets all buffers, whoever disables a kind disables it for everybody.
//!
//! So these functions are intercepted. When somebody else begins to record, we stop, hand out what is there, and put the
//! clock back to what it would be without us; when nobody records any more, we come back. Each buffer goes back to whom
//! it was asked from, whoever is registered by then.

use super::session::{self, Whose};
use crate::stub::{Call, Narrow};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Returned where no loaded library has the function: `CUPTI_ERROR_NOT_INITIALIZED`.
const MISSING: usize = 15;
/// `CUPTI_SUCCESS`
const SUCCESS: u32 = 0;

crate::wrappers! {
    register_callbacks = "cuptiActivityRegisterCallbacks", seen "11.8", narrow registers_callbacks;
    enable = "cuptiActivityEnable", seen "11.8", narrow |real, a: &Narrow| enables(real, a, a[0]);
    enable_and_dump = "cuptiActivityEnableAndDump", seen "11.8", narrow |real, a: &Narrow| enables(real, a, a[0]);
    enable_context = "cuptiActivityEnableContext", seen "11.8", narrow |real, a: &Narrow| enables(real, a, a[1]);
    disable = "cuptiActivityDisable", seen "11.8", narrow |real, a: &Narrow| disables(real, a, a[0]);
    disable_context = "cuptiActivityDisableContext", seen "11.8", narrow |real, a: &Narrow| disables(real, a, a[1]);
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

/// True while somebody else records activity.
pub fn record() -> bool {
    KINDS.load(Ordering::Acquire) != 0
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

fn bit(kind: usize) -> u64 {
    1 << (kind as u32).min(63)
}

fn is_success(returned: usize) -> bool {
    returned as u32 == SUCCESS
}

/// `cuptiActivityRegisterCallbacks(requested, completed)`
unsafe fn registers_callbacks(real: usize, arguments: &Narrow) -> usize {
    let mut changing = match session::whose_call() {
        Whose::Theirs(changing) => changing,
        Whose::NotOurs => {
            // SAFETY: handed through.
            return unsafe { arguments.call(real) };
        }
        Whose::BeforeUs => {
            // SAFETY: handed through.
            let returned = unsafe { arguments.call(real) };
            if is_success(returned) {
                REQUESTED.store(arguments[0], Ordering::Release);
                COMPLETED.store(arguments[1], Ordering::Release);
            }
            return returned;
        }
    };
    changing.step_aside();
    REQUESTED.store(arguments[0], Ordering::Release);
    COMPLETED.store(arguments[1], Ordering::Release);
    let mut handed_on = *arguments;
    // Buffers of ours may still come back; theirs go on to them.
    handed_on[1] = session::completed as *const () as usize;
    // SAFETY: the same function, and one of ours in the place of theirs, which it calls.
    let returned = unsafe { handed_on.call(real) };
    if !is_success(returned) {
        REQUESTED.store(0, Ordering::Release);
    }
    changing.touched();
    returned
}

/// `cuptiActivityEnable(kind)` and its kin.
unsafe fn enables(real: usize, arguments: &Narrow, kind: usize) -> usize {
    let mut changing = match session::whose_call() {
        Whose::Theirs(changing) => changing,
        Whose::NotOurs => {
            // SAFETY: handed through.
            return unsafe { arguments.call(real) };
        }
        Whose::BeforeUs => {
            // SAFETY: handed through.
            let returned = unsafe { arguments.call(real) };
            if is_success(returned) {
                KINDS.fetch_or(bit(kind), Ordering::AcqRel);
            }
            return returned;
        }
    };
    changing.step_aside();
    // Before, since records may come at once.
    KINDS.fetch_or(bit(kind), Ordering::AcqRel);
    // SAFETY: handed through.
    let returned = unsafe { arguments.call(real) };
    if !is_success(returned) {
        KINDS.fetch_and(!bit(kind), Ordering::AcqRel);
    }
    changing.touched();
    returned
}

/// `cuptiActivityDisable(kind)` and its kin.
unsafe fn disables(real: usize, arguments: &Narrow, kind: usize) -> usize {
    let mut changing = match session::whose_call() {
        Whose::Theirs(changing) => changing,
        Whose::NotOurs => {
            // SAFETY: handed through.
            return unsafe { arguments.call(real) };
        }
        Whose::BeforeUs => {
            KINDS.fetch_and(!bit(kind), Ordering::AcqRel);
            // SAFETY: handed through.
            return unsafe { arguments.call(real) };
        }
    };
    // SAFETY: handed through.
    let returned = unsafe { arguments.call(real) };
    KINDS.fetch_and(!bit(kind), Ordering::AcqRel);
    changing.enable_again();
    changing.touched();
    returned
}

/// `cuptiActivityRegisterTimestampCallback(clock)`. While we record it has no effect but that it is theirs when they do:
/// nobody gets a record meanwhile.
unsafe fn registers_timestamp(real: usize, arguments: &Narrow) -> usize {
    let mut changing = match session::whose_call() {
        Whose::Theirs(changing) => changing,
        Whose::NotOurs => {
            // SAFETY: handed through.
            return unsafe { arguments.call(real) };
        }
        Whose::BeforeUs => {
            // SAFETY: handed through.
            let returned = unsafe { arguments.call(real) };
            if is_success(returned) {
                TIMESTAMP.store(arguments[0], Ordering::Release);
            }
            return returned;
        }
    };
    // SAFETY: handed through: whether it is a good one says CUPTI.
    let returned = unsafe { arguments.call(real) };
    if is_success(returned) {
        TIMESTAMP.store(arguments[0], Ordering::Release);
    }
    changing.clock_again();
    changing.touched();
    returned
}

/// `cuptiSubscribe_v2(subscriber, callback, data, parameters)`: who begins with the second interface finds none of the
/// first in use.
unsafe fn subscribes(real: usize, arguments: &Narrow) -> usize {
    let Whose::Theirs(mut changing) = session::whose_call() else {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    };
    changing.step_aside();
    // SAFETY: handed through.
    let returned = unsafe { arguments.call(real) };
    if is_success(returned) {
        // Whoever has it does not tell us when it records.
        changing.end("another profiler subscribed by the second interface");
    }
    returned
}

/// `cuptiFinalize()`: CUPTI is gone, and everything that was registered.
unsafe fn finalizes(real: usize, arguments: &Narrow) -> usize {
    let Whose::Theirs(mut changing) = session::whose_call() else {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    };
    changing.step_aside();
    changing.end("another profiler ended CUPTI");
    // SAFETY: handed through.
    unsafe { arguments.call(real) }
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
