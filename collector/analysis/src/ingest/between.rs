//! Selects the part of a run between two times. Parts that follow each other share no operation.
//!
//! A run is cut at the same ticks of a log in both parts. Clocks that are aligned anew for each part therefore move no
//! operation from one part to another. An instance belongs to the part in which its first member was requested.

use crate::clocks::clock::Clocks;
use crate::ingest::run_part::lead_ns;
use crate::rank::{Carried, CarryPoint};
use rankscope_ranklog::reader::RankLog;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Time after the end of a part that is also read, in nanoseconds. In it, operations complete that were requested in the part,
/// and device work is delivered.
pub const AFTER_NS: i64 = 10_000_000_000;

/// Identity of a log: the nonce of its process, and its process ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogId {
    /// Random number of the process.
    pub nonce: u64,
    /// Process ID.
    pub pid: u32,
}

impl LogId {
    /// Returns the identity of a log.
    pub const fn of(log: &RankLog) -> Self {
        Self {
            nonce: log.nonce,
            pid: log.pid,
        }
    }
}

/// Time at which a run is cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCut {
    /// The time, in nanoseconds since 1970.
    pub unix_ns: i64,
    /// Cuts of logs. Those of an earlier merge stay.
    pub of_logs: BTreeMap<LogId, LogCut>,
}

/// Where a log is cut, in its own ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCut {
    /// Tick of the cut.
    pub ticks: u64,
    /// Tick from which the part after the cut is read.
    pub begin_ticks: u64,
    /// Last tick that the log has.
    pub last_ticks: u64,
    /// Messages that were posted before this tick are not awaited after the cut: they completed too late for the part of their
    /// post.
    pub open_ticks: u64,
}

impl RunCut {
    /// Cuts the logs that are not cut yet, none before an earlier cut. `clocks` are those of all logs of the run.
    #[must_use]
    pub fn of(mut self, earlier: Option<&Self>, logs: &[RankLog], clocks: &Clocks) -> Self {
        for (index, log) in logs.iter().enumerate() {
            let id = LogId::of(log);
            let mut cut = self.of_log(index, log, clocks);
            let line = clocks.line(index);
            cut.last_ticks = log.last_ticks();
            cut.open_ticks = line.ticks(line.ns(cut.begin_ticks).saturating_sub(AFTER_NS));
            // Clocks that were stepped between two merges may move a time backwards.
            if let Some(earlier) = earlier.and_then(|earlier| earlier.of_logs.get(&id)) {
                cut.ticks = cut.ticks.max(earlier.ticks);
                cut.begin_ticks = cut.begin_ticks.max(earlier.begin_ticks);
            }
            self.of_logs.insert(id, cut);
        }
        self
    }

    /// Returns the cut of a log.
    fn of_log(&self, index: usize, log: &RankLog, clocks: &Clocks) -> LogCut {
        let known = self.of_logs.get(&LogId::of(log)).copied();
        known.unwrap_or_else(|| {
            let line = clocks.line(index);
            let ns = self.unix_ns.saturating_sub(clocks.axis.origin_unix_ns);
            LogCut {
                ticks: line.ticks(ns),
                begin_ticks: line.ticks(ns.saturating_sub(lead_ns(log))),
                last_ticks: 0,
                open_ticks: 0,
            }
        })
    }
}

/// The part of a run between two cuts.
#[derive(Clone, Copy, Debug)]
pub struct Between<'a> {
    /// Its start.
    pub from: &'a RunCut,
    /// Its end.
    pub until: &'a RunCut,
    /// Zero of the run's axis, in nanoseconds since 1970.
    pub origin_unix_ns: i64,
    /// Numbers of the logs at the start of the part.
    pub carried: &'a BTreeMap<LogId, Arc<Carried>>,
}

/// What is read of one log.
#[derive(Clone, Debug)]
pub struct LogPart {
    /// Start of the part, in ticks; `None` if the log begins in the part.
    pub from: Option<u64>,
    /// End of the part, in ticks.
    pub until: u64,
    /// Where the next part is read from.
    pub next: CarryPoint,
    /// Numbers at the tick from which the log is read.
    pub carried: Option<Arc<Carried>>,
}

impl Between<'_> {
    /// Returns true if the process of a log recorded in this part, or began soon after it: instances of the part may have its
    /// calls. `clocks` are those of all logs of the run.
    pub fn has(&self, index: usize, log: &RankLog, clocks: &Clocks) -> bool {
        let (from, until) = self.cuts(index, log, clocks);
        let line = clocks.line(index);
        let read_until = line.ticks(line.ns(until.ticks).saturating_add(AFTER_NS));
        let begins = log.calibrations.first();
        begins.is_none_or(|begins| begins.ticks < read_until) && log.records_after(from.ticks)
    }

    /// Restricts the logs to this part, and returns what is read of each. A log that begins in this part is not cut at its
    /// start.
    pub fn restrict(&self, logs: &mut [RankLog], clocks: &Clocks) -> Vec<LogPart> {
        let mut parts = Vec::with_capacity(logs.len());
        for (index, log) in logs.iter_mut().enumerate() {
            let line = clocks.line(index);
            let (from, until) = self.cuts(index, log, clocks);
            let begins = log.calibrations.first();
            let from = Some(from).filter(|from| begins.is_none_or(|begins| begins.ticks < from.ticks));
            log.read_whole();
            if let Some(from) = from {
                log.begin_at(from.begin_ticks);
            }
            log.end_at(line.ticks(line.ns(until.ticks).saturating_add(AFTER_NS)));
            let carried = self.carried.get(&LogId::of(log)).filter(|_| from.is_some());
            parts.push(LogPart {
                from: from.map(|from| from.ticks),
                until: until.ticks,
                next: CarryPoint {
                    ticks: until.begin_ticks,
                    open_from_ticks: until.open_ticks,
                },
                carried: carried.cloned(),
            });
        }
        parts
    }

    /// Returns true if nothing can be added to the log that this part reads.
    pub fn is_recorded(&self, index: usize, log: &RankLog, clocks: &Clocks) -> bool {
        let line = clocks.line(index);
        let until_ns = line
            .ns(self.cuts(index, log, clocks).1.ticks)
            .saturating_add(AFTER_NS);
        log.is_whole_until(line.ticks(until_ns))
    }

    fn cuts(&self, index: usize, log: &RankLog, clocks: &Clocks) -> (LogCut, LogCut) {
        let cut = |cut: &RunCut| cut.of_log(index, log, clocks);
        (cut(self.from), cut(self.until))
    }
}
