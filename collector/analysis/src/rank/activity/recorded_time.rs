//! The time for which the log declares that activity was recorded, and the recorder's own time in it.

use super::recorder_time::RecorderTime;
use super::sums::RecordedSums;
use crate::intervals::extend;
use crate::model::interval::Interval;
use crate::model::part_window::PartWindow;
use rankscope_ranklog::activity::Coverage;
use std::collections::VecDeque;

/// The recorded time of one rank.
pub struct RecordedTime {
    /// The part of the run that is reported.
    window: PartWindow,
    /// Time until which the log has declared whether activity was recorded, in nanoseconds.
    declared_until_ns: i64,
    /// Intervals in which all activity was recorded, ordered and merged.
    covered: VecDeque<Interval>,
    /// Time that the recorder used for itself.
    recorder: RecorderTime,
    /// Sums so far.
    pub sums: RecordedSums,
}

impl RecordedTime {
    /// Creates the recorded time of a part of a run. `is_declared` shows whether the log declares any.
    pub fn new(window: PartWindow, is_declared: bool) -> Self {
        Self {
            window,
            declared_until_ns: if is_declared { i64::MIN } else { i64::MAX },
            covered: VecDeque::new(),
            recorder: RecorderTime::default(),
            sums: RecordedSums::default(),
        }
    }

    /// Adds a declaration of the log about an interval.
    pub fn declare(&mut self, start_ns: i64, end_ns: i64, coverage: Coverage) {
        // A disabled recorder stays disabled until the next declaration.
        self.declared_until_ns = if coverage == Coverage::Off {
            i64::MAX
        } else {
            end_ns
        };
        let start_ns = start_ns.max(self.window.from_ns);
        if end_ns < start_ns {
            return;
        }
        let in_part = self.window.clip(Interval { start_ns, end_ns });
        let sums = &mut self.sums;
        let sum = match coverage {
            Coverage::All => &mut sums.covered_ns,
            Coverage::Communication => &mut sums.covered_communication_ns,
            Coverage::Yielded => &mut sums.yielded_ns,
            Coverage::Off => return,
        };
        *sum = sum.saturating_add(in_part.duration_ns());
        if matches!(coverage, Coverage::All | Coverage::Communication) {
            sums.delivered_until_ns = Some(in_part.end_ns);
        }
        if coverage == Coverage::All {
            // Operations that begin in the part may end after it.
            let recorded = Interval { start_ns, end_ns };
            self.recorder.recorded(in_part);
            extend(&mut self.covered, recorded);
        }
    }

    /// Returns the time until which it is declared whether activity was recorded, in nanoseconds.
    pub fn declared_until_ns(&self) -> i64 {
        self.declared_until_ns
    }

    /// Adds an interval that the recorder used for itself.
    pub fn took(&mut self, start_ns: i64, end_ns: i64) {
        let in_part = self.window.clip(Interval { start_ns, end_ns });
        self.recorder.took(in_part.start_ns, in_part.end_ns);
    }

    /// Counts the recorder's own time before `until_ns`.
    pub fn count_recorder(&mut self, until_ns: i64) {
        self.recorder.count(until_ns);
        self.sums.recorder_ns = self.recorder.total_ns();
    }

    /// Returns true if all activity in an interval was recorded.
    pub fn is_covered(&self, interval: Interval) -> bool {
        let last = self
            .covered
            .partition_point(|covered| covered.start_ns <= interval.start_ns);
        last > 0 && self.covered[last - 1].end_ns >= interval.end_ns
    }

    /// Forgets intervals before a time.
    pub fn forget_before(&mut self, ns: i64) {
        while self.covered.len() > 1 && self.covered.front().is_some_and(|covered| covered.end_ns < ns) {
            self.covered.pop_front();
        }
    }
}
