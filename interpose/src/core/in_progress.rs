//! A call between its enter and its leave: an entry in the lane's in-flight table, then one complete record.

use crate::core::held_lane::HeldLane;
use crate::core::thread_lane::ThreadLane;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::record::{FLAG_FAILED, Record};
use std::cell::Cell;

/// Commits its record when it is dropped. If an exception or a cancelled thread leaves the call, the record is
/// committed as failed.
pub struct InProgress<'a> {
    thread: &'static ThreadLane,
    /// Nesting depth of the library's calls on this thread: 1 until this is dropped.
    depth: &'a Cell<u32>,
    lane: HeldLane,
    record: &'a mut Record,
}

impl<'a> InProgress<'a> {
    /// Marks the call as in flight. The hook calls this just before it calls the real function.
    #[inline(always)]
    pub fn begin(thread: &'static ThreadLane, depth: &'a Cell<u32>, record: &'a mut Record) -> Self {
        record.flags |= FLAG_FAILED;
        let lane = HeldLane::enter(thread, record);
        depth.set(1);
        Self {
            thread,
            depth,
            lane,
            record,
        }
    }

    /// Stores the leave time and lets `complete` fill in the record. The record is committed when this guard is
    /// dropped: moving the record would cost as much as all the rest.
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
        self.lane.finish(self.thread, self.record);
    }
}
