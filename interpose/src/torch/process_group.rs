//! Operations that the program requests from a process group. The works queued inside get their name. For example, c10d
//! builds a reduce-scatter from all-reduces, but its user requested a reduce-scatter.

use crate::core::stub::Call;
use crate::core::thread;
use crate::core::thread::ThreadState;
use rankscope_ranklog::Operation;

/// Names the operation of the works that the real function queues. It commits no record itself.
///
/// # Safety
/// `real` and `arguments` must be this row's.
#[inline]
pub unsafe fn asked<A: Call>(operation: Operation, real: usize, arguments: &A) -> usize {
    let thread = thread::state();
    let depth = thread.process_group_depth.get();
    thread.process_group_depth.set(depth + 1);
    if depth == 0 {
        thread.process_group_operation.set(operation as u8);
    }
    let _ending = Ending(thread);
    // SAFETY: `real` is the function that this stub replaces, and `arguments` are the caller's own, forwarded
    // unchanged.
    unsafe { arguments.call(real) }
}

struct Ending(&'static ThreadState);

impl Drop for Ending {
    #[inline(always)]
    fn drop(&mut self) {
        let depth = self.0.process_group_depth.get().saturating_sub(1);
        self.0.process_group_depth.set(depth);
        if depth == 0 {
            self.0.process_group_operation.set(0);
        }
    }
}
