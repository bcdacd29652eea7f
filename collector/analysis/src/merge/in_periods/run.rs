//! A run that is merged in periods: its list of periods, where they are cut, and which are final.

use crate::clocks::clock::Clocks;
use crate::ingest::between::{AFTER_NS, Between, LogCut, LogId, RunCut};
use crate::ingest::{Ingested, ingest_with};
use crate::merge::carried_file::{self, CarriedLogs};
use crate::merge::error::MergeError;
use crate::merge::in_periods::{PeriodOptions, index_file};
use crate::merge::options::MergeOptions;
use crate::merge::period::merge_period;
use crate::merge::progress::Progress;
use crate::merge::units::parts;
use crate::summary::this_program;
use jiff::Timestamp;
use rankscope_formats::session::{
    PERIODS_DIRECTORY, PERIODS_VERSION, Period, PeriodCut, Periods, PeriodsError, ProblemSummary,
    SUMMARY_FILE,
};
use rankscope_ranklog::log_index::LogIndex;
use rankscope_ranklog::reader::{Ending, RankLog};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Time after which a log without an end counts as ended, in nanoseconds, if its process is not on this machine. Recorders write a
/// watermark every few seconds. In the same time after all processes ended, no new attempt of the job is expected.
const SILENT_NS: i64 = 120_000_000_000;

/// Maximum number of periods of a run. Each has a directory and an entry in the list.
const MAX_PERIODS: i64 = 20_000;

/// Start of the name of a period that is being merged.
const UNFINISHED: &str = ".unfinished-";

/// Returns the periods that earlier merges wrote.
fn known_periods(options: &MergeOptions, length_ns: i64) -> Result<Option<Periods>, MergeError> {
    let output = &options.output;
    if output.join(SUMMARY_FILE).exists() {
        return Err(MergeError::Periods(format!(
            "{} is a session of the whole run; name another directory for its periods, or remove it",
            options.shown(output)
        )));
    }
    let known = Periods::read(output).map_err(unreadable)?;
    if let Some(known) = &known
        && known.length_ns != length_ns
    {
        return Err(MergeError::Periods(format!(
            "{} has periods of {}; name the same length, or another directory",
            options.shown(output),
            known.length()
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
            .map(|path| options.shown(path))
            .collect(),
        length_ns,
        origin_unix_ns: clocks.axis.origin_unix_ns,
        periods: Vec::new(),
        missed: Vec::new(),
    }
}

fn unreadable(error: PeriodsError) -> MergeError {
    MergeError::Periods(error.to_string())
}

/// A run whose periods are merged.
pub struct Run<'a> {
    /// Input and output.
    pub options: &'a MergeOptions,
    /// The periods so far.
    pub list: Periods,
    /// Clocks of all logs. Each period aligns the clocks of its logs anew.
    pub clocks: Clocks,
    /// Problems of files.
    problems: Vec<ProblemSummary>,
    /// Logs without an end.
    without_end: Vec<ProblemSummary>,
    now_unix_ns: i64,
    /// Time of the newest copy if the logs are copies.
    copied_unix_ns: Option<i64>,
}

impl<'a> Run<'a> {
    /// Opens the logs of a run. What an interrupted merge left is removed.
    ///
    /// # Errors
    /// There are no logs, or the session directory has something else.
    pub fn open(
        options: &'a MergeOptions,
        periods: &PeriodOptions,
    ) -> Result<(Self, Vec<RankLog>), MergeError> {
        let known = known_periods(options, periods.length_ns)?;
        let indexes = match known.as_ref().and_then(last_final) {
            Some(last) => index_file::read(&options.output, last.until_unix_ns),
            None => BTreeMap::new(),
        };
        let is_new = known.is_none();
        let (mut run, mut logs) = Self::with_logs(options, periods, known.clone(), &indexes)?;
        if !indexes.is_empty() && run.misses_earlier(&logs)? {
            // Their frames are not in the index.
            (run, logs) = Self::with_logs(options, periods, known, &BTreeMap::new())?;
        }
        let output = &options.output;
        let failed = |source| MergeError::Output {
            path: output.clone(),
            source,
        };
        fs::create_dir_all(output).map_err(failed)?;
        if is_new {
            if fs::read_dir(output).map_err(failed)?.next().is_some() {
                return Err(MergeError::Occupied(output.clone()));
            }
            // From now on, the directory is known as one that this program made.
            run.list.write(output).map_err(failed)?;
        }
        parts::remove_leftovers(output).map_err(failed)?;
        remove_unlisted(output, &run.list).map_err(failed)?;
        run.report_missed(&logs)?;
        Ok((run, logs))
    }

    fn with_logs(
        options: &'a MergeOptions,
        periods: &PeriodOptions,
        known: Option<Periods>,
        indexes: &BTreeMap<PathBuf, LogIndex>,
    ) -> Result<(Self, Vec<RankLog>), MergeError> {
        let Ingested {
            logs,
            problems,
            without_end,
        } = ingest_with(&options.directories, &options.copies(), indexes)?;
        let mut clocks = Clocks::align(&logs);
        let list = known.unwrap_or_else(|| new_list(options, periods.length_ns, &clocks));
        clocks.move_origin(list.origin_unix_ns);
        let run = Self {
            options,
            list,
            clocks,
            problems,
            without_end,
            now_unix_ns: if periods.has_ended {
                i64::MAX
            } else {
                periods.now_unix_ns
            },
            copied_unix_ns: periods.copied_unix_ns,
        };
        Ok((run, logs))
    }

    /// Returns true if a period before the last final one is to be merged.
    fn misses_earlier(&self, logs: &[RankLog]) -> Result<bool, MergeError> {
        let Some(last) = last_final(&self.list) else {
            return Ok(false);
        };
        let last = last.from_unix_ns.div_euclid(self.list.length_ns);
        for number in self
            .missing(logs)?
            .into_iter()
            .take_while(|&number| number < last)
        {
            let (from, until) = self.cuts(number, None, logs)?;
            let between = Between {
                from: &from,
                until: &until,
                origin_unix_ns: self.list.origin_unix_ns,
                carried: &CarriedLogs::new(),
            };
            let mut logs = logs.iter().enumerate();
            if logs.any(|(index, log)| between.has(index, log, &self.clocks)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lists logs with records in final periods that came after these were merged. Such records are in no period.
    fn report_missed(&mut self, logs: &[RankLog]) -> Result<(), MergeError> {
        let Some(last) = last_final(&self.list) else {
            return Ok(());
        };
        let (name, until_unix_ns) = (last.name.clone(), last.until_unix_ns);
        let output = self.options.shown(&self.options.output);
        let Some(known) = PeriodCut::read(&last.path(&self.options.output)).map_err(unreadable)? else {
            return Err(MergeError::Periods(format!(
                "period {name} of {output} was removed, and the next one cannot be merged without it; name another directory, or \
                 remove {output} to merge all periods again"
            )));
        };
        let known = known_cuts(known);
        if !logs.iter().any(|log| known.contains_key(&LogId::of(log))) {
            return Err(MergeError::Periods(format!(
                "{output} has periods of another run; name another directory"
            )));
        }
        let until_ns = until_unix_ns.saturating_sub(self.list.origin_unix_ns);
        let before = self.list.missed.len();
        for (index, log) in logs.iter().enumerate() {
            let begins = log.calibrations.first();
            let what = match known.get(&LogId::of(log)) {
                Some(cut) if cut.last_ticks < cut.ticks && log.last_ticks() > cut.last_ticks => "went on",
                None if begins.is_some_and(|begins| self.clocks.line(index).ns(begins.ticks) < until_ns) => {
                    "appeared"
                }
                _ => continue,
            };
            let what = format!(
                "the log {what} after period {name} was merged as final: its records up to then are in no period; remove \
                 {output} to merge all periods again"
            );
            let mut missed = ProblemSummary::of_file(&log.path, None, what);
            missed
                .file
                .iter_mut()
                .for_each(|file| self.options.name_origin(file));
            let is_listed = self.list.missed.iter().any(|listed| listed.file == missed.file);
            if !is_listed {
                self.list.missed.push(missed);
            }
        }
        if self.list.missed.len() > before {
            let output = &self.options.output;
            self.list.write(output).map_err(|source| MergeError::Output {
                path: output.clone(),
                source,
            })?;
        }
        Ok(())
    }

    /// Returns the numbers of the periods that are not final, in order. The number of a period is its start divided by its length.
    ///
    /// # Errors
    /// The run has too many periods.
    pub fn missing(&self, logs: &[RankLog]) -> Result<Vec<i64>, MergeError> {
        let on_axis = |log: usize, ticks: u64| self.clocks.line(log).ns(ticks);
        let begins = logs.iter().enumerate().filter_map(|(index, log)| {
            let first = log.calibrations.first()?;
            Some(on_axis(index, first.ticks))
        });
        let ends = logs.iter().enumerate().filter_map(|(index, log)| {
            Some(log.last_ticks())
                .filter(|&last| last > 0)
                .map(|last| on_axis(index, last))
        });
        let (Some(begin_ns), Some(end_ns)) = (begins.min(), ends.max()) else {
            return Ok(Vec::new());
        };
        let number = |ns: i64| {
            let unix_ns = ns.saturating_add(self.list.origin_unix_ns);
            unix_ns.div_euclid(self.list.length_ns)
        };
        let finals = self.list.periods.iter().filter(|period| period.is_final);
        let finals: BTreeSet<i64> = finals
            .map(|period| period.from_unix_ns.div_euclid(self.list.length_ns))
            .collect();
        let (first, last) = (number(begin_ns), number(end_ns));
        if last.saturating_sub(first) >= MAX_PERIODS {
            return Err(MergeError::Periods(format!(
                "the run has {} periods of {}, at most {MAX_PERIODS} are possible; name a greater length",
                last.saturating_sub(first).saturating_add(1),
                self.list.length()
            )));
        }
        Ok((first..=last).filter(|number| !finals.contains(number)).collect())
    }

    /// Merges a period, unless nothing was recorded in it.
    pub fn merge(
        &mut self,
        number: i64,
        logs: &mut Vec<RankLog>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), MergeError> {
        let (from, until) = self.cuts(number, None, logs)?;
        let (carried, problem) = self.carried_to(number);
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
        let outside_logs: Vec<&RankLog> = outside.iter().map(|(_, log)| log).collect();
        let inside_logs: Vec<(usize, &RankLog)> = inside.iter().map(|(index, log)| (*index, log)).collect();
        let mut problems = self.problems_of(&between, &inside_logs, &outside_logs);
        problems.extend(problem);
        let mut read: Vec<RankLog> = Vec::with_capacity(inside.len());
        let indices: Vec<usize> = inside.iter().map(|(index, _)| *index).collect();
        read.extend(inside.drain(..).map(|(_, log)| log));
        let merged = if read.is_empty() {
            Ok(None)
        } else {
            // The earlier merge of the period stays until this one is complete.
            let options = MergeOptions {
                output: self.unfinished(number),
                ..self.options.clone()
            };
            merge_period(&options, &between, &mut read, problems, progress).map(Some)
        };
        // Clocks know the logs by their positions.
        let mut all: Vec<(usize, RankLog)> = indices.into_iter().zip(read).chain(outside).collect();
        all.sort_by_key(|(index, _)| *index);
        logs.extend(all.into_iter().map(|(_, log)| log));
        match merged? {
            Some(session) => {
                self.replace(number, &self.unfinished(number))?;
                let span = (from.unix_ns, until.unix_ns);
                self.add(Period::of(&session, name(from.unix_ns), span, is_final))
            }
            None => self.close_without_logs(number),
        }
    }

    /// Makes a listed period final if none of its logs exists any more.
    fn close_without_logs(&mut self, number: i64) -> Result<(), MergeError> {
        let from_unix_ns = number.saturating_mul(self.list.length_ns);
        let known = self
            .list
            .periods
            .iter()
            .find(|period| period.from_unix_ns == from_unix_ns);
        match known.cloned() {
            Some(period) => self.add(Period {
                is_final: true,
                ..period
            }),
            None => Ok(()),
        }
    }

    /// Moves a merged period from a directory to its place.
    pub fn replace(&self, number: i64, merged: &Path) -> Result<(), MergeError> {
        let to = self.directory(number);
        let removed = match fs::remove_dir_all(&to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        let moved = removed.and_then(|()| fs::rename(merged, &to));
        moved.map_err(|source| MergeError::Output { path: to, source })
    }

    /// Returns the numbers of the logs at the start of a period, and the problem if they are unknown.
    pub fn carried_to(&self, number: i64) -> (CarriedLogs, Option<ProblemSummary>) {
        let before = self.directory(number - 1);
        match carried_file::read(&before) {
            Ok(carried) => (carried, None),
            Err(error) => (CarriedLogs::new(), Some(uncounted(&before, &error))),
        }
    }

    /// Returns the problems of files that matter to a period, whose logs are `inside`. A log without an end is complete in a period
    /// before its end.
    pub fn problems_of(
        &self,
        between: &Between<'_>,
        inside: &[(usize, &RankLog)],
        outside: &[&RankLog],
    ) -> Vec<ProblemSummary> {
        let names = |log: &RankLog| log.path.display().to_string();
        let is_recorded = |(index, log): &&(usize, &RankLog)| between.is_recorded(*index, log, &self.clocks);
        let other: BTreeSet<String> = outside.iter().map(|log| names(log)).collect();
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

    /// Adds a period that was merged to the list.
    pub fn add(&mut self, period: Period) -> Result<(), MergeError> {
        let periods = &mut self.list.periods;
        periods.retain(|known| known.from_unix_ns != period.from_unix_ns);
        periods.push(period);
        periods.sort_by_key(|period| period.from_unix_ns);
        let output = &self.options.output;
        self.list.write(output).map_err(|source| MergeError::Output {
            path: output.clone(),
            source,
        })
    }

    /// Writes the indexes with which the next merge opens the logs: from the end of the last final period on.
    pub fn write_indexes(&self, logs: &[RankLog]) -> Result<(), MergeError> {
        let Some(last) = last_final(&self.list) else {
            return Ok(());
        };
        let number = last.from_unix_ns.div_euclid(self.list.length_ns);
        let (_, cut) = self.cuts(number, None, logs)?;
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
    pub fn directory(&self, number: i64) -> PathBuf {
        self.options
            .output
            .join(PERIODS_DIRECTORY)
            .join(self.name(number))
    }

    /// Returns the directory in which a period is merged.
    fn unfinished(&self, number: i64) -> PathBuf {
        let directory = self.options.output.join(PERIODS_DIRECTORY);
        directory.join(format!("{UNFINISHED}{}", self.name(number)))
    }

    /// Returns the name of a period.
    pub fn name(&self, number: i64) -> String {
        name(number.saturating_mul(self.list.length_ns))
    }

    /// Returns the cuts at the start and at the end of a period. Where an earlier merge has cut, they stay. `from` is the cut at its
    /// start if it is known.
    pub fn cuts(
        &self,
        number: i64,
        from: Option<RunCut>,
        logs: &[RankLog],
    ) -> Result<(RunCut, RunCut), MergeError> {
        let from = match from {
            Some(from) => from,
            None => self.stored_cut(number - 1)?.of(None, logs, &self.clocks),
        };
        let until = self.stored_cut(number)?.of(Some(&from), logs, &self.clocks);
        Ok((from, until))
    }

    /// Returns the cut at the end of a period, with the logs that an earlier merge has cut.
    fn stored_cut(&self, number: i64) -> Result<RunCut, MergeError> {
        let known = PeriodCut::read(&self.directory(number)).map_err(unreadable)?;
        Ok(RunCut {
            unix_ns: (number + 1).saturating_mul(self.list.length_ns),
            of_logs: known.map(known_cuts).unwrap_or_default(),
        })
    }

    /// Returns true if nothing can be added to a period.
    pub fn is_final(&self, between: &Between<'_>, logs: &[RankLog]) -> bool {
        let earlier = self.list.periods.iter();
        let follows_final = earlier
            .filter(|period| period.from_unix_ns < between.from.unix_ns)
            .all(|period| period.is_final);
        // Each machine copies its logs once per period.
        let silent_ns = match self.copied_unix_ns {
            Some(_) => SILENT_NS.max(self.list.length_ns),
            None => SILENT_NS,
        };
        let read_until_unix_ns = between.until.unix_ns.saturating_add(AFTER_NS);
        let silent_until_unix_ns = read_until_unix_ns.saturating_add(silent_ns);
        let is_silent = silent_until_unix_ns < self.now_unix_ns;
        // While nothing is copied, nobody knows whether a process still records.
        let is_known_silent = is_silent
            && self
                .copied_unix_ns
                .is_none_or(|copied| silent_until_unix_ns < copied);
        let is_over = |log: &RankLog| match log.ending {
            Ending::Closed | Ending::LiveArea => true,
            // Another machine may have its live area, and its process may still run there.
            Ending::Torn => is_known_silent,
            Ending::Running => false,
        };
        // As long as nothing was recorded after it, a new attempt of the job may begin in it.
        let mut recorded = logs.iter().enumerate();
        let has_passed = recorded.any(|(index, log)| between.is_recorded(index, log, &self.clocks));
        follows_final
            && (has_passed || is_silent)
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

/// Returns the cuts of logs in a file.
fn known_cuts(cut: PeriodCut) -> BTreeMap<LogId, LogCut> {
    let logs = cut.logs.into_iter();
    logs.map(|(nonce, pid, ticks, begin_ticks, last_ticks)| {
        let cut = LogCut {
            ticks,
            begin_ticks,
            last_ticks,
            open_ticks: 0,
        };
        (LogId { nonce, pid }, cut)
    })
    .collect()
}

/// Returns the name of the period that starts at a time.
fn name(from_unix_ns: i64) -> String {
    let time = Timestamp::from_nanosecond(i128::from(from_unix_ns)).unwrap_or_default();
    time.strftime("%Y%m%dT%H%M%S%.fZ").to_string()
}

/// Removes periods that an interrupted merge left. Other files stay.
fn remove_unlisted(session: &Path, list: &Periods) -> io::Result<()> {
    let entries = match fs::read_dir(session.join(PERIODS_DIRECTORY)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_listed = list.periods.iter().any(|period| period.name == name);
        let is_period = is_name(name.strip_prefix(UNFINISHED).unwrap_or(&name));
        if is_period && !is_listed && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Returns true if this program gives a period such a name.
fn is_name(text: &str) -> bool {
    let is_digits =
        |part: Option<&str>| part.is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    text.get(8..9) == Some("T")
        && is_digits(text.get(..8))
        && is_digits(text.get(9..15))
        && text.ends_with('Z')
}
