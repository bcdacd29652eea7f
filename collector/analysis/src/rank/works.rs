//! Tracks c10d's work objects from issue to execution to the wait that observes completion. They are joined by address
//! and time.

use crate::model::part_window::PartWindow;
use rankscope_ranklog::Operation;
use rustc_hash::FxHashMap;

/// Maximum number of open work objects; on overflow all are removed. A program that never waits would otherwise fill
/// the map with addresses.
const MAX_OPEN: usize = 1 << 18;

/// A work object that was issued.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Time of the issue, in nanoseconds.
    pub issue_ns: i64,
    /// Lane of the issuing thread.
    pub lane: u32,
    /// Number of its c10d operation; 0 if unknown.
    pub operation: u8,
    calls: u32,
    ran: bool,
    waited: bool,
}

/// The open work objects of one log.
pub struct Works {
    /// Only operations that were issued in it are counted.
    counted: PartWindow,
    open: FxHashMap<u64, Work>,
    /// Operations of work objects that ran and whose address was reused before any wait. DistributedDataParallel keeps
    /// only the future of a work object and waits for all futures at the end.
    gone: u64,
    /// Operations with an observed wait.
    pub waited: u64,
    /// Operations without an observed wait.
    pub unwaited: u64,
}

impl Work {
    /// Returns the operation that the program requested.
    pub fn requested(&self) -> Operation {
        Operation::from_u8(self.operation).unwrap_or(Operation::Unknown)
    }

    /// Returns the number of its library calls; 0 if it was issued outside of a part of the run.
    fn calls_in(&self, window: PartWindow) -> u64 {
        u64::from(self.calls) * u64::from(window.contains(self.issue_ns))
    }
}

impl Default for Works {
    fn default() -> Self {
        Self {
            counted: PartWindow::WHOLE,
            open: FxHashMap::default(),
            gone: 0,
            waited: 0,
            unwaited: 0,
        }
    }
}

impl Works {
    /// Restricts what is counted to operations that were issued in a part of the run.
    pub fn count_only(&mut self, window: PartWindow) {
        self.counted = window;
    }

    /// Records an issue. If the address is still open, its previous work object was freed.
    pub fn issued(&mut self, object: u64, issue_ns: i64, lane: u32, operation: u8) {
        let work = Work {
            issue_ns,
            lane,
            operation,
            calls: 0,
            ran: false,
            waited: false,
        };
        if let Some(old) = self.open.insert(object, work) {
            self.count(old);
        }
        if self.open.len() > MAX_OPEN {
            self.finish();
        }
    }

    fn count(&mut self, work: Work) {
        let counter = if work.waited {
            &mut self.waited
        } else {
            &mut self.gone
        };
        *counter += work.calls_in(self.counted);
    }

    /// Records a library call for a work object. Returns the work object if it is known and was not issued after the
    /// call.
    pub fn called(&mut self, object: u64, enter_ns: i64) -> Option<Work> {
        let work = self
            .open
            .get_mut(&object)
            .filter(|work| work.issue_ns <= enter_ns)?;
        work.calls += 1;
        Some(*work)
    }

    /// Records the end of an execution. The address may already belong to the next work object, which was issued later.
    pub fn executed(&mut self, object: u64, enter_ns: i64) {
        if let Some(work) = self
            .open
            .get_mut(&object)
            .filter(|work| work.issue_ns <= enter_ns)
        {
            work.ran = true;
            if work.waited {
                let work = *work;
                self.open.remove(&object);
                self.count(work);
            }
        }
    }

    /// Records a wait that ended at `leave_ns`: for one work object, or for all issued before if `object` is 0.
    pub fn waited(&mut self, object: u64, leave_ns: i64) {
        if object == 0 {
            let mut done = 0;
            self.open.retain(|_, work| {
                if work.issue_ns <= leave_ns {
                    work.waited = true;
                    if work.ran {
                        done += work.calls_in(self.counted);
                        return false;
                    }
                }
                true
            });
            self.waited += done + std::mem::take(&mut self.gone);
        } else if let Some(work) = self
            .open
            .get_mut(&object)
            .filter(|work| work.issue_ns <= leave_ns)
        {
            work.waited = true;
            if work.ran {
                let work = *work;
                self.open.remove(&object);
                self.count(work);
            }
        }
    }

    /// Counts the open work objects. Returns those that never ran because the log ended first.
    pub fn finish(&mut self) -> Vec<Work> {
        let mut rest: Vec<Work> = self.open.drain().map(|(_, work)| work).collect();
        rest.sort_by_key(|work| work.issue_ns);
        for work in &rest {
            self.count(*work);
        }
        self.unwaited += std::mem::take(&mut self.gone);
        rest.retain(|work| !work.ran && work.calls == 0);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reused_before_its_execution_was_recorded_joins_by_time() {
        let mut works = Works::default();
        works.issued(7, 100, 0, 1);
        assert_eq!(works.called(7, 110).map(|work| work.issue_ns), Some(100));
        works.waited(7, 150);
        works.issued(7, 160, 0, 1);
        // The worker's record of the first execution arrives after the second issue.
        works.executed(7, 105);
        assert_eq!(works.called(7, 170).map(|work| work.issue_ns), Some(160));
        works.executed(7, 165);
        assert_eq!(works.finish().len(), 0);
        assert_eq!((works.waited, works.unwaited), (1, 1));
    }

    #[test]
    fn the_reducer_also_waits_for_works_whose_address_is_reused() {
        let mut works = Works::default();
        for issue in [10, 20, 30] {
            works.issued(7, issue, 0, 0);
            works.called(7, issue + 1);
            works.executed(7, issue + 1);
        }
        works.waited(0, 40);
        works.finish();
        assert_eq!((works.waited, works.unwaited), (3, 0));
    }

    #[test]
    fn the_reducer_waits_for_everything_issued_before() {
        let mut works = Works::default();
        for object in 1..=3 {
            works.issued(object, object as i64, 0, 0);
            works.called(object, 10);
            works.executed(object, 10);
        }
        works.issued(4, 100, 0, 0);
        works.waited(0, 50);
        assert_eq!(works.waited, 3);
        assert_eq!(works.finish().len(), 1);
    }
}
