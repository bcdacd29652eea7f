//! Merges a long run in periods of the same length. Each period is a session of its own, which is written once.
//!
//! A merge of a run that has grown reads only the periods that are not final. A period is final when nothing can be added to it: all
//! logs were recorded beyond its end, or their processes ended.

use crate::clocks::clock::Clocks;
use crate::ingest::between::{AFTER_NS, Between, LogCut, LogId, RunCut};
use crate::ingest::run_part::Extent;
use crate::ingest::{Ingested, ingest_with};
use crate::merge::carried_file::{self, CarriedLogs};
use crate::merge::error::MergeError;
use crate::merge::index_file;
use crate::merge::options::MergeOptions;
use crate::merge::progress::Progress;
use crate::merge::tables::TablesFolder;
use crate::merge::{MergedLogs, merge_logs};
use crate::model::units::time;
use crate::summary::this_program;
use jiff::Timestamp;
use rankscope_formats::session::{
    PERIODS_DIRECTORY, PERIODS_VERSION, Period, PeriodCut, Periods, PeriodsError, ProblemSummary,
    SUMMARY_FILE, Session,
};
use rankscope_ranklog::reader::{Ending, RankLog};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Time after which a log without an end counts as ended, in nanoseconds, if its process is not on this machine. Recorders write a
/// watermark every few seconds.
const SILENT_NS: i64 = 120_000_000_000;

/// Progress of a merge in periods.
#[derive(Clone, Copy, Debug)]
pub struct PeriodProgress {
    /// Number of periods that are complete.
    pub done: usize,
    /// Number of periods to merge.
    pub all: usize,
    /// Progress in the current period.
    pub period: Progress,
}

/// Merges the periods of a run that are missing or not final into the session directory `options.output`. Calls `complete` after each
/// with its directory and its session.
///
/// # Errors
/// As [`crate::merge()`]; and the directory has a session of the whole run, or periods of another length.
pub fn merge_in_periods(
    options: &MergeOptions,
    length_ns: i64,
    progress: &mut dyn FnMut(PeriodProgress),
    complete: &mut dyn FnMut(&Path, &Session),
) -> Result<Periods, MergeError> {
    merge_in_periods_at(options, length_ns, unix_ns(Timestamp::now()), progress, complete)
}

/// Merges as [`merge_in_periods`] does at a time, in nanoseconds since 1970. Tests use it.
#[doc(hidden)]
pub fn merge_in_periods_at(
    options: &MergeOptions,
    length_ns: i64,
    now_unix_ns: i64,
    progress: &mut dyn FnMut(PeriodProgress),
    complete: &mut dyn FnMut(&Path, &Session),
) -> Result<Periods, MergeError> {
    let known = known_periods(options, length_ns)?;
    let indexes = match known.as_ref().and_then(last_final) {
        Some(last) => index_file::read(&options.output, last.until_unix_ns),
        None => BTreeMap::new(),
    };
    let Ingested {
        mut logs,
        problems,
        without_end,
    } = ingest_with(&options.directories, &indexes)?;
    let mut clocks = Clocks::align(&logs);
    let list = known.unwrap_or_else(|| new_list(options, length_ns, &clocks));
    clocks.move_origin(list.origin_unix_ns);
    remove_unlisted(&options.output, &list).map_err(|source| MergeError::Output {
        path: options.output.clone(),
        source,
    })?;
    let mut run = Run {
        options,
        list,
        clocks,
        problems,
        without_end,
        now_unix_ns,
    };
    run.report_late(&logs)?;
    let numbers = run.missing(&logs);
    let all = numbers.len();
    for (done, number) in numbers.into_iter().enumerate() {
        let mut of_period = |period| progress(PeriodProgress { done, all, period });
        if let Some((name, session)) = run.merge(number, &mut logs, &mut of_period)? {
            complete(&options.output.join(PERIODS_DIRECTORY).join(name), &session);
        }
    }
    run.write_indexes(&logs)?;
    Ok(run.list)
}

fn unix_ns(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

/// Returns the periods that earlier merges wrote.
fn known_periods(options: &MergeOptions, length_ns: i64) -> Result<Option<Periods>, MergeError> {
    let output = &options.output;
    if output.join(SUMMARY_FILE).exists() {
        return Err(MergeError::Periods(format!(
            "{} is a session of the whole run; name another directory for its periods, or remove it",
            output.display()
        )));
    }
    let known = Periods::read(output).map_err(unreadable)?;
    if let Some(known) = &known
        && known.length_ns != length_ns
    {
        return Err(MergeError::Periods(format!(
            "{} has periods of {}; name the same length, or another directory",
            output.display(),
            time(known.length_ns)
        )));
    }
    Ok(known)
}

fn new_list(options: &MergeOptions, length_ns: i64, clocks: &Clocks) -> Periods {
    Periods {
        version: PERIODS_VERSION,
        tool: this_program(),
        directories: options
            .directories
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        length_ns,
        origin_unix_ns: clocks.axis.origin_unix_ns,
        periods: Vec::new(),
    }
}

fn unreadable(error: PeriodsError) -> MergeError {
    MergeError::Periods(error.to_string())
}

/// A run whose periods are merged.
struct Run<'a> {
    options: &'a MergeOptions,
    list: Periods,
    /// Clocks of all logs. Each period aligns the clocks of its logs anew.
    clocks: Clocks,
    /// Problems of files.
    problems: Vec<ProblemSummary>,
    /// Logs without an end.
    without_end: Vec<ProblemSummary>,
    now_unix_ns: i64,
}

impl Run<'_> {
    /// Reports logs with records in final periods that were merged without them. Such records are in no period.
    fn report_late(&mut self, logs: &[RankLog]) -> Result<(), MergeError> {
        let Some(last) = last_final(&self.list) else {
            return Ok(());
        };
        let known = PeriodCut::read(&last.path(&self.options.output)).map_err(unreadable)?;
        let known: BTreeSet<LogId> = known
            .into_iter()
            .flat_map(|known| known.logs)
            .map(|(nonce, pid, ..)| LogId { nonce, pid })
            .collect();
        let until_ns = last.until_unix_ns.saturating_sub(self.list.origin_unix_ns);
        for (index, log) in logs.iter().enumerate() {
            let begins = log.calibrations.first();
            let is_late = begins.is_some_and(|begins| self.clocks.line(index).ns(begins.ticks) < until_ns);
            if is_late && !known.contains(&LogId::of(log)) {
                self.problems.push(ProblemSummary::of_file(
                    &log.path,
                    None,
                    format!(
                        "the log appeared after period {} was merged: its records up to then are in no period; remove {} \
                         to merge them again",
                        last.name,
                        self.options.output.display()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Returns the numbers of the periods that are not final, in order. The number of a period is its start divided by its length.
    fn missing(&self, logs: &[RankLog]) -> Vec<i64> {
        let on_axis = |log: usize, ticks: u64| self.clocks.line(log).ns(ticks);
        let begins = logs.iter().enumerate().filter_map(|(index, log)| {
            let first = log.calibrations.first()?;
            Some(on_axis(index, first.ticks))
        });
        let ends = logs.iter().enumerate().filter_map(|(index, log)| {
            let last = log.calibrations.last().map(|last| last.ticks);
            Some(on_axis(index, last.max(log.tail(0).end_ticks)?))
        });
        let (Some(begin_ns), Some(end_ns)) = (begins.min(), ends.max()) else {
            return Vec::new();
        };
        let number = |ns: i64| {
            let unix_ns = ns.saturating_add(self.list.origin_unix_ns);
            unix_ns.div_euclid(self.list.length_ns)
        };
        let is_final = |number: &i64| {
            let from_unix_ns = number * self.list.length_ns;
            let known = self
                .list
                .periods
                .iter()
                .find(|period| period.from_unix_ns == from_unix_ns);
            known.is_some_and(|period| period.is_final)
        };
        let all = number(begin_ns)..=number(end_ns);
        all.filter(|number| !is_final(number)).collect()
    }

    /// Merges a period. Returns its name and its session; `None` if nothing was recorded in it.
    fn merge(
        &mut self,
        number: i64,
        logs: &mut Vec<RankLog>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<(String, Session)>, MergeError> {
        let from = self.cut(number - 1, logs)?;
        let until = self.cut(number, logs)?;
        let before = self.directory(number - 1);
        let carried = carried_file::read(&before);
        let (carried, problem) = match carried {
            Ok(carried) => (carried, None),
            Err(error) => (CarriedLogs::new(), Some(uncounted(&before, &error))),
        };
        let between = Between {
            from: &from,
            until: &until,
            origin_unix_ns: self.list.origin_unix_ns,
            carried: &carried,
        };
        let is_final = self.is_final(&between, logs);
        let clocks = &self.clocks;
        let (mut inside, outside): (Vec<_>, Vec<_>) = std::mem::take(logs)
            .into_iter()
            .enumerate()
            .partition(|(index, log)| between.has(*index, log, clocks));
        let mut problems = self.problems_of(&between, &inside, &outside);
        problems.extend(problem);
        let mut read: Vec<RankLog> = Vec::with_capacity(inside.len());
        let indices: Vec<usize> = inside.iter().map(|(index, _)| *index).collect();
        read.extend(inside.drain(..).map(|(_, log)| log));
        let merged = if read.is_empty() {
            Ok(None)
        } else {
            self.merge_logs(&between, &mut read, (is_final, problems), progress)
                .map(Some)
        };
        // Clocks know the logs by their positions.
        let mut all: Vec<(usize, RankLog)> = indices.into_iter().zip(read).chain(outside).collect();
        all.sort_by_key(|(index, _)| *index);
        logs.extend(all.into_iter().map(|(_, log)| log));
        merged
    }

    /// Returns the problems of files that matter to a period, whose logs are `inside`. A log without an end is complete in a period
    /// before its end.
    fn problems_of(
        &self,
        between: &Between<'_>,
        inside: &[(usize, RankLog)],
        outside: &[(usize, RankLog)],
    ) -> Vec<ProblemSummary> {
        let names = |log: &RankLog| log.path.display().to_string();
        let is_recorded = |(index, log): &&(usize, RankLog)| between.is_recorded(*index, log, &self.clocks);
        let other: BTreeSet<String> = outside.iter().map(|(_, log)| names(log)).collect();
        let recorded: BTreeSet<String> = inside
            .iter()
            .filter(is_recorded)
            .map(|(_, log)| names(log))
            .collect();
        let is_of = |problem: &&ProblemSummary, files: &BTreeSet<String>| {
            problem.file.as_ref().is_some_and(|file| files.contains(file))
        };
        let files = self.problems.iter().filter(|problem| !is_of(problem, &other));
        let ends = self.without_end.iter();
        let ends = ends.filter(|problem| !is_of(problem, &other) && !is_of(problem, &recorded));
        files.chain(ends).cloned().collect()
    }

    fn merge_logs(
        &mut self,
        between: &Between<'_>,
        logs: &mut [RankLog],
        (is_final, problems): (bool, Vec<ProblemSummary>),
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(String, Session), MergeError> {
        let name = name(between.from.unix_ns);
        let output = self.options.output.join(PERIODS_DIRECTORY).join(&name);
        let written = |source: io::Error| MergeError::Output {
            path: output.clone(),
            source,
        };
        let options = MergeOptions {
            output: output.clone(),
            ..self.options.clone()
        };
        let folder = TablesFolder::of_session(&output);
        let extent = Extent::Between(*between);
        let merged = merge_logs(&folder, &options, extent, (logs, problems), progress)?;
        let MergedLogs { session, carried } = merged;
        cut_of(between.until).write(&output).map_err(written)?;
        carried_file::write(&output, &carried).map_err(written)?;
        let span = (between.from.unix_ns, between.until.unix_ns);
        let period = Period::of(&session, name.clone(), span, is_final);
        let periods = &mut self.list.periods;
        periods.retain(|known| known.from_unix_ns != period.from_unix_ns);
        periods.push(period);
        periods.sort_by_key(|period| period.from_unix_ns);
        self.list.write(&self.options.output).map_err(written)?;
        Ok((name, session))
    }

    /// Writes the indexes with which the next merge opens the logs: from the end of the last final period on.
    fn write_indexes(&self, logs: &[RankLog]) -> Result<(), MergeError> {
        let Some(last) = last_final(&self.list) else {
            return Ok(());
        };
        let number = last.from_unix_ns.div_euclid(self.list.length_ns);
        let cut = self.cut(number, logs)?;
        let indexes = logs.iter().filter_map(|log| {
            let cut = cut.of_logs.get(&LogId::of(log))?;
            Some((log.path.as_path(), log.index_from(cut.begin_ticks)))
        });
        index_file::write(&self.options.output, last.until_unix_ns, indexes).map_err(|source| {
            MergeError::Output {
                path: self.options.output.clone(),
                source,
            }
        })
    }

    /// Returns the session directory of a period.
    fn directory(&self, number: i64) -> PathBuf {
        let name = name(number * self.list.length_ns);
        self.options.output.join(PERIODS_DIRECTORY).join(name)
    }

    /// Returns the cut at the end of a period. Where an earlier merge has cut, it stays.
    fn cut(&self, number: i64, logs: &[RankLog]) -> Result<RunCut, MergeError> {
        let unix_ns = (number + 1) * self.list.length_ns;
        let known = PeriodCut::read(&self.directory(number)).map_err(unreadable)?;
        let of_logs = known.into_iter().flat_map(|known| known.logs);
        let known = RunCut {
            unix_ns,
            of_logs: of_logs
                .map(|(nonce, pid, ticks, begin_ticks)| (LogId { nonce, pid }, LogCut { ticks, begin_ticks }))
                .collect(),
        };
        Ok(known.of(logs, &self.clocks))
    }

    /// Returns true if nothing can be added to a period.
    fn is_final(&self, between: &Between<'_>, logs: &[RankLog]) -> bool {
        let earlier = self.list.periods.iter();
        let follows_final = earlier
            .filter(|period| period.from_unix_ns < between.from.unix_ns)
            .all(|period| period.is_final);
        let is_silent = between.until.unix_ns.saturating_add(AFTER_NS + SILENT_NS) < self.now_unix_ns;
        let is_over = |log: &RankLog| match log.ending {
            Ending::Closed | Ending::LiveArea => true,
            // Another machine may have its live area, and its process may still run there.
            Ending::Torn => is_silent,
            Ending::Running => false,
        };
        follows_final
            && logs
                .iter()
                .enumerate()
                .all(|(index, log)| is_over(log) || between.is_recorded(index, log, &self.clocks))
    }
}

/// Returns the problem that the numbers at the end of a period are unknown.
fn uncounted(period: &Path, error: &io::Error) -> ProblemSummary {
    let what = format!(
        "messages and graph replays of this period that are numbered from the start of the run are not matched: {error}"
    );
    ProblemSummary::of_file(period, None, what)
}

/// Returns the last period to which nothing can be added.
fn last_final(list: &Periods) -> Option<&Period> {
    list.periods.iter().rev().find(|period| period.is_final)
}

/// Returns the name of the period that starts at a time.
fn name(from_unix_ns: i64) -> String {
    let time = Timestamp::from_nanosecond(i128::from(from_unix_ns)).unwrap_or_default();
    time.strftime("%Y%m%dT%H%M%S%.fZ").to_string()
}

fn cut_of(cut: &RunCut) -> PeriodCut {
    PeriodCut {
        unix_ns: cut.unix_ns,
        logs: cut
            .of_logs
            .iter()
            .map(|(log, cut)| (log.nonce, log.pid, cut.ticks, cut.begin_ticks))
            .collect(),
    }
}

/// Removes what an interrupted merge left of a period.
fn remove_unlisted(session: &Path, list: &Periods) -> io::Result<()> {
    let directory = session.join(PERIODS_DIRECTORY);
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if !list.periods.iter().any(|period| name == *period.name) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
