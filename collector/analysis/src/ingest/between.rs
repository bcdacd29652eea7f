//! Selects the part of a run between two times. Parts that follow each other share no operation.
//!
//! A run is cut at the same ticks of a log in both parts. Clocks that are aligned anew for each part therefore move no
//! operation from one part to another. An instance belongs to the part in which its first member was requested.

use crate::clocks::clock::Clocks;
use crate::ingest::run_part::lead_ns;
use crate::rank::Carried;
use rankscope_ranklog::reader::RankLog;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Time after the end of a part that is also read, in nanoseconds. In it, operations complete that were requested in the part,
/// and device work is delivered.
pub const AFTER_NS: i64 = 10_000_000_000;

/// Time by which reading starts earlier than needed, in nanoseconds: clocks are aligned anew for each part.
const SLACK_NS: i64 = 1_000_000_000;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunCut {
    /// The time, in nanoseconds since 1970.
    pub unix_ns: i64,
    /// Ticks at which logs were cut when the earlier part was merged.
    pub of_logs: BTreeMap<LogId, u64>,
}

impl RunCut {
    /// Cuts the logs that are not cut yet.
    #[must_use]
    pub fn of(mut self, logs: &[RankLog], clocks: &Clocks) -> Self {
        for (index, log) in logs.iter().enumerate() {
            let ticks = self.ticks(index, log, clocks);
            self.of_logs.insert(LogId::of(log), ticks);
        }
        self
    }

    /// Returns the tick from which a log is read after the cut.
    pub fn reads_from(&self, index: usize, log: &RankLog, clocks: &Clocks) -> u64 {
        let line = clocks.line(index);
        let ns = line.ns(self.ticks(index, log, clocks));
        line.ticks(ns.saturating_sub(lead_ns(log)).saturating_sub(SLACK_NS))
    }

    /// Returns the tick at which a log is cut.
    fn ticks(&self, index: usize, log: &RankLog, clocks: &Clocks) -> u64 {
        let known = self.of_logs.get(&LogId::of(log)).copied();
        known.unwrap_or_else(|| {
            let ns = self.unix_ns.saturating_sub(clocks.axis.origin_unix_ns);
            clocks.line(index).ticks(ns)
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

/// How one log is cut, in its own ticks.
#[derive(Clone, Debug)]
pub struct LogCut {
    /// Start of the part; `None` if the log begins in the part.
    pub from: Option<u64>,
    /// End of the part.
    pub until: u64,
    /// Tick at which the reader of the next part begins.
    pub carries_at: u64,
    /// Numbers at the tick at which the log is read from.
    pub carried: Option<Arc<Carried>>,
}

impl Between<'_> {
    /// Returns true if the process of a log recorded in this part. `clocks` are those of all logs of the run.
    pub fn has(&self, index: usize, log: &RankLog, clocks: &Clocks) -> bool {
        let (from, until) = self.ticks(index, log, clocks);
        let begins = log.calibrations.first();
        begins.is_none_or(|begins| begins.ticks < until) && log.records_after(from)
    }

    /// Restricts the logs to this part, and returns the ticks at which each is cut. A log that begins in this part is not cut at
    /// its start.
    pub fn restrict(&self, logs: &mut [RankLog], clocks: &Clocks) -> Vec<LogCut> {
        let mut cuts = Vec::with_capacity(logs.len());
        for (index, log) in logs.iter_mut().enumerate() {
            let line = clocks.line(index);
            let (from, until) = self.ticks(index, log, clocks);
            let begins = log.calibrations.first();
            let from = begins.is_none_or(|begins| begins.ticks < from).then_some(from);
            let before = |ticks: u64| line.ticks(line.ns(ticks).saturating_sub(lead_ns(log)));
            let carries_at = before(until);
            let carried = self
                .carried
                .get(&LogId::of(log))
                .filter(|_| from.is_some())
                .cloned();
            let begin = from.map(|from| {
                carried
                    .as_ref()
                    .map_or_else(|| before(from), |carried| carried.ticks)
            });
            log.read_whole();
            if let Some(begin) = begin {
                log.begin_at(begin);
            }
            log.end_at(line.ticks(line.ns(until).saturating_add(AFTER_NS)));
            cuts.push(LogCut {
                from,
                until,
                carries_at,
                carried,
            });
        }
        cuts
    }

    /// Returns true if nothing can be added to the log that this part reads.
    pub fn is_recorded(&self, index: usize, log: &RankLog, clocks: &Clocks) -> bool {
        let line = clocks.line(index);
        let until_ns = line.ns(self.ticks(index, log, clocks).1).saturating_add(AFTER_NS);
        log.is_whole_until(line.ticks(until_ns))
    }

    fn ticks(&self, index: usize, log: &RankLog, clocks: &Clocks) -> (u64, u64) {
        let ticks = |cut: &RunCut| cut.ticks(index, log, clocks);
        (ticks(self.from), ticks(self.until))
    }
}
