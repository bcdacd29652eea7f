//! What the log of a rank says about its process.

use crate::process::{ProcessFacts, is_of_this_boot};
use crate::view::LogState;
use rankscope_formats::status::ProcessState;
use rankscope_ranklog::reader::{Ending, RankLog};
use std::time::{Duration, SystemTime};

/// Maximum time between two writes of a process that lives: it writes a calibration at least every ten seconds.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);

/// Returns how a log is connected with its process.
pub fn log_state(log: &RankLog) -> LogState {
    match log.ending {
        Ending::Closed if !log.was_collected => LogState::Closed,
        Ending::Running => LogState::Open,
        Ending::Closed | Ending::LiveArea => LogState::Broken,
        Ending::Torn if is_of_this_boot(log) => LogState::Broken,
        // Of another machine: its live area is there.
        Ending::Torn if was_written_lately(log) => LogState::Open,
        Ending::Torn => LogState::Broken,
    }
}

/// Returns the facts of the process of a log.
pub fn facts(log: &RankLog) -> ProcessFacts {
    match log_state(log) {
        LogState::Closed => ProcessFacts::of_state(ProcessState::Gone),
        LogState::Broken if is_of_this_boot(log) || log.ending != Ending::Torn => {
            ProcessFacts::of_state(ProcessState::Gone)
        }
        LogState::Broken => ProcessFacts::of_state(ProcessState::Unknown),
        LogState::Open if is_of_this_boot(log) => ProcessFacts::read(log),
        LogState::Open => ProcessFacts::of_state(ProcessState::Remote),
    }
}

fn was_written_lately(log: &RankLog) -> bool {
    let written = log.path.metadata().and_then(|meta| meta.modified());
    written.is_ok_and(|at| {
        SystemTime::now()
            .duration_since(at)
            .is_ok_and(|since| since < LONGEST_SILENCE)
            || at > SystemTime::now()
    })
}
