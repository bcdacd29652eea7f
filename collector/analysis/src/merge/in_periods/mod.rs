//! Merges a long run in periods of the same length. Each period is a session of its own, which is written once.
//!
//! A merge of a run that has grown reads only the periods that are not final. A period is final when nothing can be added to it: all
//! logs were recorded beyond its end, or their processes ended.
//!
//! | file | content |
//! |---|---|
//! | [`crate::merge::period`] | merges one period |
//! | [`crate::merge::carried_file`] | numbers of the logs at the end of a period, for the next one |
//! | [`run`] | the run: its list of periods, where they are cut, and which are final |
//! | [`elsewhere`] | has other processes merge periods, in units ([`crate::merge::units`]) |
//! | [`index_file`] | where a later merge begins to read the logs |

pub mod elsewhere;
pub mod index_file;
pub mod run;

use crate::merge::carried_file::CARRIED_FILE;
use crate::merge::error::MergeError;
use crate::merge::in_periods::elsewhere::merge_elsewhere;
use crate::merge::in_periods::run::Run;
use crate::merge::options::MergeOptions;
use crate::merge::progress::Progress;
use crate::merge::unit_runner::UnitRunner;
use jiff::Timestamp;
use rankscope_formats::session::{CUT_FILE, Periods};
use std::sync::Arc;

/// Files of a final period that later merges read. They need no others of its directory.
pub const NEEDED_LATER: [&str; 2] = [CUT_FILE, CARRIED_FILE];

/// How a run is merged in periods.
#[derive(Clone, Debug)]
pub struct PeriodOptions {
    /// Length of a period, in nanoseconds.
    pub length_ns: i64,
    /// Time of the merge, in nanoseconds since 1970: logs that were silent for long by then count as ended.
    pub now_unix_ns: i64,
    /// If the logs are copies, the time of the newest copy, in nanoseconds since 1970. Other copies may be older than their logs, by up
    /// to a period.
    pub copied_unix_ns: Option<i64>,
    /// True if no process of the job records any more.
    pub has_ended: bool,
    /// Merges periods in other processes, at the same time.
    pub runner: Option<Arc<dyn UnitRunner>>,
}

impl PeriodOptions {
    /// Returns the options of a merge now, in this process.
    pub fn new(length_ns: i64) -> Self {
        Self {
            length_ns,
            now_unix_ns: i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX),
            copied_unix_ns: None,
            has_ended: false,
            runner: None,
        }
    }
}

/// Progress of a merge in periods.
#[derive(Clone, Copy, Debug)]
pub struct PeriodProgress {
    /// Number of periods that are complete.
    pub done: usize,
    /// Number of periods to merge.
    pub all: usize,
    /// Progress in the current period, or of all periods if other processes merge them.
    pub current: Progress,
}

/// Merges the periods of a run that are missing or not final into the session directory `options.output`.
///
/// # Errors
/// As [`crate::merge()`]; and the directory has a session of the whole run, or periods of another length.
pub fn merge_in_periods(
    options: &MergeOptions,
    periods: &PeriodOptions,
    progress: &mut dyn FnMut(PeriodProgress),
) -> Result<Periods, MergeError> {
    progress(PeriodProgress {
        done: 0,
        all: 0,
        current: Progress::of_phase("opening logs", 0),
    });
    let (mut run, mut logs) = Run::open(options, periods)?;
    let mut numbers = run.missing(&logs)?;
    let all = numbers.len();
    if let Some(runner) = &periods.runner {
        let mut of_all = |done, current| progress(PeriodProgress { done, all, current });
        numbers = merge_elsewhere(&mut run, runner.as_ref(), &numbers, &logs, &mut of_all)?;
    }
    let before = all - numbers.len();
    for (done, number) in numbers.into_iter().enumerate() {
        let done = before + done;
        run.merge(number, &mut logs, &mut |current| {
            progress(PeriodProgress { done, all, current });
        })?;
    }
    run.write_indexes(&logs)?;
    Ok(run.list)
}
