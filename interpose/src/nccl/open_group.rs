//! The group that a thread has open.

use crate::thread::ThreadState;

/// Returns the number of the group in which this thread calls now, and counts one more operation in it; 0 outside one.
#[inline]
pub fn current(thread: &ThreadState) -> u32 {
    if thread.nccl.group_depth.get() == 0 {
        return 0;
    }
    thread
        .nccl
        .group_operations
        .set(thread.nccl.group_operations.get().wrapping_add(1));
    thread.nccl.group.get()
}

/// Returns the number of the group in which this thread calls now; 0 outside one.
pub fn number(thread: &ThreadState) -> u32 {
    if is_open(thread) {
        thread.nccl.group.get()
    } else {
        0
    }
}

/// Returns true inside a group.
#[inline]
pub fn is_open(thread: &ThreadState) -> bool {
    thread.nccl.group_depth.get() > 0
}
