//! Groups: calls between start and end reach their streams at the outermost end, as one launch or several.

use super::{communicators, events, plugin, result};
use crate::core::in_progress::InProgress;
use crate::core::stub::{Call, Narrow};
use crate::core::thread;
use crate::core::thread::ThreadState;
use crate::cupti::calls as cupti_calls;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{FLAG_FAILED, FLAG_LINKED, FLAG_SIMULATED, Record, RecordKind};
use std::sync::atomic::{AtomicU32, Ordering};

/// Groups of this process are numbered from 1.
static LAST_GROUP: AtomicU32 = AtomicU32::new(0);

/// The group in which this thread calls now, with one more operation in it; 0 outside one.
#[inline]
pub fn current(thread: &ThreadState) -> u32 {
    if thread.nccl_group_depth.get() == 0 {
        return 0;
    }
    thread
        .nccl_group_operations
        .set(thread.nccl_group_operations.get().wrapping_add(1));
    thread.nccl_group.get()
}

/// Number of the group in which this thread calls now; 0 outside one.
pub fn number(thread: &ThreadState) -> u32 {
    if is_open(thread) {
        thread.nccl_group.get()
    } else {
        0
    }
}

/// True inside a group.
#[inline]
pub fn is_open(thread: &ThreadState) -> bool {
    thread.nccl_group_depth.get() > 0
}

/// `ncclGroupStart()`.
///
/// # Safety
/// `real` must be this function.
pub unsafe fn start(real: usize, arguments: &Narrow) -> usize {
    let enter_ticks = ticks();
    let thread = thread::state();
    // SAFETY: handed through.
    let returned = unsafe { arguments.call(real) };
    if thread.nccl_depth.get() == 0 && result::of(returned) == result::SUCCESS {
        let depth = thread.nccl_group_depth.get();
        thread.nccl_group_depth.set(depth + 1);
        if depth == 0 {
            // 0 means no group, also after four thousand million of them.
            let number = LAST_GROUP.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
            thread.nccl_group.set(number);
            thread.nccl_group_operations.set(0);
            thread.nccl_group_start_ticks.set(enter_ticks);
            // Of a group whose end was not seen.
            events::group_ended(thread, false);
        }
    }
    returned
}

/// `ncclGroupEnd()`.
///
/// # Safety
/// `real` must be this function.
pub unsafe fn end(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: handed through.
    unsafe { end_as(real, arguments, 0) }
}

/// `ncclGroupSimulateEnd(info)`: ends the group, and nothing of it runs.
///
/// # Safety
/// `real` and `arguments` must be this function's.
pub unsafe fn simulate_end(real: usize, arguments: &Narrow) -> usize {
    // SAFETY: handed through.
    unsafe { end_as(real, arguments, FLAG_SIMULATED) }
}

/// # Safety
/// As for the two above.
unsafe fn end_as(real: usize, arguments: &Narrow, flags: u8) -> usize {
    let enter_ticks = ticks();
    let thread = thread::state();
    let depth = thread.nccl_group_depth.get();
    if thread.nccl_depth.get() > 0 || depth == 0 {
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    if depth > 1 {
        thread.nccl_group_depth.set(depth - 1);
        // SAFETY: handed through.
        return unsafe { arguments.call(real) };
    }
    let mut record = Record {
        flags,
        enter_ticks,
        bytes: u64::from(thread.nccl_group_operations.get()),
        object: u64::from(thread.nccl_group.get()),
        aux: thread.nccl_group_start_ticks.get(),
        ..Record::new(RecordKind::Group)
    };
    let group = thread.nccl_group.get();
    // However it ends, the group is over.
    thread.nccl_group_depth.set(0);
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
        let mut call = InProgress::begin(thread, &thread.nccl_depth, &mut record);
        // SAFETY: handed through.
        returned = unsafe { arguments.call(real) };
        call.returned(|record| {
            record.tag = result::of(returned);
            if !result::is_fine(record.tag) {
                record.flags |= FLAG_FAILED;
            }
        });
    }
    drop(linked);
    let is_launched = flags & FLAG_SIMULATED == 0 && result::of(returned) == result::SUCCESS;
    events::group_ended(thread, is_launched);
    if plugin::needs_pending() && (flags & FLAG_SIMULATED != 0 || !result::is_fine(result::of(returned))) {
        nothing_comes_of(group);
    }
    // SAFETY: the places in which handles are awaited belong to calls of this group, which the library itself has
    // just written to.
    unsafe { communicators::group_ended(thread, group, result::of(returned), real) };
    returned
}

/// The plugin is not to wait for a group's operations.
#[cold]
fn nothing_comes_of(group: u32) {
    for (_, entry) in crate::core::communicators::live() {
        if let Some(pending) = entry.pending() {
            pending.withdraw_group(group);
        }
    }
}
