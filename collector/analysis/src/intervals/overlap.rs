//! The breakdown of a host-only rank's time (METRICS.md, section 5). It computes unions of communication (M) and of
//! blocked time (B), and the three parts that add up to the window.
//!
//! It works on a stream: time before a safe point is folded into sums.

use crate::intervals::{Intervals, difference, intersection, length, union};
use crate::model::interval::Interval;
use crate::model::pause_kinds::COUNT;
use serde::{Deserialize, Serialize};

/// Maximum number of intervals since the last fold. On overflow they are folded early, even without the end of a step.
const FOLD_AT: usize = 1 << 15;

/// Parts of one window, in nanoseconds. `host + exposed + other` is the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// Length of the window.
    pub window_ns: i64,
    /// |window \ B|
    pub host_ns: i64,
    /// |M ∩ B|
    pub exposed_ns: i64,
    /// |B \ M|
    pub other_blocked_ns: i64,
    /// |M|
    pub communication_ns: i64,
    /// |queue|: union of issue..enter.
    pub queued_ns: i64,
}

impl Parts {
    /// Adds the parts of another window.
    pub fn add(&mut self, other: &Self) {
        self.window_ns += other.window_ns;
        self.host_ns += other.host_ns;
        self.exposed_ns += other.exposed_ns;
        self.other_blocked_ns += other.other_blocked_ns;
        self.communication_ns += other.communication_ns;
        self.queued_ns += other.queued_ns;
    }

    /// Subtracts a window that was added before.
    pub fn take_out(&mut self, other: &Self) {
        self.window_ns -= other.window_ns;
        self.host_ns -= other.host_ns;
        self.exposed_ns -= other.exposed_ns;
        self.other_blocked_ns -= other.other_blocked_ns;
        self.communication_ns -= other.communication_ns;
        self.queued_ns -= other.queued_ns;
    }

    /// Returns true if the parts add up to the window and are inside it.
    pub fn adds_up(&self) -> bool {
        self.host_ns + self.exposed_ns + self.other_blocked_ns == self.window_ns
            && self.host_ns >= 0
            && self.exposed_ns >= 0
            && self.other_blocked_ns >= 0
            && self.communication_ns >= self.exposed_ns
            && self.communication_ns <= self.window_ns
    }
}

#[derive(Default)]
struct Thread {
    blocked: Intervals,
    /// Blocked time since the start of the run. It selects the thread that is blocked most.
    blocked_ns: i64,
    exposed_ns: i64,
    other_ns: i64,
    /// Named time in which the thread was not blocked, in the order of [`crate::model::pause_kinds::KINDS`].
    named_ns: [i64; COUNT],
    training: bool,
}

/// The breakdown of one rank, computed as records arrive.
#[derive(Default)]
pub struct Breakdown {
    communication: Intervals,
    queued: Intervals,
    /// Named times of the host by kind.
    named: [Intervals; COUNT],
    threads: Vec<Thread>,
    /// End of the folded time; `None` before the first fold.
    folded_until: Option<i64>,
    /// Sums of M and of queued time since the last cut, in nanoseconds.
    communication_ns: i64,
    queued_ns: i64,
    window_ns: i64,
    scratch: [Vec<Interval>; 2],
    /// Named times of the current window. Where several kinds overlap, the first kind counts.
    named_now: [Vec<Interval>; COUNT],
    /// Result of the last cut: named time in which the most-blocked thread was not blocked, by kind.
    pub named_ns: [i64; COUNT],
    /// Named times since the last cut, blocked or not. They apply if no thread was ever blocked.
    named_alone: [i64; COUNT],
}

impl Breakdown {
    /// Sets the start of the window. Later calls are ignored.
    pub fn start(&mut self, ns: i64) {
        self.folded_until.get_or_insert(ns);
    }

    /// Adds an interval in which the library communicated.
    #[inline]
    pub fn communicated(&mut self, start: i64, end: i64) {
        self.communication.add(start, end);
    }

    /// Adds an interval in which an operation was queued.
    #[inline]
    pub fn queued(&mut self, start: i64, end: i64) {
        self.queued.add(start, end);
    }

    fn thread(&mut self, lane: u32) -> &mut Thread {
        let lane = lane as usize;
        if self.threads.len() <= lane {
            self.threads.resize_with(lane + 1, Thread::default);
        }
        &mut self.threads[lane]
    }

    /// Adds an interval in which the lane's thread was blocked for communication.
    pub fn blocked(&mut self, lane: u32, start: i64, end: i64) {
        let thread = self.thread(lane);
        thread.blocked.add(start, end);
        thread.blocked_ns += (end - start).max(0);
    }

    /// Adds an interval of named host time.
    pub fn named(&mut self, kind: usize, start: i64, end: i64) {
        if let Some(of_kind) = self.named.get_mut(kind) {
            of_kind.add(start, end);
        }
    }

    /// Returns true if the lane's thread issues operations.
    pub fn is_training(&self, lane: u32) -> bool {
        self.threads
            .get(lane as usize)
            .is_some_and(|thread| thread.training)
    }

    /// Marks the lane's thread as a training thread, because it issues operations.
    #[inline]
    pub fn trains(&mut self, lane: u32) {
        self.thread(lane).training = true;
    }

    /// Returns the number of training threads.
    pub fn training_threads(&self) -> u32 {
        self.threads.iter().filter(|thread| thread.training).count() as u32
    }

    /// Returns true if intervals should be folded at the next safe point.
    pub fn is_full(&self) -> bool {
        self.communication.waiting() > FOLD_AT
            || self.queued.waiting() > FOLD_AT
            || self.named.iter().any(|named| named.waiting() > FOLD_AT)
            || self
                .threads
                .iter()
                .any(|thread| thread.blocked.waiting() > FOLD_AT)
    }

    /// Folds everything before `until` into the sums.
    pub fn fold(&mut self, until: i64) {
        let Some(from) = self.folded_until.filter(|&from| from < until) else {
            return;
        };
        let is_named = self.name(from, until);
        let [communication, other] = &mut self.scratch;
        self.communication.take(from, until, communication);
        self.communication_ns += length(communication);
        for thread in &mut self.threads {
            thread.blocked.take(from, until, other);
            let exposed = intersection(communication, other);
            thread.exposed_ns += exposed;
            thread.other_ns += length(other) - exposed;
            if is_named {
                for (sum, named) in thread.named_ns.iter_mut().zip(&self.named_now) {
                    *sum += length(named) - intersection(named, other);
                }
            }
        }
        if is_named {
            for (sum, named) in self.named_alone.iter_mut().zip(&self.named_now) {
                *sum += length(named);
            }
        }
        self.queued.take(from, until, other);
        self.queued_ns += length(other);
        self.window_ns += until - from;
        self.folded_until = Some(until);
    }

    /// Assigns named times to their kinds. Returns false if there are none.
    fn name(&mut self, from: i64, until: i64) -> bool {
        if self.named.iter().all(|named| named.waiting() == 0) {
            return false;
        }
        let (mut known, mut own, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (named, now) in self.named.iter_mut().zip(&mut self.named_now) {
            named.take(from, until, &mut own);
            difference(&own, &known, now);
            union(&own, &known, &mut all);
            std::mem::swap(&mut known, &mut all);
        }
        true
    }

    /// Returns the parts since the last cut for the thread that was blocked most. The next window starts at `until`.
    pub fn cut(&mut self, until: i64) -> Parts {
        self.fold(until);
        let busiest = self.threads.iter().max_by_key(|thread| thread.blocked_ns);
        let (exposed, other) = busiest.map_or((0, 0), |thread| (thread.exposed_ns, thread.other_ns));
        let window = self.window_ns;
        let parts = Parts {
            window_ns: window,
            host_ns: window - exposed - other,
            exposed_ns: exposed,
            other_blocked_ns: other,
            communication_ns: self.communication_ns,
            queued_ns: self.queued_ns,
        };
        self.named_ns = busiest.map_or_else(
            // No thread was ever blocked, so all named time counts.
            || self.named_alone,
            |thread| thread.named_ns,
        );
        for thread in &mut self.threads {
            thread.exposed_ns = 0;
            thread.other_ns = 0;
            thread.named_ns = [0; COUNT];
        }
        self.named_alone = [0; COUNT];
        self.window_ns = 0;
        self.communication_ns = 0;
        self.queued_ns = 0;
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_parts_of_a_small_window_equal_a_count_by_hand() {
        let mut breakdown = Breakdown::default();
        breakdown.start(0);
        breakdown.communicated(10, 30);
        breakdown.communicated(20, 40);
        breakdown.blocked(0, 35, 50);
        breakdown.queued(5, 10);
        let parts = breakdown.cut(100);
        assert_eq!(
            parts,
            Parts {
                window_ns: 100,
                host_ns: 85,
                exposed_ns: 5,
                other_blocked_ns: 10,
                communication_ns: 30,
                queued_ns: 5
            }
        );
    }

    #[test]
    fn named_times_are_parts_of_own_time_and_do_not_overlap() {
        let mut breakdown = Breakdown::default();
        breakdown.start(0);
        breakdown.communicated(60, 70);
        breakdown.blocked(0, 60, 70);
        // Input inside an evaluation that is partly blocked, and input outside of any.
        breakdown.named(2, 40, 80);
        breakdown.named(3, 45, 50);
        breakdown.named(3, 10, 20);
        breakdown.fold(47);
        let parts = breakdown.cut(100);
        assert_eq!(breakdown.named_ns, [0, 0, 30, 10, 0, 0]);
        assert!(breakdown.named_ns.iter().sum::<i64>() <= parts.host_ns);
        breakdown.named(3, 90, 120);
        breakdown.cut(130);
        assert_eq!(
            breakdown.named_ns,
            [0, 0, 0, 20, 0, 0],
            "intervals before the cut are final"
        );
    }

    proptest! {
        /// Folding at any time gives the same sums as counting every nanosecond.
        #[test]
        fn any_folding_adds_up_to_the_brute_force_count(
            communication in proptest::collection::vec((0i64..200, 0i64..40), 0..20),
            blocked in proptest::collection::vec((0i64..200, 0i64..40), 0..20),
            folds in proptest::collection::vec(0i64..300, 0..6),
        ) {
            let end = 300;
            let mut breakdown = Breakdown::default();
            breakdown.start(0);
            let inside = |list: &[(i64, i64)], t: i64| list.iter().any(|&(start, length)| start <= t && t < start + length);
            for &(start, length) in &communication { breakdown.communicated(start, start + length); }
            for &(start, length) in &blocked { breakdown.blocked(3, start, start + length); }
            for fold in folds { breakdown.fold(fold); }
            let parts = breakdown.cut(end);
            let count = |want: &dyn Fn(i64) -> bool| (0..end).filter(|&t| want(t)).count() as i64;
            prop_assert!(parts.adds_up());
            prop_assert_eq!(parts.communication_ns, count(&|t| inside(&communication, t)));
            prop_assert_eq!(parts.exposed_ns, count(&|t| inside(&communication, t) && inside(&blocked, t)));
            prop_assert_eq!(parts.other_blocked_ns, count(&|t| !inside(&communication, t) && inside(&blocked, t)));
            prop_assert_eq!(parts.host_ns, count(&|t| !inside(&blocked, t)));
        }
    }
}
