//! Records which of CUPTI's streams the program's calls name. Kernels that no number links to a call are linked by the
//! order on their stream.

use super::state::{SUCCESS, TABLE, is_there, own};
use crate::core::life;
use crate::cuda::driver;
use crate::thread::ThreadState;
use rankscope_cupti_sys::bindings as cupti;
use rankscope_ranklog::activity::Activity;
use rankscope_ranklog::clock::{ticks, ticks_per_second};
use rankscope_ranklog::record::{FLAG_CAPTURED, Record};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of handles that are remembered. A handle that finds its slot taken replaces the other one, which is recorded
/// again later.
const PLACES: usize = 64;

/// A handle that was recorded.
struct Place {
    handle: AtomicU64,
    /// Context and number of the stream, as one word; [`NOTHING`] if nothing was recorded.
    meaning: AtomicU64,
    /// Time at which CUPTI must be asked again, because the handle may belong to another stream by then.
    ask_again_ticks: AtomicU64,
}

const NOTHING: u64 = u64::MAX;

static PLACE: [Place; PLACES] = [const {
    Place {
        handle: AtomicU64::new(0),
        meaning: AtomicU64::new(NOTHING),
        ask_again_ticks: AtomicU64::new(0),
    }
}; PLACES];

/// Returns the context and number of a stream of the program, as CUPTI's records contain them.
fn stream(handle: usize) -> Option<(u32, u32)> {
    let table = TABLE.get().filter(|_| is_there())?;
    let (ask_context, ask_stream) = (table.context_id?, table.stream_id?);
    let mut context = 0;
    let (mut context_number, mut number) = (0, 0);
    // Another thread may be capturing. The following calls must not affect its capture.
    let _relaxed = driver::Relaxed::begin();
    // SAFETY: the handle is a stream that the program passes in this call, or null for the current context's stream.
    // The functions belong to the loaded CUPTI, which still exists. All pointers are to locals.
    let asked = unsafe {
        let found = if handle == 0 {
            driver::current_context(&raw mut context)
        } else {
            driver::stream_context(handle, &raw mut context)
        };
        found == driver::SUCCESS
            && context != 0
            && own(|| ask_context(context as cupti::CUcontext, &raw mut context_number)) == SUCCESS
            && own(|| {
                ask_stream(
                    context as cupti::CUcontext,
                    handle as cupti::CUstream,
                    0,
                    &raw mut number,
                )
            }) == SUCCESS
    };
    asked.then_some((context_number, number))
}

/// Forgets all handles, because they were recorded in a log that is no longer written.
pub fn forget() {
    for place in &PLACE {
        place.ask_again_ticks.store(0, Ordering::Relaxed);
        place.meaning.store(NOTHING, Ordering::Relaxed);
    }
}

/// Records the stream that this call names, once, and again if the handle belongs to another stream. Two threads at the
/// same time may both record it.
pub fn record(thread: &'static ThreadState, call: &Record) {
    let handle = call.object;
    // A special stream other than the null stream is a different stream on each thread.
    let is_special = (1..=driver::LAST_SPECIAL_STREAM as u64).contains(&handle);
    if is_special || call.flags & FLAG_CAPTURED != 0 {
        return;
    }
    // Handles are addresses of allocations, so their lowest bits contain no information.
    let place = &PLACE[((handle >> 4) ^ (handle >> 12)) as usize % PLACES];
    let now = ticks();
    let is_known = place.handle.load(Ordering::Relaxed) == handle;
    if is_known && now < place.ask_again_ticks.load(Ordering::Relaxed) {
        return;
    }
    // Without a lane nothing is recorded, and the next call tries again.
    let Some((set, lane)) = life::lane(&thread.lane) else {
        return;
    };
    let Some((context, number)) = stream(handle as usize) else {
        return;
    };
    place
        .ask_again_ticks
        .store(now + ticks_per_second(), Ordering::Relaxed);
    place.handle.store(handle, Ordering::Relaxed);
    let meaning = u64::from(context) << 32 | u64::from(number);
    if place.meaning.swap(meaning, Ordering::Relaxed) == meaning && is_known {
        return;
    }
    let stream = Activity::Stream {
        handle,
        context,
        number,
        at_ticks: call.enter_ticks,
    };
    lane.commit(set, &stream.to_record());
}
