//! The part of a run that is merged, on the axis of the session.

use crate::clocks::clock::Clocks;
use crate::ingest::between::Between;
use crate::ingest::part::{Begin, Last};
use crate::model::part_window::PartWindow;
use crate::model::sources::{CUPTI, EVENTS, PLUGIN};
use rankscope_ranklog::reader::RankLog;

/// Lead for logs with device activity, in nanoseconds. Device work may run long after its launch, so reading starts
/// earlier.
const LEAD_NS: i64 = 1_000_000_000;

/// Which part of a run is merged.
#[derive(Clone, Copy, Debug)]
pub enum Extent<'a> {
    /// Its last part; by default the whole run.
    Last(Last),
    /// The part between two times.
    Between(Between<'a>),
}

/// How the logs are cut, in their own ticks. The axis may still change.
pub enum LogCuts {
    /// At their start only.
    Begin(Begin),
    /// At their start, if they began before the part, and at their end.
    Both(Vec<(Option<u64>, u64)>),
}

impl LogCuts {
    /// Restricts the logs to the part. Returns `None` if it is the whole run.
    pub fn restrict(extent: Extent<'_>, logs: &mut [RankLog], clocks: &Clocks) -> Option<Self> {
        match extent {
            Extent::Last(last) => Begin::choose(logs, clocks, last).map(Self::Begin),
            Extent::Between(between) => Some(Self::Both(between.restrict(logs, clocks))),
        }
    }

    /// Returns the part on the axis.
    pub fn on_axis(&self, clocks: &Clocks, logs: usize) -> RunPart {
        match self {
            Self::Begin(begin) => {
                let window = PartWindow {
                    from_ns: begin.from_ns(clocks),
                    ..PartWindow::WHOLE
                };
                RunPart {
                    windows: vec![window; logs],
                }
            }
            Self::Both(cuts) => {
                let window = |(log, &(from, until)): (usize, &(Option<u64>, u64))| {
                    let line = clocks.line(log);
                    PartWindow {
                        from_ns: from.map_or(i64::MIN, |from| line.ns(from)),
                        until_ns: line.ns(until),
                    }
                };
                RunPart {
                    windows: cuts.iter().enumerate().map(window).collect(),
                }
            }
        }
    }
}

/// The part of a run that is merged.
#[derive(Clone, Debug)]
pub struct RunPart {
    /// Window of each log. They differ by the errors of the clocks.
    windows: Vec<PartWindow>,
}

impl RunPart {
    /// Returns the window of a log.
    pub fn window(&self, log: usize) -> PartWindow {
        self.windows.get(log).copied().unwrap_or(PartWindow::WHOLE)
    }

    /// Returns the times that are in the windows of all logs.
    pub fn common(&self) -> PartWindow {
        let windows = || self.windows.iter();
        PartWindow {
            from_ns: windows().map(|window| window.from_ns).max().unwrap_or(i64::MIN),
            until_ns: windows().map(|window| window.until_ns).min().unwrap_or(i64::MAX),
        }
    }
}

/// Returns the time by which reading of a log must start before a part, in nanoseconds: calls precede the device work that they
/// launch.
pub fn lead_ns(log: &RankLog) -> i64 {
    let sources = [CUPTI, PLUGIN, EVENTS];
    let has_devices = sources.iter().any(|&source| log.properties.contains_key(source));
    if has_devices { LEAD_NS } else { 0 }
}
