//! A blocking call between its enter and its leave: the lane that lists it, and the process life in which it was listed.

use crate::life;
use crate::thread_lane::ThreadLane;
use rankscope_ranklog::lanes::{Lane, LaneSet};
use rankscope_ranklog::record::Record;

/// Lane that lists a call in progress. The call must be finished on the same lane, also if recording was paused meanwhile:
/// otherwise it would be listed forever.
#[derive(Clone, Copy)]
pub struct HeldLane {
    lane: Option<(&'static LaneSet, &'static Lane)>,
    life: u32,
}

impl HeldLane {
    /// No lane: nothing is listed.
    pub const NONE: Self = Self { lane: None, life: 0 };

    /// Lists a call that begins, if there is a lane.
    #[inline(always)]
    pub fn enter(thread: &'static ThreadLane, record: &Record) -> Self {
        let lane = life::lane(thread);
        if let Some((set, lane)) = lane {
            lane.enter(set, record);
        }
        Self {
            lane,
            life: thread.epoch.get(),
        }
    }

    /// Commits the record of the call, and then removes the call from the list. So a reader that looks at the list first
    /// finds the call in the list, as a record, or both.
    #[inline(always)]
    pub fn finish(self, thread: &'static ThreadLane, record: &Record) {
        match self.lane {
            Some((set, lane)) if life::number() == self.life => {
                lane.commit(set, record);
                lane.leave(set);
            }
            // The real function forked. This is the child, and the lane belongs to its parent.
            Some(_) => {}
            None => life::commit(thread, record),
        }
    }
}
