//! The part of a run that is merged, on the axis of the session.

use crate::clocks::clock::Clocks;
use crate::ingest::between::{Between, LogPart};
use crate::ingest::part::{Begin, Last};
use crate::model::part_window::PartWindow;
use crate::model::sources::{CUPTI, EVENTS, PLUGIN};
use crate::rank::RankReader;
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
    Both(Vec<LogPart>),
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
    pub fn on_axis(&self, extent: Extent<'_>, clocks: &Clocks, logs: usize) -> RunPart {
        match self {
            Self::Begin(begin) => {
                let window = PartWindow {
                    from_ns: begin.from_ns(clocks),
                    ..PartWindow::WHOLE
                };
                RunPart {
                    window,
                    windows: vec![window; logs],
                    parts: Vec::new(),
                }
            }
            Self::Both(cuts) => {
                let window = |(log, cut): (usize, &LogPart)| {
                    let line = clocks.line(log);
                    PartWindow {
                        from_ns: cut.from.map_or(i64::MIN, |from| line.ns(from)),
                        until_ns: line.ns(cut.until),
                    }
                };
                RunPart {
                    window: nominal(extent, cuts, clocks),
                    windows: cuts.iter().enumerate().map(window).collect(),
                    parts: cuts.clone(),
                }
            }
        }
    }
}

/// The part of a run that is merged.
#[derive(Clone, Debug)]
pub struct RunPart {
    /// The part of the run. It decides about what is not in a log.
    window: PartWindow,
    /// Window of each log. They differ by the errors of the clocks.
    windows: Vec<PartWindow>,
    /// What is read of each log; empty if logs are cut at their start only.
    parts: Vec<LogPart>,
}

impl RunPart {
    /// Restricts a reader of a log to the part.
    pub fn restrict<'a>(&self, reader: RankReader<'a>, log: usize) -> RankReader<'a> {
        let window = self.windows.get(log).copied().unwrap_or(PartWindow::WHOLE);
        let reader = reader.within(window);
        let Some(part) = self.parts.get(log) else {
            return reader;
        };
        let reader = reader.carrying(vec![part.next]);
        match &part.carried {
            Some(carried) => reader.resuming(carried),
            None => reader,
        }
    }

    /// Returns the part of the run.
    pub fn window(&self) -> PartWindow {
        self.window
    }
}

/// Returns the part between two times. It has no start if no log began before it.
fn nominal(extent: Extent<'_>, cuts: &[LogPart], clocks: &Clocks) -> PartWindow {
    let Extent::Between(between) = extent else {
        return PartWindow::WHOLE;
    };
    let on_axis = |unix_ns: i64| unix_ns.saturating_sub(clocks.axis.origin_unix_ns);
    let has_start = cuts.iter().any(|cut| cut.from.is_some());
    PartWindow {
        from_ns: if has_start {
            on_axis(between.from.unix_ns)
        } else {
            i64::MIN
        },
        until_ns: on_axis(between.until.unix_ns),
    }
}

/// Returns the time by which reading of a log must start before a part, in nanoseconds: calls precede the device work that they
/// launch.
pub fn lead_ns(log: &RankLog) -> i64 {
    let sources = [CUPTI, PLUGIN, EVENTS];
    let has_devices = sources.iter().any(|&source| log.properties.contains_key(source));
    if has_devices { LEAD_NS } else { 0 }
}
