//! Has other processes merge periods, in two stages of units. The first counts what is numbered from the start of a log, and so
//! makes the periods independent. The second merges them, all at the same time.

use crate::identity::Identities;
use crate::ingest::between::{AFTER_NS, Between, LogId, RunCut};
use crate::merge::carried_file::CarriedLogs;
use crate::merge::error::MergeError;
use crate::merge::in_periods::run::Run;
use crate::merge::options::shared_path;
use crate::merge::progress::Progress;
use crate::merge::tables::row_limits;
use crate::merge::unit_runner::UnitRunner;
use crate::merge::units::count::{CountInput, CountLog};
use crate::merge::units::driver::{Units, cut};
use crate::merge::units::input::Work;
use crate::merge::units::log_input::LogInput;
use crate::merge::units::parts::{self, Parts};
use crate::merge::units::period::PeriodInput;
use crate::merge::units::read::is_on_disk;
use crate::rank::CarryPoint;
use rankscope_formats::session::{PERIODS_DIRECTORY, Period, ProblemSummary};
use rankscope_ranklog::reader::RankLog;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A period that is merged elsewhere.
struct Task {
    number: i64,
    from: RunCut,
    until: RunCut,
    /// Positions of its logs.
    logs: Vec<usize>,
    problems: Vec<ProblemSummary>,
}

/// Merges periods, and returns the numbers of those that are left: later ones, of which other processes cannot read all records, and
/// those without logs.
/// `progress` gets the number of periods that are complete.
pub fn merge_elsewhere(
    run: &mut Run<'_>,
    runner: &dyn UnitRunner,
    numbers: &[i64],
    logs: &[RankLog],
    progress: &mut dyn FnMut(usize, Progress),
) -> Result<Vec<i64>, MergeError> {
    let session = run.options.output.clone();
    let failed = |source: io::Error| MergeError::Output {
        path: session.clone(),
        source,
    };
    let (mut tasks, left) = tasks(run, numbers, logs)?;
    let Some(earliest) = tasks.first_mut() else {
        return Ok(left);
    };
    let (known, problem) = run.carried_to(earliest.number);
    earliest.problems.extend(problem);
    let directory = Parts::create(&session).map_err(failed)?;
    let place = (session.as_path(), directory.path());
    let mut counting = |done: usize, all: usize| progress(0, of_units("counting messages", done, all));
    let carried = count(run, runner, place, (&tasks, logs, known), &mut counting)?;
    let mut units = Units::new(place, carried.next_unit);
    for (task, carried) in tasks.iter().zip(&carried.of_tasks) {
        let work = Work::Period(Box::new(input(run, task, carried, logs).map_err(failed)?));
        units.push(row_limits(task.logs.len()), work)?;
    }
    units.run(runner, &mut |done| {
        progress(done, of_units("merging periods", done, tasks.len()))
    });
    fs::create_dir_all(session.join(PERIODS_DIRECTORY)).map_err(failed)?;
    for (task, attempt) in tasks.iter().zip(units.chosen()?) {
        // Periods before a missing one are kept.
        let attempt = attempt?;
        let Some(period) = attempt.output.period else {
            let what = format!("{}: the receipt has no period", attempt.path.display());
            return Err(MergeError::Units(what));
        };
        fs::remove_file(attempt.path.join(parts::RECEIPT)).map_err(failed)?;
        run.replace(task.number, &attempt.path)?;
        let between = Between {
            from: &task.from,
            until: &task.until,
            origin_unix_ns: run.list.origin_unix_ns,
            carried: &CarriedLogs::new(),
        };
        let is_final = run.is_final(&between, logs);
        // What decides about paths does not come from another process.
        run.add(Period {
            name: run.name(task.number),
            from_unix_ns: task.from.unix_ns,
            until_unix_ns: task.until.unix_ns,
            is_final,
            ..period
        })?;
    }
    Ok(left)
}

fn of_units(phase: &'static str, done: usize, all: usize) -> Progress {
    Progress {
        share: Some(done as f64 / all.max(1) as f64),
        ..Progress::of_phase(phase, 0)
    }
}

/// Returns the periods that other processes can read. Also returns the numbers of all later ones, and of those without logs.
fn tasks(run: &Run<'_>, numbers: &[i64], logs: &[RankLog]) -> Result<(Vec<Task>, Vec<i64>), MergeError> {
    let (mut tasks, mut left) = (Vec::new(), Vec::new());
    let mut before = None;
    for (position, &number) in numbers.iter().enumerate() {
        let (from, until) = run.cuts(number, before.take(), logs)?;
        before = Some(until.clone());
        let between = Between {
            from: &from,
            until: &until,
            origin_unix_ns: run.list.origin_unix_ns,
            carried: &CarriedLogs::new(),
        };
        let (inside, outside): (Vec<_>, Vec<_>) = logs
            .iter()
            .enumerate()
            .partition(|(index, log)| between.has(*index, log, &run.clocks));
        let is_readable = |(index, log): &(usize, &RankLog)| {
            is_on_disk(log) || between.is_recorded(*index, log, &run.clocks)
        };
        if !inside.iter().all(is_readable) {
            left.extend_from_slice(&numbers[position..]);
            break;
        }
        if inside.is_empty() {
            left.push(number);
            continue;
        }
        let outside: Vec<&RankLog> = outside.into_iter().map(|(_, log)| log).collect();
        let problems = run.problems_of(&between, &inside, &outside);
        let logs = inside.into_iter().map(|(index, _)| index).collect();
        tasks.push(Task {
            number,
            from,
            until,
            logs,
            problems,
        });
    }
    Ok((tasks, left))
}

/// Numbers of the logs at the start of each task.
struct Counted {
    of_tasks: Vec<CarriedLogs>,
    /// Number after those of the units.
    next_unit: u32,
}

/// Counts, at the start of each period, what is numbered from the start of the logs.
fn count(
    run: &Run<'_>,
    runner: &dyn UnitRunner,
    place: (&Path, &Path),
    (tasks, logs, known): (&[Task], &[RankLog], CarriedLogs),
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Counted, MergeError> {
    let mut of_tasks: Vec<CarriedLogs> = tasks.iter().map(|_| CarriedLogs::new()).collect();
    let mut units = Units::new(place, 0);
    let inputs = counted_logs(run, tasks, logs, &known);
    let sizes: Vec<(usize, u64)> = inputs
        .iter()
        .map(|(log, _)| (*log, logs[*log].segment_bytes))
        .collect();
    let mut inputs: BTreeMap<usize, CountLog> = inputs.into_iter().collect();
    for positions in cut(&sizes) {
        let of_unit = positions
            .iter()
            .filter_map(|position| inputs.remove(position))
            .collect();
        units.push(row_limits(1), Work::Count(CountInput { logs: of_unit }))?;
    }
    let all = units.numbers().len();
    units.run(runner, &mut |done| progress(done, all));
    let next_unit = units.numbers().end;
    for attempt in units.chosen()? {
        for (id, carried) in attempt?.output.counted {
            for carried in carried.into_iter().map(Arc::new) {
                // The same number of a log belongs to every task that begins there.
                for (task, of_task) in tasks.iter().zip(&mut of_tasks) {
                    let begins = task.from.of_logs.get(&id).map(|cut| cut.begin_ticks);
                    if begins == Some(carried.ticks) {
                        of_task.insert(id, carried.clone());
                    }
                }
            }
        }
    }
    if let Some(start) = of_tasks.first_mut() {
        *start = known;
    }
    Ok(Counted { of_tasks, next_unit })
}

/// Returns the logs that are in more than one period, with the points at which later periods are read from.
fn counted_logs(
    run: &Run<'_>,
    tasks: &[Task],
    logs: &[RankLog],
    known: &CarriedLogs,
) -> Vec<(usize, CountLog)> {
    let identities = Identities::learn(logs, &run.clocks);
    let mut inputs = Vec::new();
    for rank in &identities.ranks {
        let log = &logs[rank.log];
        let id = LogId::of(log);
        let mut of_log = tasks
            .iter()
            .filter(|task| task.logs.binary_search(&rank.log).is_ok());
        let Some(first) = of_log.next() else { continue };
        let begins = log.calibrations.first();
        let from = first.from.of_logs.get(&id);
        let from = from.filter(|from| begins.is_none_or(|begins| begins.ticks < from.ticks));
        let begin = from.map(|from| from.begin_ticks);
        let mut points = Vec::new();
        for task in of_log {
            let Some(cut) = task.from.of_logs.get(&id) else {
                continue;
            };
            points.push(CarryPoint {
                ticks: cut.begin_ticks,
                open_from_ticks: cut.open_ticks,
            });
        }
        let (Some(last), Ok(path)) = (points.last(), shared_path(&log.path)) else {
            continue;
        };
        let index = log.index_between(begin.unwrap_or(0), last.ticks);
        inputs.push((
            rank.log,
            CountLog {
                log: LogInput::new(&path, index),
                line: run.clocks.line(rank.log),
                communicators: rank.communicators.clone(),
                begin,
                carried: known.get(&id).filter(|_| begin.is_some()).cloned(),
                points,
            },
        ));
    }
    inputs
}

/// Returns the input of the unit that merges a period.
fn input(run: &Run<'_>, task: &Task, carried: &CarriedLogs, logs: &[RankLog]) -> io::Result<PeriodInput> {
    let mut directories = Vec::new();
    let mut origins = run.options.origins.clone();
    for given in &run.options.directories {
        let shared = shared_path(given)?;
        if shared != *given {
            origins.push((shared.clone(), given.clone()));
        }
        directories.push(shared);
    }
    let mut input = PeriodInput::new(
        run.name(task.number),
        directories,
        origins,
        run.options.most_pending,
    );
    // Earlier logs of the run do not matter.
    let ids: BTreeSet<LogId> = task
        .logs
        .iter()
        .map(|&position| LogId::of(&logs[position]))
        .collect();
    let mut from = task.from.clone();
    from.of_logs.retain(|id, _| ids.contains(id));
    input.between(&from, &task.until, run.list.origin_unix_ns);
    input.problems = task.problems.clone();
    for &position in &task.logs {
        let log = &logs[position];
        let id = LogId::of(log);
        let line = run.clocks.line(position);
        let cuts = (task.from.of_logs.get(&id), task.until.of_logs.get(&id));
        let (Some(from), Some(until)) = cuts else { continue };
        let until_ns = line.ns(until.ticks).saturating_add(AFTER_NS + SLACK_NS);
        let index = log.index_between(from.begin_ticks, line.ticks(until_ns));
        input.logs.push(LogInput::new(&shared_path(&log.path)?, index));
        input
            .carried
            .extend(carried.get(&id).map(|carried| (id, carried.clone())));
    }
    Ok(input)
}

/// Time by which more is read than needed, in nanoseconds: the unit aligns clocks anew.
const SLACK_NS: i64 = 1_000_000_000;
