//! Groups: calls between a start and an end. They reach their streams at the outermost end, as one launch or several.

use super::{communicators, events, plugin, result};
use crate::core::in_progress::InProgress;
use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::Narrow;
use crate::cupti::calls as cupti_calls;
use crate::thread;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{FLAG_FAILED, FLAG_LINKED, FLAG_SIMULATED, Record, RecordKind};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of the last group of this process. Numbers start at 1.
static LAST_GROUP: AtomicU32 = AtomicU32::new(0);

/// Hook of `ncclGroupStart()`. It stores the number and start time of an outermost group; the record follows at its
/// end.
pub fn start(call: RealCall<'_, Narrow>) -> Returned {
    let enter_ticks = ticks();
    let thread = thread::state();
    let returned = call.forward();
    if thread.nccl.depth.get() == 0 && returned.as_u32() == result::SUCCESS {
        let depth = thread.nccl.group_depth.get();
        thread.nccl.group_depth.set(depth + 1);
        if depth == 0 {
            // 0 means no group, also after the counter has wrapped around at 2³².
            let number = LAST_GROUP.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
            thread.nccl.group.set(number);
            thread.nccl.group_operations.set(0);
            thread.nccl.group_start_ticks.set(enter_ticks);
            // Releases the launches of a group whose end was not seen.
            events::group_ended(thread, false);
        }
    }
    returned
}

/// Hook of `ncclGroupEnd()`. It records an outermost group when the real call returns.
pub fn end(call: RealCall<'_, Narrow>) -> Returned {
    end_as(call, 0)
}

/// Hook of `ncclGroupSimulateEnd(info)`. It records an outermost group as simulated: the group ends, and none of its
/// operations runs.
pub fn simulate_end(call: RealCall<'_, Narrow>) -> Returned {
    end_as(call, FLAG_SIMULATED)
}

/// Ends a group, and records it if it is the outermost.
fn end_as(call: RealCall<'_, Narrow>, flags: u8) -> Returned {
    let enter_ticks = ticks();
    let thread = thread::state();
    let depth = thread.nccl.group_depth.get();
    if thread.nccl.depth.get() > 0 || depth == 0 {
        return call.forward();
    }
    if depth > 1 {
        thread.nccl.group_depth.set(depth - 1);
        return call.forward();
    }
    let mut record = Record {
        flags,
        enter_ticks,
        bytes: u64::from(thread.nccl.group_operations.get()),
        object: u64::from(thread.nccl.group.get()),
        aux: thread.nccl.group_start_ticks.get(),
        ..Record::new(RecordKind::Group)
    };
    let group = thread.nccl.group.get();
    let real = call.real();
    // With any outcome of the call, the group is over.
    thread.nccl.group_depth.set(0);
    if flags & FLAG_SIMULATED == 0 {
        events::group_ends(thread);
    }
    let linked = if cupti_calls::asks_calls() && flags & FLAG_SIMULATED == 0 {
        cupti_calls::link_group(group)
    } else {
        None
    };
    if linked.is_some() {
        record.flags |= FLAG_LINKED;
    }
    let returned;
    {
        let mut in_progress = InProgress::begin(&thread.lane, &thread.nccl.depth, &mut record);
        returned = call.forward();
        in_progress.returned(|record| {
            record.tag = returned.as_u32();
            if !result::is_fine(record.tag) {
                record.flags |= FLAG_FAILED;
            }
        });
    }
    drop(linked);
    let is_launched = flags & FLAG_SIMULATED == 0 && returned.as_u32() == result::SUCCESS;
    events::group_ended(thread, is_launched);
    if plugin::needs_pending() && (flags & FLAG_SIMULATED != 0 || !result::is_fine(returned.as_u32())) {
        nothing_comes_of(group);
    }
    // SAFETY: the addresses of handles awaited in this group belong to its calls. The library itself has just written
    // to them, so they are still valid.
    unsafe { communicators::group_ended(thread, group, returned.as_u32(), real) };
    returned
}

/// Removes a group's calls from the pending calls, because the plugin will report none of its operations.
#[cold]
fn nothing_comes_of(group: u32) {
    for (_, entry) in crate::core::communicators::live() {
        if let Some(pending) = entry.pending_calls() {
            pending.withdraw_group(group);
        }
    }
}
