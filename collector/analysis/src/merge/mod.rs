//! Merges run directories into a session. This module calls all others in order.

pub mod clock_pass;
pub mod pool;

use crate::clocks::clock::Clocks;
use crate::clocks::solution::ClockSolution;
use crate::identity::Identities;
use crate::identity::world_error;
use crate::ingest::open_files::allow_many_files;
use crate::ingest::part;
use crate::ingest::part::LeftOut;
use crate::ingest::{self, IngestError};
use crate::matching::stride;
use crate::matching::{MAX_PENDING, Matcher};
use crate::measures::analysis::Analysis;
use crate::measures::merged::Merged;
use crate::measures::stalls::StallBoard;
use crate::measures::step_board::StepBoard;
use crate::merge::clock_pass::collect;
use crate::merge::pool::{Pool, RankTask};
use crate::model::sources::CUPTI;
use crate::rank::anchors::Anchors;
use crate::rank::{DeliveryDelay, RankReader, RankSums};
use crate::steps::finder;
use crate::steps::finder::StepPlan;
use crate::steps::marks;
use crate::structure::step_links;
use crate::structure::{self, Structure};
use crate::summary;
use rankscope_formats::session::{
    InstanceRow, LossRow, ProblemRow, ProblemSummary, RowLimits, SUMMARY_FILE, Session, StallRow, StepRow,
    Table, TableError, TableInfo, TableWriter, part_path, rank_path,
};
use rankscope_ranklog::reader::RankLog;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;

/// File that marks a session directory with an unfinished merge.
const UNFINISHED: &str = ".unfinished";

/// Maximum number of kinds of marks that are tried. Each takes a pass over a log.
const MAX_MARKS: usize = 3;

/// Input and output of a merge.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// Run directories (or logs) of one job, from one node or several.
    pub directories: Vec<PathBuf>,
    /// Session directory. It is created; an earlier session in it is replaced.
    pub output: PathBuf,
    /// Number of threads in addition to the matching thread; `None` for one per processor.
    pub threads: Option<usize>,
    /// Maximum number of pending calls; `None` for enough for half a million.
    pub most_pending: Option<usize>,
}

impl MergeOptions {
    /// Returns the options to merge one run directory into its folder `session`.
    pub fn of_run(directory: &Path) -> Self {
        Self {
            directories: vec![directory.to_path_buf()],
            output: directory.join("session"),
            threads: None,
            most_pending: None,
        }
    }
}

/// Progress of a merge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Current phase: `opening logs`, `aligning clocks`, `finding steps`, `matching`, `writing`.
    pub phase: &'static str,
    /// Number of operations processed in this phase.
    pub operations: u64,
    /// Processed share of the run's time, from 0 to 1; `None` if unknown.
    pub share: Option<f64>,
}

/// Error that prevents a merge. Partly readable logs are no error; they are in the session's problems.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// No log could be read.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// A table could not be written.
    #[error("cannot write the session: {0}")]
    Table(#[from] TableError),
    /// The session directory cannot be written.
    #[error("cannot write the session to {path}: {source}")]
    Output {
        /// The directory or file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The session directory contains other files.
    #[error("{0} is not empty and contains no session; name another directory")]
    Occupied(PathBuf),
    /// A decoding thread panicked, which is a bug.
    #[error("a decoding thread ended unexpectedly; please report this")]
    Worker,
}

/// Reads the logs of all directories and writes a session. Calls `progress` often, from this thread.
pub fn merge(options: &MergeOptions, progress: &mut dyn FnMut(Progress)) -> Result<Session, MergeError> {
    merge_last(options, part::Last::default(), progress)
}

/// Merges only the last part of the run, as if the run had begun there ([`part`]).
pub fn merge_last(
    options: &MergeOptions,
    last: part::Last,
    progress: &mut dyn FnMut(Progress),
) -> Result<Session, MergeError> {
    progress(Progress {
        phase: "opening logs",
        operations: 0,
        share: None,
    });
    let ingest::Ingested {
        mut logs,
        mut problems,
    } = if last == part::Last::default() {
        ingest::ingest(&options.directories)?
    } else {
        ingest::ingest_in_place(&options.directories)?
    };
    let mut clocks = Clocks::align(&logs);
    let begin = part::Begin::choose(&mut logs, &clocks, last);
    let logs = logs;
    let mut identities = Identities::learn(&logs, &clocks);
    if clocks.hosts.len() > 1 {
        let learnt = learn_clocks(options, &logs, &clocks, &identities, progress);
        clocks.correct(learnt);
        // By the corrected clocks, the first rank may be another one.
        identities = Identities::learn(&logs, &clocks);
    }
    let from_ns = begin.map(|begin| begin.from_ns(&clocks));
    problems.extend(clocks.problems.drain(..).map(|what| problem(None, None, what)));
    for (log, what) in &identities.problems {
        let rank = log.and_then(|log| rank_of_log(&identities, log));
        let file = log.map(|log| logs[log].path.display().to_string());
        problems.push(problem(rank, file, what.clone()));
    }
    prepare(&options.output)?;
    allow_many_files();
    // Each log has several readers, all with the final clocks.
    let lateness: Vec<OnceLock<DeliveryDelay>> = logs.iter().map(|_| OnceLock::new()).collect();
    let logs = Logs { all: &logs, from_ns };
    let mut plans = plan_steps(logs, &clocks, &identities, &lateness, progress);
    let structures = learn_structure(logs, &clocks, &mut identities, &lateness, &mut plans);
    let learnt = Learnable {
        lateness: &lateness,
        plans: &plans,
        structures: &structures,
    };
    let mut outcome = match_ranks(options, logs, &clocks, &identities, learnt, progress)?;
    problems.append(&mut outcome.problems);
    progress(Progress {
        phase: "writing",
        operations: outcome.analysis.totals.operations,
        share: None,
    });
    let mut session = summary::session(&Merged {
        directories: &options.directories,
        logs: logs.all,
        from_ns,
        clocks: &clocks,
        identities: &identities,
        plans: &plans,
        structures: &structures,
        sums: &outcome.sums,
        analysis: &outcome.analysis,
        problems,
    });
    session.tables = outcome.tables;
    let host_of = |rank: u32| clocks.host_of[identities.ranks[rank as usize].log] as u32;
    let moved = outcome.analysis.traffic.rows(&identities, &outcome.sums, host_of);
    session.tables.push(write_table(&options.output, moved)?);
    session.tables.push(write_losses(&options.output, &session)?);
    session
        .tables
        .push(write_problems(&options.output, &session.problems.listed)?);
    session
        .problems
        .listed
        .truncate(rankscope_formats::session::Problems::MAX_LISTED);
    session.tables.sort_by(|one, other| one.name.cmp(&other.name));
    session
        .write(&options.output)
        .map_err(|source| MergeError::Output {
            path: options.output.join(SUMMARY_FILE),
            source,
        })?;
    // From now on the summary shows that the directory is a session.
    let _ = fs::remove_file(options.output.join(UNFINISHED));
    Ok(session)
}

fn problem(rank: Option<u32>, file: Option<String>, what: String) -> ProblemSummary {
    ProblemSummary {
        rank,
        file,
        offset_bytes: None,
        what,
    }
}

fn rank_of_log(identities: &Identities, log: usize) -> Option<u32> {
    identities
        .ranks
        .iter()
        .position(|rank| rank.log == log)
        .map(|rank| rank as u32)
}

/// Creates an empty session directory. Only removes an earlier session.
fn prepare(output: &Path) -> Result<(), MergeError> {
    let error = |source| MergeError::Output {
        path: output.to_path_buf(),
        source,
    };
    fs::create_dir_all(output).map_err(error)?;
    let tables = [
        "operations",
        "instances",
        "spans",
        "steps",
        "works",
        "stalls",
        "pauses",
        "names",
        "traffic",
        "losses",
        "problems",
        rankscope_formats::index::VIEW_DIRECTORY,
    ];
    let unfinished = output.join(UNFINISHED);
    let is_session = output.join(SUMMARY_FILE).exists() || unfinished.exists();
    let is_empty = fs::read_dir(output).map_err(error)?.next().is_none();
    if !is_session && !is_empty {
        return Err(MergeError::Occupied(output.to_path_buf()));
    }
    // Marks the directory as a session, in case this merge is interrupted.
    fs::write(&unfinished, b"").map_err(error)?;
    for name in [SUMMARY_FILE, "session.json.unfinished"] {
        match fs::remove_file(output.join(name)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(error(source)),
            _ => {}
        }
    }
    for table in tables {
        match fs::remove_dir_all(output.join(table)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(error(source)),
            _ => {}
        }
    }
    Ok(())
}

/// The logs, and the start of the merged part.
#[derive(Clone, Copy)]
struct Logs<'a> {
    all: &'a [RankLog],
    from_ns: Option<i64>,
}

fn reader<'a>(
    rank: usize,
    logs: Logs<'a>,
    clocks: &Clocks,
    identities: &Identities,
    anchors: Anchors,
) -> RankReader<'a> {
    let identity = &identities.ranks[rank];
    let reader = RankReader::new(
        rank as u32,
        &logs.all[identity.log],
        clocks.line(identity.log),
        &identity.communicators,
        anchors,
    );
    match logs.from_ns {
        Some(from_ns) => reader.from_ns(from_ns),
        None => reader,
    }
}

/// Derives the clocks of several hosts from the job's own operations, in a separate pass over all logs.
fn learn_clocks(
    options: &MergeOptions,
    logs: &[RankLog],
    clocks: &Clocks,
    identities: &Identities,
    progress: &mut dyn FnMut(Progress),
) -> ClockSolution {
    let ranks = identities.ranks.len();
    collect(
        logs,
        clocks,
        identities,
        most_pending(options, ranks),
        |rank| {
            let logs = Logs {
                all: logs,
                // The clocks are not known yet.
                from_ns: None,
            };
            reader(rank, logs, clocks, identities, Anchors::default())
        },
        &mut |operations| {
            progress(Progress {
                phase: "aligning clocks",
                operations,
                share: None,
            });
        },
    )
}

/// Returns the maximum number of pending calls.
fn most_pending(options: &MergeOptions, ranks: usize) -> usize {
    options
        .most_pending
        .unwrap_or_else(|| MAX_PENDING.max(2 * ranks * stride(ranks)))
}

/// Finds the steps of each world, from the first of its ranks that has marks, else from its first rank.
fn plan_steps(
    logs: Logs<'_>,
    clocks: &Clocks,
    identities: &Identities,
    lateness: &[OnceLock<DeliveryDelay>],
    progress: &mut dyn FnMut(Progress),
) -> Vec<StepPlan> {
    identities
        .worlds
        .iter()
        .map(|world| {
            progress(Progress {
                phase: "finding steps",
                operations: 0,
                share: None,
            });
            let Some(&first) = world.ranks.first() else {
                return StepPlan {
                    source: "none",
                    reason: Some("no rank was recorded".to_owned()),
                    ..StepPlan::default()
                };
            };
            let reader_of = |rank: u32| {
                reader(rank as usize, logs, clocks, identities, Anchors::default())
                    .with_lateness(&lateness[identities.ranks[rank as usize].log])
                    .without_works()
            };
            let width = |communicator: u32| {
                identities
                    .communicators
                    .get(communicator as usize)
                    .map_or(0, |known| known.size)
            };
            // Reading a log for marks takes as long as reading it for a pattern. It is worthwhile only if its texts
            // contain such names.
            let marking = world.ranks.iter().copied().find(|&rank| {
                let log = &logs.all[identities.ranks[rank as usize].log];
                log.texts.values().any(|text| marks::is_step_like(text))
            });
            let by_marks = marking.and_then(|rank| {
                let likely = marks::find(&mut reader_of(rank));
                likely
                    .iter()
                    .take(MAX_MARKS)
                    .find_map(|marks| finder::plan_by_marks(&mut reader_of(rank), marks, width))
            });
            match by_marks {
                Some(plan) => StepPlan {
                    reference: marking,
                    ..plan
                },
                None => StepPlan {
                    reference: Some(first),
                    ..finder::plan(&mut reader_of(first), width)
                },
            }
        })
        .collect()
}

/// Determines the structure of each world from samples of its ranks. Completes the plan for ranks that take no part in
/// the anchors.
fn learn_structure(
    logs: Logs<'_>,
    clocks: &Clocks,
    identities: &mut Identities,
    lateness: &[OnceLock<DeliveryDelay>],
    plans: &mut [StepPlan],
) -> Vec<Structure> {
    let mut all = Vec::with_capacity(plans.len());
    for (world, plan) in plans.iter_mut().enumerate() {
        let known = &*identities;
        let reader_of = |rank: u32, anchors: Anchors| {
            reader(rank as usize, logs, clocks, known, anchors)
                .with_lateness(&lateness[known.ranks[rank as usize].log])
                .without_works()
        };
        let mut samples = structure::samples(known, world, |rank| reader_of(rank, plan.anchors_of(rank)));
        if samples.len() > 1
            && let Some(first) = first_of_a_chain(plan, &samples)
        {
            let width = |communicator: u32| known.communicators[communicator as usize].size;
            let by_first = finder::plan(&mut reader_of(first, Anchors::default()), width);
            if !by_first.anchors.is_empty() {
                *plan = StepPlan {
                    reference: Some(first),
                    ..by_first
                };
            }
        }
        if samples.len() > 1
            && let Some(reference) = plan.reference
        {
            step_links::complete(plan, reference, known, world, &samples, reader_of);
            if !plan.others.is_empty() {
                samples = structure::samples(known, world, |rank| reader_of(rank, plan.anchors_of(rank)));
            }
        }
        all.push(structure::learn(identities, world, plan, &samples));
    }
    all
}

/// Returns the rank that sends the first message along a chain, if only messages determine the steps and it is not the
/// reference. To the last rank of a chain, each micro-batch looks like a step.
fn first_of_a_chain(plan: &StepPlan, samples: &BTreeMap<u32, structure::sample::Sample>) -> Option<u32> {
    if plan.anchors.communicators().is_some() {
        return None;
    }
    let sends_first = |rank: &u32| {
        let sample = samples.get(rank)?;
        let is_end = sample.peers().count() == 1;
        is_end.then(|| sample.messages.first().is_some_and(|first| first.is_send))
    };
    let reference = plan.reference?;
    if sends_first(&reference) == Some(true) {
        return None;
    }
    samples
        .keys()
        .copied()
        .find(|rank| sends_first(rank) == Some(true))
}

/// Results of the passes before the merge itself, by world.
#[derive(Clone, Copy)]
struct Learnable<'a> {
    /// By log.
    lateness: &'a [OnceLock<DeliveryDelay>],
    plans: &'a [StepPlan],
    structures: &'a [Structure],
}

struct Outcome<'a> {
    analysis: Analysis<'a>,
    sums: Vec<RankSums>,
    problems: Vec<ProblemSummary>,
    tables: Vec<TableInfo>,
}

/// Returns the sizes of row groups. The rows of all ranks in memory are one or two million, and few rows wait for late
/// ones. A row takes 10 to 20 bytes encoded, and some 200 before.
fn row_limits(ranks: usize) -> RowLimits {
    RowLimits {
        per_group: ((1 << 20) / ranks.max(1)).clamp(2048, 1 << 16),
        // An operation may be later than others of its rank by about the stride of another rank.
        held: ((1 << 15) / ranks.max(1)).clamp(128, 1024),
    }
}

/// Returns the number of rows that are passed to the writing thread at once. They are few enough to stay in the cache,
/// and at most 32,768 over all ranks.
fn rows_per_handover(ranks: usize) -> usize {
    ((1 << 15) / ranks.max(1)).clamp(32, 4096)
}

/// Steps end in order, so few rows must be held back for late ones.
const STEPS_HELD: usize = 16;

fn match_ranks<'a>(
    options: &MergeOptions,
    logs: Logs<'a>,
    clocks: &'a Clocks,
    identities: &'a Identities,
    learnt: Learnable<'a>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome<'a>, MergeError> {
    let ranks = identities.ranks.len();
    let limits = row_limits(ranks);
    let handover = rows_per_handover(ranks);
    let boards = identities
        .worlds
        .iter()
        .zip(learnt.plans.iter().zip(learnt.structures))
        .enumerate()
        .map(|(index, (world, (plan, structure)))| {
            let error = world_error(clocks, identities, &world.ranks);
            StepBoard::new(
                index as u32,
                structure.compared(&world.ranks),
                plan.median_ns.unwrap_or(0),
                error,
            )
            .with_anchors(plan.anchors.clone())
            .of_part(logs.from_ns.is_some())
        })
        .collect();
    let has_devices =
        |rank: &crate::identity::RankIdentity| logs.all[rank.log].properties.contains_key(CUPTI);
    let stalls = StallBoard::new(identities.ranks.iter().map(has_devices));
    let mut analysis = Analysis::new(identities, clocks, boards, stalls);
    analysis.left_out = logs.from_ns.map(LeftOut::new);
    for structure in learnt.structures {
        let stages = structure.pipelines.iter().flat_map(|pipeline| &pipeline.stages);
        stages.flatten().for_each(|&rank| analysis.is_staged(rank));
    }
    let mut stall_tables = StallTables::new(&options.output, ranks, limits);
    let mut matcher = Matcher::new(&identities.communicators, ranks, most_pending(options, ranks));
    let mut tasks = Vec::with_capacity(ranks);
    let mut step_tables = Vec::with_capacity(ranks);
    for rank in 0..ranks {
        let world = identities.ranks[rank].world;
        let anchors = world
            .and_then(|world| learnt.plans.get(world as usize))
            .map_or_else(Anchors::default, |plan| plan.anchors_of(rank as u32));
        if !anchors.is_empty() {
            analysis.stalls.expect_steps(rank as u32);
        }
        let reader = reader(rank, logs, clocks, identities, anchors)
            .with_lateness(&learnt.lateness[identities.ranks[rank].log])
            .with_stride(stride(ranks));
        tasks.push(RankTask::new(rank as u32, reader, &options.output, limits)?);
        step_tables.push((
            TableWriter::<StepRow>::create(
                &rank_path::<StepRow>(&options.output, rank as u32),
                RowLimits {
                    held: STEPS_HELD,
                    ..limits
                },
            )?,
            Vec::new(),
        ));
    }
    let instance_table =
        TableWriter::<InstanceRow>::create(&part_path::<InstanceRow>(&options.output), RowLimits::default())?;
    let threads = options
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from));
    let span = run_span(logs, clocks, identities);
    std::thread::scope(|scope| {
        let mut pool = Pool::start(scope, threads, tasks);
        let (instance_rows, to_write) = sync_channel::<Vec<InstanceRow>>(4);
        let instance_writer = scope.spawn(move || {
            let mut table = instance_table;
            while let Ok(mut rows) = to_write.recv() {
                table.write(&mut rows)?;
            }
            table.finish()
        });
        // The rank that is furthest behind goes first, because pending calls in memory wait for it.
        let mut frontier: BinaryHeap<Reverse<(i64, usize)>> =
            (0..ranks).map(|rank| Reverse((i64::MIN, rank))).collect();
        while let Some(Reverse((behind, rank))) = frontier.pop() {
            let mut task = pool.fetch(rank as u32)?.ok_or(MergeError::Worker)?;
            let mut reached = behind;
            for operation in &mut task.batch.operations {
                reached = reached.max(operation.leave_ns).max(operation.enter_ns);
                analysis.expect(operation);
                matcher.take(operation, |instance| analysis.take(instance));
            }
            for pause in task.batch.pauses.drain(..).filter(|pause| pause.pauses_training) {
                analysis
                    .stalls
                    .paused(rank as u32, pause.start_ns, pause.end_ns, pause.kind);
            }
            for stall in task.batch.stalls.drain(..) {
                analysis.stalls.take(rank as u32, stall);
            }
            for cut in task.batch.steps.drain(..) {
                analysis
                    .stalls
                    .step(rank as u32, cut.step, cut.start_ns, cut.end_ns);
                if let Some((world, row)) = analysis.place(rank as u32) {
                    analysis.boards[world as usize].cut(row, cut);
                }
            }
            if task.ended {
                matcher.rank_ended(rank as u32, |instance| analysis.take(instance));
                if let Some((world, row)) = analysis.place(rank as u32) {
                    analysis.boards[world as usize].rank_ended(row);
                }
            } else {
                frontier.push(Reverse((reached, rank)));
            }
            close_steps(&mut analysis, &mut step_tables, Some(handover))?;
            let all_reached = frontier.peek().map(|&Reverse((reached, _))| reached);
            stall_tables.close(
                &mut analysis.stalls,
                Some(all_reached.unwrap_or(i64::MAX)),
                handover,
            )?;
            if analysis.rows[rank].len() >= handover {
                std::mem::swap(&mut task.rows, &mut analysis.rows[rank]);
            }
            if task.ended && task.rows.is_empty() {
                pool.keep(task);
            } else {
                pool.send(task);
            }
            if analysis.instances.len() >= handover
                && instance_rows
                    .send(std::mem::take(&mut analysis.instances))
                    .is_err()
            {
                // The table could not be written. The thread's result contains the reason.
                break;
            }
            let share = span.map(|(first, last)| {
                ((reached.max(first) - first) as f64 / (last - first).max(1) as f64).min(1.0)
            });
            progress(Progress {
                phase: "matching",
                operations: analysis.totals.operations,
                share,
            });
        }
        matcher.finish(|instance| analysis.take(instance));
        analysis.finish();
        close_steps(&mut analysis, &mut step_tables, None)?;
        stall_tables.close(&mut analysis.stalls, None, 0)?;
        let _ = instance_rows.send(std::mem::take(&mut analysis.instances));
        drop(instance_rows);
        let mut tables = Tables::default();
        let mut sums = Vec::with_capacity(ranks);
        let mut problems = Vec::new();
        for rank in 0..ranks {
            let mut task = pool.fetch(rank as u32)?.ok_or(MergeError::Worker)?;
            task.rows.append(&mut analysis.rows[rank]);
            let log = &logs.all[identities.ranks[rank].log];
            problems.extend(log.problems.iter().chain(task.reader.problems()).map(|problem| {
                ProblemSummary {
                    rank: Some(rank as u32),
                    file: Some(problem.path.display().to_string()),
                    offset_bytes: Some(problem.offset),
                    what: problem.what.clone(),
                }
            }));
            let mut of_rank = task.reader.sums();
            if let Some((world, row)) = analysis.place(rank as u32) {
                analysis.boards[world as usize].no_training[row].take_out_of(&mut of_rank);
            }
            sums.push(of_rank);
            for (name, written) in task.finish()? {
                tables.add(name, written);
            }
        }
        for (table, mut rows) in step_tables {
            let mut table = table;
            table.write(&mut rows)?;
            tables.add(StepRow::NAME, table.finish()?);
        }
        for written in stall_tables.finish()? {
            tables.add(StallRow::NAME, written);
        }
        let instances = instance_writer.join().map_err(|_| MergeError::Worker)??;
        tables.add(InstanceRow::NAME, instances);
        Ok(Outcome {
            analysis,
            sums,
            problems,
            tables: tables.0,
        })
    })
}

/// Tables of stalls, each created with its first row.
struct StallTables {
    session: PathBuf,
    limits: RowLimits,
    tables: Vec<Option<TableWriter<StallRow>>>,
    rows: Vec<Vec<StallRow>>,
}

impl StallTables {
    fn new(session: &Path, ranks: usize, limits: RowLimits) -> Self {
        Self {
            session: session.to_path_buf(),
            limits,
            tables: (0..ranks).map(|_| None).collect(),
            rows: vec![Vec::new(); ranks],
        }
    }

    /// Writes judged stalls of ranks that have at least `at_least` of them.
    fn close(
        &mut self,
        board: &mut StallBoard,
        reached_ns: Option<i64>,
        at_least: usize,
    ) -> Result<(), TableError> {
        let mut closed = false;
        board.close(reached_ns, |rank, stall| {
            closed = true;
            self.rows[rank].push(stall);
        });
        if !closed && at_least > 0 {
            return Ok(());
        }
        for (rank, rows) in self.rows.iter_mut().enumerate() {
            if rows.is_empty() || rows.len() < at_least {
                continue;
            }
            let table = match &mut self.tables[rank] {
                Some(table) => table,
                none => none.insert(TableWriter::create(
                    &rank_path::<StallRow>(&self.session, rank as u32),
                    self.limits,
                )?),
            };
            table.write(rows)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<(u64, u64)>, TableError> {
        let tables = self.tables.into_iter().flatten();
        tables.map(TableWriter::finish).collect()
    }
}

type StepTables = Vec<(TableWriter<StepRow>, Vec<StepRow>)>;

/// Writes closed steps of ranks that have at least `at_least` of them; all steps with `None`.
fn close_steps(
    analysis: &mut Analysis<'_>,
    tables: &mut StepTables,
    at_least: Option<usize>,
) -> Result<(), TableError> {
    let identities = analysis.identities();
    let mut closed = at_least.is_none();
    for (world, board) in analysis.boards.iter_mut().enumerate() {
        let ranks = &identities.worlds[world].ranks;
        board.close(at_least.is_none(), |row, step| {
            closed = true;
            if let Some((_, rows)) = ranks.get(row).and_then(|&rank| tables.get_mut(rank as usize)) {
                rows.push(step);
            }
        });
    }
    if !closed {
        return Ok(());
    }
    for (table, rows) in tables.iter_mut() {
        if rows.len() >= at_least.unwrap_or(0) {
            table.write(rows)?;
        }
    }
    Ok(())
}

/// Returns the first and the last calibration of all ranks, the approximate span of the run for progress.
fn run_span(logs: Logs<'_>, clocks: &Clocks, identities: &Identities) -> Option<(i64, i64)> {
    let times = || {
        identities.ranks.iter().flat_map(|rank| {
            let line = clocks.line(rank.log);
            logs.all[rank.log]
                .calibrations
                .iter()
                .map(move |entry| line.ns(entry.ticks))
        })
    };
    let first = times().min()?.max(logs.from_ns.unwrap_or(i64::MIN));
    Some((first, times().max()?)).filter(|(first, last)| first < last)
}

#[derive(Default)]
struct Tables(Vec<TableInfo>);

impl Tables {
    fn add(&mut self, name: &str, (rows, bytes): (u64, u64)) {
        match self.0.iter_mut().find(|table| table.name == name) {
            Some(table) => {
                table.rows += rows;
                table.bytes += bytes;
            }
            None => self.0.push(TableInfo {
                name: name.to_owned(),
                rows,
                bytes,
            }),
        }
    }
}

fn write_table<T: Table>(output: &Path, mut rows: Vec<T>) -> Result<TableInfo, TableError> {
    let mut table = TableWriter::<T>::create(&part_path::<T>(output), usize::MAX)?;
    table.write(&mut rows)?;
    let (rows, bytes) = table.finish()?;
    Ok(TableInfo {
        name: T::NAME.to_owned(),
        rows,
        bytes,
    })
}

fn write_losses(output: &Path, session: &Session) -> Result<TableInfo, TableError> {
    let rows = session
        .losses
        .iter()
        .map(|loss| LossRow {
            rank: loss.rank,
            source: loss.source.clone(),
            cause: loss.cause.clone(),
            kind: loss.kind.clone(),
            count: loss.count,
            first_ns: loss.first_ns,
            last_ns: loss.last_ns,
        })
        .collect();
    write_table(output, rows)
}

fn write_problems(output: &Path, problems: &[ProblemSummary]) -> Result<TableInfo, TableError> {
    let rows = problems
        .iter()
        .map(|problem| ProblemRow {
            rank: problem.rank,
            file: problem.file.clone().map(Cow::Owned),
            offset_bytes: problem.offset_bytes,
            what: problem.what.clone(),
        })
        .collect();
    write_table(output, rows)
}
