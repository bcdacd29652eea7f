//! What calls of NCCL do for CUPTI: link their launches, name their streams, start our thread.

use super::state::{ASKS, IS_GONE, LIFE, LINKS, NOTHING, STREAMS, SUCCESS, TABLE, THREAD, is_ours, own};
use super::{links, records, streams, watch};
use crate::core::life;
use crate::core::thread::ThreadState;
use rankscope_ranklog::record::Record;
use std::sync::atomic::Ordering;

/// A call of NCCL that is linked to what it launches, until this is dropped.
pub struct Linked;

impl Drop for Linked {
    fn drop(&mut self) {
        let mut last = 0;
        let is_there = !IS_GONE.load(Ordering::Acquire) && is_ours();
        if is_there && let Some(pop) = TABLE.get().and_then(|table| table.pop_external_id) {
            // SAFETY: pops what this thread has pushed; a place of ours.
            own(|| unsafe { pop(records::EXTERNAL_KIND, &raw mut last) });
        }
    }
}

/// True while calls of NCCL are to do more than be recorded.
#[inline]
pub fn asks_calls() -> bool {
    ASKS.load(Ordering::Relaxed) != NOTHING
}

/// The next call of NCCL is to start our thread, or none is.
pub fn wants_thread(is_wanted: bool) {
    let (from, to) = if is_wanted {
        (NOTHING, THREAD)
    } else {
        (THREAD, NOTHING)
    };
    let _ = ASKS.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
}

/// Tells which stream the call names that this record tells of.
#[cold]
pub fn tell_stream(thread: &'static ThreadState, record: &Record) {
    if matches!(ASKS.load(Ordering::Acquire), LINKS | STREAMS) && is_ours() {
        streams::tell(thread, record);
    }
}

fn link(number: u64) -> Option<Linked> {
    match ASKS.load(Ordering::Acquire) {
        LINKS => {}
        THREAD => {
            watch::start(None);
            return None;
        }
        _ => return None,
    }
    if LIFE.load(Ordering::Relaxed) != life::number() {
        return None;
    }
    let push = TABLE.get()?.push_external_id?;
    // SAFETY: CUPTI is there and records; the number is per thread.
    let pushed = own(|| unsafe { push(records::EXTERNAL_KIND, number) });
    (pushed == SUCCESS).then_some(Linked)
}

/// Links what the call launches that this record tells of.
#[cold]
pub fn link_call(record: &Record) -> Option<Linked> {
    link(links::of_call(record)?)
}

/// Links what the end of a group launches.
#[cold]
pub fn link_group(number: u32) -> Option<Linked> {
    link(links::of_group(number))
}
