//! Tracks for each thread when it was blocked for communication, and until when this is known.
//!
//! The records of a lane are disjoint and ordered. So after a record with leave time `t` was read, everything that the
//! thread did before `t` is known.

use crate::model::interval::Interval;
use crate::model::operation::Blocked;
use std::cell::Cell;
use std::collections::VecDeque;

/// Number of intervals that are kept before the oldest time still needed.
const KEPT_BEHIND: usize = 16;

/// An interval in which a thread was blocked.
#[derive(Clone, Copy, Debug)]
struct BlockedFor {
    interval: Interval,
    /// Operation that it waited for; 0 for no specific one.
    object: u64,
}

#[derive(Default)]
struct Lane {
    known_until: Option<i64>,
    blocked: VecDeque<BlockedFor>,
    blocked_ever: u64,
    /// Position of the last result. Queries advance with the operations.
    cursor: Cell<usize>,
}

impl Lane {
    /// Returns the index of the first interval that ends after `ns`.
    #[inline]
    fn first_after(&self, ns: i64) -> usize {
        let mut at = self.cursor.get().min(self.blocked.len());
        while at > 0 && self.blocked[at - 1].interval.end_ns > ns {
            at -= 1;
        }
        while at < self.blocked.len() && self.blocked[at].interval.end_ns <= ns {
            at += 1;
        }
        self.cursor.set(at);
        at
    }
}

/// The lanes of one log.
#[derive(Default)]
pub struct Lanes {
    lanes: Vec<Lane>,
    /// Lane with the most blocked intervals. DistributedDataParallel waits there, whichever thread issues.
    main: usize,
}

impl Lanes {
    fn lane(&mut self, lane: u32) -> &mut Lane {
        let lane = lane as usize;
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Lane::default);
        }
        &mut self.lanes[lane]
    }

    /// Records that everything the lane's thread did before `ns` is known.
    #[inline]
    pub fn known_until(&mut self, lane: u32, ns: i64) {
        let lane = self.lane(lane);
        lane.known_until = Some(lane.known_until.map_or(ns, |known| known.max(ns)));
    }

    /// Records that the lane's thread was blocked, for `object` or for no specific operation (0).
    pub fn blocked(&mut self, lane: u32, interval: Interval, object: u64) {
        let state = self.lane(lane);
        // An inner wait is recorded before the outer one that contains it. The outer one suffices.
        while state
            .blocked
            .back()
            .is_some_and(|last| last.interval.start_ns >= interval.start_ns)
        {
            state.blocked.pop_back();
        }
        state.blocked.push_back(BlockedFor { interval, object });
        state.blocked_ever += 1;
        let count = state.blocked_ever;
        if count > self.lanes[self.main].blocked_ever {
            self.main = lane as usize;
        }
    }

    /// Returns the lane that waits for operations issued on `lane`.
    fn waiting_lane(&self, lane: u32) -> Option<&Lane> {
        let own = self.lanes.get(lane as usize)?;
        if own.blocked_ever > 0 {
            Some(own)
        } else {
            self.lanes.get(self.main).filter(|main| main.blocked_ever > 0)
        }
    }

    /// Returns true if every block of the program before `ns`, for an operation issued on `lane`, is known.
    pub fn knows(&self, lane: u32, ns: i64) -> bool {
        let lane = self.waiting_lane(lane).or_else(|| self.lanes.get(lane as usize));
        lane.is_none_or(|lane| lane.known_until.is_some_and(|known| known >= ns))
    }

    /// Returns the parts of an interval in which the program was blocked because of operation `object`, issued on
    /// `lane`.
    pub fn blocked_for(&self, lane: u32, object: u64, within: Interval) -> Blocked {
        let mut out = Blocked::default();
        if let Some(lane) = self.waiting_lane(lane) {
            let first = lane.first_after(within.start_ns);
            for blocked in lane
                .blocked
                .range(first..)
                .take_while(|blocked| blocked.interval.start_ns < within.end_ns)
            {
                if blocked.object == 0 || blocked.object == object {
                    out.push(blocked.interval.intersection(within));
                }
            }
        }
        out
    }

    /// Returns the end of the blocked interval that contains `ns`, or `ns` itself.
    pub fn blocked_end(&self, lane: u32, ns: i64) -> i64 {
        let Some(lane) = self.waiting_lane(lane) else {
            return ns;
        };
        let first = lane.first_after(ns.saturating_sub(1));
        lane.blocked
            .get(first)
            .filter(|blocked| blocked.interval.start_ns <= ns)
            .map_or(ns, |blocked| blocked.interval.end_ns)
    }

    /// Removes intervals that ended before `ns`, except the last few.
    pub fn forget_before(&mut self, ns: i64) {
        for lane in &mut self.lanes {
            let done = lane
                .blocked
                .partition_point(|blocked| blocked.interval.end_ns < ns);
            let forgotten = done.saturating_sub(KEPT_BEHIND);
            lane.blocked.drain(..forgotten);
            lane.cursor.set(lane.cursor.get().saturating_sub(forgotten));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_for_the_operation_or_for_all_count() {
        let mut lanes = Lanes::default();
        lanes.blocked(0, Interval::new(10, 20), 7);
        lanes.blocked(0, Interval::new(30, 40), 8);
        lanes.blocked(0, Interval::new(50, 60), 0);
        lanes.known_until(0, 60);
        assert_eq!(lanes.blocked_for(0, 7, Interval::new(0, 100)), {
            let mut expected = Blocked::one(10, 20);
            expected.push(Interval::new(50, 60));
            expected
        });
        assert_eq!(
            lanes
                .blocked_for(0, 8, Interval::new(35, 55))
                .overlap_ns(Interval::new(0, 100)),
            10
        );
        assert!(lanes.knows(0, 60) && !lanes.knows(0, 61));
        assert_eq!(lanes.blocked_end(0, 55), 60);
        assert_eq!(lanes.blocked_end(0, 45), 45);
    }

    #[test]
    fn an_outer_wait_replaces_the_waits_inside_it() {
        let mut lanes = Lanes::default();
        lanes.blocked(0, Interval::new(12, 14), 7);
        lanes.blocked(0, Interval::new(15, 18), 8);
        lanes.blocked(0, Interval::new(10, 20), 0);
        assert_eq!(
            lanes
                .blocked_for(0, 9, Interval::new(0, 100))
                .overlap_ns(Interval::new(0, 100)),
            10
        );
    }

    #[test]
    fn a_wait_on_another_thread_counts_where_the_issuing_thread_never_waits() {
        let mut lanes = Lanes::default();
        lanes.known_until(1, 100);
        lanes.blocked(0, Interval::new(10, 20), 0);
        lanes.known_until(0, 20);
        assert_eq!(
            lanes
                .blocked_for(1, 5, Interval::new(0, 100))
                .overlap_ns(Interval::new(0, 100)),
            10
        );
        assert!(!lanes.knows(1, 50), "what lane 0 does after 20 is not known yet");
    }
}
