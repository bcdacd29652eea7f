//! The breakdown of a device's time (METRICS.md, section 5). It computes unions of compute (C), communication (M) and
//! memory work (Y), and the parts that add up to the window.
//!
//! It works on a stream: time before a safe point is folded into sums.
//!
//! The sixth part, exposed wait, needs the records of several ranks. Here exposed communication is one part.

use crate::intervals::{Intervals, difference, intersection, length, union};
use crate::model::interval::Interval;
use rankscope_formats::session::WorkClass;
use serde::{Deserialize, Serialize};

/// Parts of one window, in nanoseconds. The five parts add up to the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceParts {
    /// Length of the window.
    pub window_ns: i64,
    /// |C \ M|
    pub compute_only_ns: i64,
    /// |C ∩ M|
    pub overlapped_ns: i64,
    /// |M \ C|
    pub exposed_communication_ns: i64,
    /// |Y \ (C ∪ M)|
    pub exposed_memory_ns: i64,
    /// The rest of the window.
    pub idle_ns: i64,
}

impl DeviceParts {
    /// Adds the parts of another window.
    pub fn add(&mut self, other: &Self) {
        self.window_ns += other.window_ns;
        self.compute_only_ns += other.compute_only_ns;
        self.overlapped_ns += other.overlapped_ns;
        self.exposed_communication_ns += other.exposed_communication_ns;
        self.exposed_memory_ns += other.exposed_memory_ns;
        self.idle_ns += other.idle_ns;
    }

    /// Subtracts a window that was added before.
    pub fn take_out(&mut self, other: &Self) {
        self.window_ns -= other.window_ns;
        self.compute_only_ns -= other.compute_only_ns;
        self.overlapped_ns -= other.overlapped_ns;
        self.exposed_communication_ns -= other.exposed_communication_ns;
        self.exposed_memory_ns -= other.exposed_memory_ns;
        self.idle_ns -= other.idle_ns;
    }

    /// |M|
    pub fn communication_ns(&self) -> i64 {
        self.overlapped_ns + self.exposed_communication_ns
    }

    /// Returns true if the parts add up to the window and none is negative.
    pub fn adds_up(&self) -> bool {
        let parts = [
            self.compute_only_ns,
            self.overlapped_ns,
            self.exposed_communication_ns,
            self.exposed_memory_ns,
            self.idle_ns,
        ];
        parts.iter().all(|&part| part >= 0) && parts.iter().sum::<i64>() == self.window_ns
    }
}

/// Maximum number of unfolded intervals of one class. On overflow they are folded early.
const FOLD_AT: usize = 1 << 16;

/// The breakdown of one rank's devices, computed as work arrives.
#[derive(Default)]
pub struct DeviceBreakdown {
    compute: Intervals,
    communication: Intervals,
    memory: Intervals,
    folded_until: Option<i64>,
    parts: DeviceParts,
    scratch: [Vec<Interval>; 5],
}

impl DeviceBreakdown {
    /// Sets the start of the window. Later calls are ignored.
    pub fn start(&mut self, ns: i64) {
        self.folded_until.get_or_insert(ns);
    }

    /// Adds an interval of device work.
    #[inline]
    pub fn ran(&mut self, class: WorkClass, start: i64, end: i64) {
        match class {
            WorkClass::Compute => self.compute.add(start, end),
            WorkClass::Communication => self.communication.add(start, end),
            WorkClass::Memory => self.memory.add(start, end),
        }
    }

    /// Returns true if intervals should be folded at the next safe point.
    pub fn is_full(&self) -> bool {
        self.compute
            .waiting()
            .max(self.communication.waiting())
            .max(self.memory.waiting())
            > FOLD_AT
    }

    /// Folds everything before `until` into the sums.
    pub fn fold(&mut self, until: i64) {
        let Some(from) = self.folded_until.filter(|&from| from < until) else {
            return;
        };
        let [compute, communication, memory, both, exposed] = &mut self.scratch;
        self.compute.take(from, until, compute);
        self.communication.take(from, until, communication);
        self.memory.take(from, until, memory);
        union(compute, communication, both);
        difference(memory, both, exposed);
        let overlapped_ns = intersection(compute, communication);
        let exposed_memory_ns = length(exposed);
        let window_ns = until - from;
        self.parts.add(&DeviceParts {
            window_ns,
            compute_only_ns: length(compute) - overlapped_ns,
            overlapped_ns,
            exposed_communication_ns: length(communication) - overlapped_ns,
            exposed_memory_ns,
            idle_ns: window_ns - length(both) - exposed_memory_ns,
        });
        self.folded_until = Some(until);
    }

    /// Returns the parts since the last cut. The next window starts at `until`.
    pub fn cut(&mut self, until: i64) -> DeviceParts {
        self.fold(until);
        std::mem::take(&mut self.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run() -> impl Strategy<Value = Vec<(i64, i64)>> {
        proptest::collection::vec((0i64..200, 0i64..40), 0..20)
    }

    proptest! {
        /// Folding at any time gives the same sums as counting every nanosecond.
        #[test]
        fn any_folding_adds_up_to_the_brute_force_count(
            compute in run(), communication in run(), memory in run(),
            folds in proptest::collection::vec(0i64..300, 0..6),
        ) {
            let end = 300;
            let mut breakdown = DeviceBreakdown::default();
            breakdown.start(0);
            for (class, list) in [
                (WorkClass::Compute, &compute),
                (WorkClass::Communication, &communication),
                (WorkClass::Memory, &memory),
            ] {
                for &(start, length) in list {
                    breakdown.ran(class, start, start + length);
                }
            }
            for fold in folds {
                breakdown.fold(fold);
            }
            let parts = breakdown.cut(end);
            let inside = |list: &[(i64, i64)], t: i64| list.iter().any(|&(start, length)| start <= t && t < start + length);
            let count = |want: &dyn Fn(bool, bool, bool) -> bool| {
                (0..end).filter(|&t| want(inside(&compute, t), inside(&communication, t), inside(&memory, t))).count() as i64
            };
            prop_assert!(parts.adds_up());
            prop_assert_eq!(parts.compute_only_ns, count(&|c, m, _| c && !m));
            prop_assert_eq!(parts.overlapped_ns, count(&|c, m, _| c && m));
            prop_assert_eq!(parts.exposed_communication_ns, count(&|c, m, _| m && !c));
            prop_assert_eq!(parts.exposed_memory_ns, count(&|c, m, y| y && !c && !m));
            prop_assert_eq!(parts.idle_ns, count(&|c, m, y| !c && !m && !y));
        }
    }
}
