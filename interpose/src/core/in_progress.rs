//! A call between its enter and its leave: in the lane's in-flight table, then one whole record.

use crate::core::life;
use crate::core::thread::ThreadState;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::lanes::{Lane, LaneSet};
use rankscope_ranklog::record::{FLAG_FAILED, Record};
use std::cell::Cell;

/// Commits its record when it is dropped: also when the call is left by an exception or by a cancelled thread, and then
/// as failed.
pub struct InProgress<'a> {
    thread: &'static ThreadState,
    /// Nesting of the library's calls on this thread: 1 from here to the end.
    depth: &'a Cell<u32>,
    lane: Option<(&'static LaneSet, &'static Lane)>,
    record: &'a mut Record,
}

impl<'a> InProgress<'a> {
    /// The call is about to be handed on.
    #[inline(always)]
    pub fn begin(thread: &'static ThreadState, depth: &'a Cell<u32>, record: &'a mut Record) -> Self {
        record.flags |= FLAG_FAILED;
        let lane = life::lane(thread);
        if let Some((set, lane)) = lane {
            lane.enter(set, record);
        }
        depth.set(1);
        Self {
            thread,
            depth,
            lane,
            record,
        }
    }

    /// The call has returned. What `complete` does to the record is committed with it, when this goes out of scope: moving
    /// it would cost as much as the rest.
    #[inline(always)]
    pub fn returned(&mut self, complete: impl FnOnce(&mut Record)) {
        self.record.leave_ticks = ticks();
        self.record.flags &= !FLAG_FAILED;
        complete(self.record);
    }
}

impl Drop for InProgress<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.record.leave_ticks == 0 {
            self.record.leave_ticks = ticks();
        }
        self.depth.set(0);
        match self.lane {
            Some((set, lane)) if life::same_life(self.thread) => {
                lane.leave(set);
                lane.commit(set, self.record);
            }
            // The real function forked: this is the child, and the lane is its parent's.
            Some(_) => {}
            None => life::commit(self.thread, self.record),
        }
    }
}
