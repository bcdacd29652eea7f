//! Operations that the program requests from a process group. The works queued inside get their name. For example, c10d
//! builds a reduce-scatter from all-reduces, but its user requested a reduce-scatter.

use crate::core::real_call::{RealCall, Returned};
use crate::core::stub::Arguments;
use crate::thread;
use crate::thread::ThreadState;
use rankscope_ranklog::Operation;

/// Names the operation of the works that the real function queues. It commits no record itself.
#[inline]
pub fn asked(operation: Operation, call: RealCall<'_, impl Arguments>) -> Returned {
    let thread = thread::state();
    let depth = thread.torch.process_group_depth.get();
    thread.torch.process_group_depth.set(depth + 1);
    if depth == 0 {
        thread.torch.process_group_operation.set(operation as u8);
    }
    let _ending = Ending(thread);
    call.forward()
}

struct Ending(&'static ThreadState);

impl Drop for Ending {
    #[inline(always)]
    fn drop(&mut self) {
        let depth = self.0.torch.process_group_depth.get().saturating_sub(1);
        self.0.torch.process_group_depth.set(depth);
        if depth == 0 {
            self.0.torch.process_group_operation.set(0);
        }
    }
}
