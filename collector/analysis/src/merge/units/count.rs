//! Units that count: messages and graph replays of some logs, up to the points from which periods are read.

use crate::clocks::clock::Line;
use crate::ingest::between::LogId;
use crate::merge::units::error::UnitError;
use crate::merge::units::log_input::LogInput;
use crate::model::log_communicator::LogCommunicator;
use crate::rank::anchors::Anchors;
use crate::rank::{Carried, CarryPoint, RankBatch, RankReader};
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The logs.
#[derive(Debug, Serialize, Deserialize)]
pub struct CountInput {
    /// Logs, in the order in which they are read.
    pub logs: Vec<CountLog>,
}

/// A log that is read up to its last point.
#[derive(Debug, Serialize, Deserialize)]
pub struct CountLog {
    /// The log.
    pub log: LogInput,
    /// Conversion of its ticks.
    pub line: Line,
    /// Its communicators: index in the session, and member number.
    pub communicators: BTreeMap<LogCommunicator, (CommunicatorId, MemberIndex)>,
    /// Tick from which it is read; `None` for its start.
    pub begin: Option<u64>,
    /// Numbers at this tick.
    pub carried: Option<Arc<Carried>>,
    /// The points, in order of their ticks.
    pub points: Vec<CarryPoint>,
}

impl CountInput {
    /// Reads the logs. Returns the numbers of each at its points.
    pub(super) fn run(self, allows: &dyn Fn(&Path) -> bool) -> Result<Vec<(LogId, Vec<Carried>)>, UnitError> {
        self.logs.into_iter().map(|log| log.run(allows)).collect()
    }
}

impl CountLog {
    fn run(self, allows: &dyn Fn(&Path) -> bool) -> Result<(LogId, Vec<Carried>), UnitError> {
        let mut log = self.log.open(allows)?;
        if let Some(begin) = self.begin {
            log.begin_at(begin);
        }
        if let Some(last) = self.points.last() {
            log.end_at(last.ticks);
        }
        let reader = RankReader::new(
            RankIndex(0),
            &log,
            self.line,
            &self.communicators,
            Anchors::default(),
        );
        let mut reader = reader.without_works().carrying(self.points);
        if let Some(carried) = &self.carried {
            reader = reader.resuming(carried);
        }
        let mut batch = RankBatch::default();
        while reader.advance(&mut batch) {}
        Ok((LogId::of(&log), reader.carried().to_vec()))
    }
}
