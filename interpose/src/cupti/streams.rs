//! Which of CUPTI's streams the program's calls name: by that kernels are told from each other that no number links to
//! a call, in the order of their stream.

use super::state::{SUCCESS, TABLE, is_there, own};
use crate::core::life;
use crate::core::thread::ThreadState;
use crate::cuda::driver;
use rankscope_cupti_sys::bindings as cupti;
use rankscope_ranklog::activity::Activity;
use rankscope_ranklog::clock::{ticks, ticks_per_second};
use rankscope_ranklog::record::{FLAG_CAPTURED, Record};
use std::sync::atomic::{AtomicU64, Ordering};

/// Handles that are remembered; what finds its place taken takes it over, and is told once more.
const PLACES: usize = 64;

/// A handle that was told of.
struct Place {
    handle: AtomicU64,
    /// Context and number, as one word; [`NOTHING`] if nothing was told.
    meaning: AtomicU64,
    /// When CUPTI is to be asked again: a handle may be another stream's by then.
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

/// Context and number of a stream of the program's, as records have them.
fn stream(handle: usize) -> Option<(u32, u32)> {
    let table = TABLE.get().filter(|_| is_there())?;
    let (ask_context, ask_stream) = (table.context_id?, table.stream_id?);
    let mut context = 0;
    let (mut context_number, mut number) = (0, 0);
    // Somebody else may be capturing: what is asked here has nothing to do with it.
    let _relaxed = driver::Relaxed::begin();
    // SAFETY: a stream that the program just names in a call, or the null stream of the current context, and places of
    // ours; CUPTI is there.
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

/// What was told before belongs to a log that is no longer written.
pub fn forget() {
    for place in &PLACE {
        place.ask_again_ticks.store(0, Ordering::Relaxed);
        place.meaning.store(NOTHING, Ordering::Relaxed);
    }
}

/// Tells what the stream is that this call names, once, and again where it has become another. Two threads that do so at
/// once tell twice.
pub fn tell(thread: &'static ThreadState, call: &Record) {
    let handle = call.object;
    // Special ones but the null stream mean another one on each thread.
    let is_special = (1..=driver::LAST_SPECIAL_STREAM as u64).contains(&handle);
    if is_special || call.flags & FLAG_CAPTURED != 0 {
        return;
    }
    // Handles are addresses of allocations: the lowest bits say nothing.
    let place = &PLACE[((handle >> 4) ^ (handle >> 12)) as usize % PLACES];
    let now = ticks();
    let is_known = place.handle.load(Ordering::Relaxed) == handle;
    if is_known && now < place.ask_again_ticks.load(Ordering::Relaxed) {
        return;
    }
    // Without a place for the record nothing is told, and the next call tries again.
    let Some((set, lane)) = life::lane(thread) else {
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
