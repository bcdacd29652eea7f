//! Extra work of NCCL calls for CUPTI: they link their launches, name their streams, and start the CUPTI thread.

use super::state::{ASKS, IS_GONE, LIFE, LINKS, NOTHING, STREAMS, SUCCESS, TABLE, THREAD, is_ours, own};
use super::{links, records, streams, worker};
use crate::core::life;
use crate::thread::ThreadState;
use rankscope_ranklog::record::Record;
use std::sync::atomic::Ordering;

/// Guard: until it is dropped, an NCCL call is linked to its launches.
pub struct Linked;

impl Drop for Linked {
    fn drop(&mut self) {
        let mut last = 0;
        let is_there = !IS_GONE.load(Ordering::Acquire) && is_ours();
        if is_there && let Some(pop) = TABLE.get().and_then(|table| table.pop_external_id) {
            // SAFETY: the function belongs to the loaded CUPTI, which still exists. This thread pops the number that it
            // has pushed. `last` is a local.
            own(|| unsafe { pop(records::EXTERNAL_KIND, &raw mut last) });
        }
    }
}

/// Returns true while NCCL calls have extra work.
#[inline]
pub fn asks_calls() -> bool {
    ASKS.load(Ordering::Relaxed) != NOTHING
}

/// Sets whether the next NCCL call shall start the CUPTI thread.
pub fn wants_thread(is_wanted: bool) {
    let (from, to) = if is_wanted {
        (NOTHING, THREAD)
    } else {
        (THREAD, NOTHING)
    };
    let _ = ASKS.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
}

/// Records the stream that a call names.
#[cold]
pub fn record_stream(thread: &'static ThreadState, record: &Record) {
    if matches!(ASKS.load(Ordering::Acquire), LINKS | STREAMS) && is_ours() {
        streams::record(thread, record);
    }
}

fn link(number: u64) -> Option<Linked> {
    match ASKS.load(Ordering::Acquire) {
        LINKS => {}
        THREAD => {
            worker::start(None);
            return None;
        }
        _ => return None,
    }
    if LIFE.load(Ordering::Relaxed) != life::number() {
        return None;
    }
    let push = TABLE.get()?.push_external_id?;
    // SAFETY: the function belongs to the loaded CUPTI, which still exists and records. The pushed number is per
    // thread.
    let pushed = own(|| unsafe { push(records::EXTERNAL_KIND, number) });
    (pushed == SUCCESS).then_some(Linked)
}

/// Links the launches of this record's call.
#[cold]
pub fn link_call(record: &Record) -> Option<Linked> {
    link(links::of_call(record)?)
}

/// Links the launches of the end of a group.
#[cold]
pub fn link_group(number: u32) -> Option<Linked> {
    link(links::of_group(number))
}
