//! Parts of the devices' time, and the compute that hides communication.

use super::sums::DevicePartSums;
use super::work::DeviceWork;
use crate::intervals::device_overlap::{DeviceBreakdown, DeviceParts};
use crate::intervals::extend;
use crate::model::interval::Interval;
use crate::model::part_window::PartWindow;
use rankscope_formats::session::WorkClass;
use std::collections::VecDeque;

/// The time of one rank's devices.
pub struct DeviceTime {
    /// The part of the run that is reported.
    window: PartWindow,
    breakdown: DeviceBreakdown,
    /// Recent compute as an ordered union. It shows which part of an operation is exposed.
    compute: VecDeque<Interval>,
    /// End of the last work, in nanoseconds; `None` before the first.
    last_end_ns: Option<i64>,
    /// Sums so far.
    pub sums: DevicePartSums,
}

impl DeviceTime {
    /// Creates the time of a part of a run.
    pub fn new(window: PartWindow) -> Self {
        Self {
            window,
            breakdown: DeviceBreakdown::default(),
            compute: VecDeque::new(),
            last_end_ns: None,
            sums: DevicePartSums {
                adds_up: true,
                ..DevicePartSums::default()
            },
        }
    }

    /// Adds device work, in order of its start.
    pub fn ran(&mut self, work: &DeviceWork, class: WorkClass) {
        let (start_ns, end_ns) = (work.start_ns, work.end_ns);
        self.breakdown.start(start_ns.max(self.window.from_ns));
        self.breakdown.ran(class, start_ns, end_ns);
        if class == WorkClass::Compute {
            extend(&mut self.compute, Interval { start_ns, end_ns });
        }
        self.last_end_ns = self.last_end_ns.max(Some(end_ns));
    }

    /// Returns the end of the last work, in nanoseconds, if there was any.
    pub fn last_end_ns(&self) -> Option<i64> {
        self.last_end_ns
    }

    /// Returns the pieces of an interval that compute does not hide, in order.
    pub fn exposed(&self, interval: Interval) -> Vec<Interval> {
        let Interval { start_ns, end_ns } = interval;
        let first = self.compute.partition_point(|compute| compute.end_ns <= start_ns);
        let mut at = start_ns;
        let mut pieces = Vec::new();
        for compute in self.compute.range(first..) {
            if compute.start_ns >= end_ns {
                break;
            }
            if compute.start_ns > at {
                pieces.push(Interval::new(at, compute.start_ns));
            }
            at = at.max(compute.end_ns);
        }
        if at < end_ns {
            pieces.push(Interval::new(at, end_ns));
        }
        pieces
    }

    /// Returns the parts since the last cut. The next window starts at `until_ns`.
    pub fn cut(&mut self, until_ns: i64) -> DeviceParts {
        let parts = self.breakdown.cut(until_ns);
        self.sums.adds_up &= parts.adds_up();
        parts
    }

    /// Folds the intervals before a time, if there are many.
    pub fn fold(&mut self, until_ns: i64) {
        if self.breakdown.is_full() {
            self.breakdown.fold(until_ns);
        }
    }

    /// Forgets compute before a time.
    pub fn forget_before(&mut self, ns: i64) {
        while self.compute.front().is_some_and(|compute| compute.end_ns < ns) && self.compute.len() > 1 {
            self.compute.pop_front();
        }
    }
}
