//! The matching pass of a merge: matches the operations of all ranks to instances, measures them, and writes their rows.
//!
//! Decoding threads read the logs and write the tables of single ranks ([`crate::merge::pool`]). This thread matches,
//! measures, and closes the steps and stalls that all ranks have passed.

use crate::clocks::clock::Clocks;
use crate::identity::Identities;
use crate::identity::world_error;
use crate::ingest::part::LeftOut;
use crate::matching::Matcher;
use crate::measures::all::Measures;
use crate::measures::rows::RankRows;
use crate::measures::stalls::StallBoard;
use crate::measures::step_board::StepBoard;
use crate::measures::step_boards::StepBoards;
use crate::merge::around_matching::AroundMatching;
use crate::merge::error::MergeError;
use crate::merge::logs::Logs;
use crate::merge::options::MergeOptions;
use crate::merge::pool::{Pool, RankTask};
use crate::merge::progress::Progress;
use crate::merge::read_pass::ReadLogs;
use crate::merge::readers::{Readers, Worlds};
use crate::merge::row_runs::RowRunsWriter;
use crate::merge::tables::{
    InstanceTable, StallTables, StepTables, TableSizes, TablesFolder, row_limits, rows_per_handover,
};
use crate::merge::write_pass::RowsOfRanks;
use crate::model::sources::CUPTI;
use crate::rank::{Carried, RankBatch, RankSums};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{OperationRow, ProblemSummary, TableError};
use rankscope_ranklog::reader::{Problem, RankLog};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Result of the pass.
pub struct Matched<'a> {
    /// Measures over all instances.
    pub measures: Measures<'a>,
    /// Sums of each rank.
    pub sums: Vec<RankSums>,
    /// Numbers of each rank's log for the next part of the run.
    pub carried: Vec<Option<Carried>>,
    /// Problems of the logs, found while they were read.
    pub problems: Vec<ProblemSummary>,
    /// Tables that were written.
    pub tables: TableSizes,
}

/// Reads all logs, matches their operations, and measures the instances.
pub fn match_ranks<'a>(
    options: &MergeOptions,
    folder: &TablesFolder,
    readers: Readers<'a>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Matched<'a>, MergeError> {
    let Readers {
        logs,
        identities,
        worlds,
        ..
    } = readers;
    let ranks = identities.ranks.len();
    let limits = row_limits(ranks);
    let threads = options.decoding_threads();
    let mut around = match folder.session_if_read_before(ranks) {
        Some(session) => Some(AroundMatching::new((folder, session), readers, limits, threads)?),
        None => None,
    };
    let read = around.as_mut().map(|around| around.read(progress)).transpose()?;
    let rows = around.as_ref().map(AroundMatching::rows);
    let mut measures = new_measures(logs, identities, worlds);
    measures.rows.operations = RankRows::new(ranks, rows.is_some());
    let steps = StepTables::create(folder, ranks, limits, rows.as_ref())?;
    let stalls = StallTables::new(folder, ranks, limits, rows.as_ref())?;
    let instances = InstanceTable::create(folder)?;
    let span = RunSpan::of(logs, identities);
    std::thread::scope(|scope| {
        let source = match (read, &rows) {
            (Some(read), Some(rows)) => Source::Read {
                read,
                batch: Box::default(),
                operations: RowRunsWriter::create(rows, ranks)?,
            },
            _ => {
                let tasks = (0..ranks).map(RankIndex::of);
                let tasks = tasks.map(|rank| RankTask::new(rank, readers.reader(rank), folder, limits));
                let tasks = tasks.collect::<Result<_, _>>()?;
                Source::Reading(Pool::start(scope, threads, tasks))
            }
        };
        let mut pass = MatchPass {
            identities,
            measures,
            matcher: Matcher::new(&identities.communicators, ranks, options.pending_limit(ranks)),
            source,
            steps,
            stalls,
            instances: InstanceTable::start(scope, instances),
            handover: rows_per_handover(ranks),
        };
        let mut frontier = Frontier::new(ranks);
        while let Some((rank, behind_ns)) = frontier.next() {
            let mut fetched = pass.fetch(rank)?;
            let reached_ns = behind_ns.max(pass.take_batch(rank, fetched.batch()));
            if fetched.ended() {
                pass.end_rank(rank);
            } else {
                frontier.reach(rank, reached_ns);
            }
            pass.write_closed(frontier.reached_by_all_ns())?;
            pass.give_back(rank, fetched)?;
            if !pass.send_instances() {
                break;
            }
            progress(Progress {
                phase: "matching",
                operations: pass.measures.totals.operations,
                share: span.map(|span| span.share_until(reached_ns)),
            });
        }
        let Passed { mut matched, rows } = pass.finish(logs)?;
        if let (Some(around), Some(rows)) = (&around, rows) {
            matched.tables.merge(around.write(&rows, progress)?);
        }
        Ok(matched)
    })
}

/// Creates the measures of the run, with the steps and pipelines of each world.
fn new_measures<'a>(logs: Logs<'a>, identities: &'a Identities, worlds: Worlds<'_>) -> Measures<'a> {
    let plans = worlds.plans.iter().zip(worlds.structures);
    let boards = identities
        .worlds
        .iter()
        .zip(plans)
        .enumerate()
        .map(|(index, (world, (plan, structure)))| {
            let error = world_error(logs.clocks, identities, &world.ranks);
            StepBoard::new(
                index as u32,
                &structure.compared(&world.ranks),
                plan.median_ns.unwrap_or(0),
                error,
            )
            .with_anchors(plan.anchors.clone())
            .of_part(logs.window().has_start())
        })
        .collect();
    let all_ranks = (0..identities.ranks.len()).map(RankIndex::of);
    let has_devices = |rank: RankIndex| logs.of_rank(identities, rank).properties.contains_key(CUPTI);
    let mut stalls = StallBoard::new(all_ranks.clone().map(has_devices));
    for rank in all_ranks
        .clone()
        .filter(|&rank| !worlds.anchors_of(identities, rank).is_empty())
    {
        stalls.expect_steps(rank);
    }
    let mut measures = Measures::new(identities, logs.clocks, boards, stalls);
    let goes_on = |rank: RankIndex| logs.of_rank(identities, rank).ends_early();
    measures.left_out = logs
        .part
        .map(|part| LeftOut::new(part.window(), all_ranks.map(goes_on).collect()));
    for structure in worlds.structures {
        let stages = structure.pipelines.iter().flat_map(|pipeline| &pipeline.stages);
        stages.flatten().for_each(|&rank| measures.mark_stage(rank));
    }
    measures
}

/// Ranks whose logs are not read to the end, by the time that each has reached. The rank that is furthest behind goes
/// first, because pending calls in memory wait for it.
struct Frontier(BinaryHeap<Reverse<(i64, RankIndex)>>);

impl Frontier {
    fn new(ranks: usize) -> Self {
        Self(
            (0..ranks)
                .map(|rank| Reverse((i64::MIN, RankIndex::of(rank))))
                .collect(),
        )
    }

    /// Takes out the rank that is furthest behind, with the time that it has reached, in ns.
    fn next(&mut self) -> Option<(RankIndex, i64)> {
        self.0.pop().map(|Reverse((reached_ns, rank))| (rank, reached_ns))
    }

    /// Puts a rank back.
    fn reach(&mut self, rank: RankIndex, reached_ns: i64) {
        self.0.push(Reverse((reached_ns, rank)));
    }

    /// Returns the time that all ranks have reached, in ns.
    fn reached_by_all_ns(&self) -> i64 {
        self.0
            .peek()
            .map_or(i64::MAX, |&Reverse((reached_ns, _))| reached_ns)
    }
}

/// Where the batches of the ranks come from.
enum Source<'a> {
    /// From logs that are read at the same time.
    Reading(Pool<'a>),
    /// From logs that were read before. The rows of operations then go into a temporary file, too.
    Read {
        read: ReadLogs,
        batch: Box<RankBatch>,
        operations: RowRunsWriter<OperationRow>,
    },
}

/// A batch, with the task or buffer that is reused after it.
enum Fetched<'a> {
    Task(Box<RankTask<'a>>),
    Batch { batch: Box<RankBatch>, ended: bool },
}

impl Fetched<'_> {
    fn batch(&mut self) -> &mut RankBatch {
        match self {
            Self::Task(task) => &mut task.batch,
            Self::Batch { batch, .. } => batch,
        }
    }

    /// Returns true at the end of the log.
    fn ended(&self) -> bool {
        match self {
            Self::Task(task) => task.ended,
            Self::Batch { ended, .. } => *ended,
        }
    }
}

/// State of the pass.
struct MatchPass<'a, 'scope> {
    identities: &'a Identities,
    measures: Measures<'a>,
    matcher: Matcher,
    source: Source<'a>,
    steps: StepTables,
    stalls: StallTables,
    instances: InstanceTable<'scope>,
    /// Number of rows that are passed to a writing thread at once.
    handover: usize,
}

impl<'a> MatchPass<'a, '_> {
    fn fetch(&mut self, rank: RankIndex) -> Result<Fetched<'a>, MergeError> {
        match &mut self.source {
            Source::Reading(pool) => {
                let task = pool.fetch(rank)?.ok_or(MergeError::Worker)?;
                Ok(Fetched::Task(task))
            }
            Source::Read { read, batch, .. } => {
                let mut batch = std::mem::take(batch);
                let ended = !read.batches.read(rank, &mut batch)?;
                Ok(Fetched::Batch { batch, ended })
            }
        }
    }

    /// Matches and measures a batch. Returns the latest time in it, in ns; `i64::MIN` without operations.
    fn take_batch(&mut self, rank: RankIndex, batch: &mut RankBatch) -> i64 {
        let measures = &mut self.measures;
        let mut latest_ns = i64::MIN;
        for operation in &mut batch.operations {
            latest_ns = latest_ns.max(operation.leave_ns).max(operation.enter_ns);
            measures.expect(operation);
            self.matcher.take(operation, |instance| measures.take(instance));
        }
        for pause in batch.pauses.drain(..).filter(|pause| pause.pauses_training) {
            measures
                .stalls
                .paused(rank, pause.start_ns, pause.end_ns, pause.kind);
        }
        for stall in batch.stalls.drain(..) {
            measures.stalls.take(rank, stall);
        }
        for cut in batch.steps.drain(..) {
            measures.stalls.step(rank, cut.step, cut.start_ns, cut.end_ns);
            measures.steps.cut(rank, cut);
        }
        latest_ns
    }

    /// Registers the end of a rank's log.
    fn end_rank(&mut self, rank: RankIndex) {
        let measures = &mut self.measures;
        self.matcher.rank_ended(rank, |instance| measures.take(instance));
        measures.steps.rank_ended(rank);
    }

    /// Writes the steps that are complete, and the stalls that all ranks have passed.
    fn write_closed(&mut self, reached_by_all_ns: i64) -> Result<(), TableError> {
        let Measures { steps, stalls, .. } = &mut self.measures;
        self.steps
            .write_closed(&mut steps.boards, self.identities, Some(self.handover))?;
        self.stalls
            .write_judged(stalls, Some(reached_by_all_ns), self.handover)
    }

    /// Gives back what was fetched, and writes the rows of the rank that are due.
    fn give_back(&mut self, rank: RankIndex, fetched: Fetched<'a>) -> Result<(), TableError> {
        let due = self.measures.rows.operations.len(rank) >= self.handover;
        match (&mut self.source, fetched, &mut self.measures.rows.operations) {
            (Source::Reading(pool), Fetched::Task(mut task), RankRows::Plain(rows)) => {
                if due {
                    std::mem::swap(&mut task.rows, &mut rows[rank.index()]);
                }
                if task.ended && task.rows.is_empty() {
                    pool.keep(task);
                } else {
                    pool.send(task);
                }
            }
            (
                Source::Read {
                    batch, operations, ..
                },
                Fetched::Batch { batch: empty, .. },
                RankRows::Packed(rows),
            ) => {
                *batch = empty;
                if due {
                    operations.write(rank, &mut rows[rank.index()])?;
                }
            }
            // Each source has its own kind of batches and rows.
            _ => {}
        }
        Ok(())
    }

    /// Sends instances to their table if enough are due. Returns false if the table cannot be written.
    fn send_instances(&mut self) -> bool {
        let rows = &mut self.measures.rows.instances;
        rows.len() < self.handover || self.instances.send(std::mem::take(rows))
    }

    /// Measures what is still pending, and writes all remaining rows.
    fn finish(mut self, logs: Logs<'_>) -> Result<Passed<'a>, MergeError> {
        let measures = &mut self.measures;
        self.matcher.finish(|instance| measures.take(instance));
        measures.finish();
        self.steps
            .write_closed(&mut measures.steps.boards, self.identities, None)?;
        self.stalls.write_judged(&mut measures.stalls, None, 0)?;
        // If the table cannot be written, its end returns the reason.
        self.instances.send(std::mem::take(&mut measures.rows.instances));
        let ranks = (0..self.identities.ranks.len()).map(RankIndex::of);
        let mut tables = TableSizes::default();
        let mut sums = Vec::with_capacity(ranks.len());
        let mut carried = Vec::with_capacity(ranks.len());
        let mut problems = Vec::new();
        let (rows, measures) = (&mut self.measures.rows.operations, &self.measures.steps);
        let mut operations = None;
        match (self.source, rows) {
            (Source::Reading(mut pool), RankRows::Plain(rows)) => {
                for rank in ranks {
                    let mut task = pool.fetch(rank)?.ok_or(MergeError::Worker)?;
                    task.rows.append(&mut rows[rank.index()]);
                    let log = logs.of_rank(self.identities, rank);
                    problems.extend(read_problems(log, rank, task.reader.problems()));
                    sums.push(training_sums(measures, rank, task.reader.sums()));
                    carried.push(task.reader.carried().last().cloned());
                    task.finish(&mut tables)?;
                }
            }
            (
                Source::Read {
                    read,
                    operations: runs,
                    ..
                },
                RankRows::Packed(rows),
            ) => {
                let mut runs = runs;
                for (rank, of_log) in ranks.zip(read.ranks) {
                    runs.write(rank, &mut rows[rank.index()])?;
                    let log = logs.of_rank(self.identities, rank);
                    problems.extend(read_problems(log, rank, &of_log.problems));
                    sums.push(training_sums(measures, rank, of_log.sums));
                    carried.push(of_log.carried);
                }
                tables.merge(read.tables);
                operations = Some(runs.finish()?);
            }
            // Each source has its own kind of rows.
            _ => {}
        }
        let steps = self.steps.finish(&mut tables)?;
        let stalls = self.stalls.finish(&mut tables)?;
        self.instances.finish(&mut tables)?;
        let rows = match (operations, steps, stalls) {
            (Some(operations), Some(steps), Some(stalls)) => Some(RowsOfRanks {
                operations,
                steps,
                stalls,
            }),
            _ => None,
        };
        Ok(Passed {
            matched: Matched {
                measures: self.measures,
                sums,
                carried,
                problems,
                tables,
            },
            rows,
        })
    }
}

/// Result of the pass, with the rows whose tables are not written yet.
struct Passed<'a> {
    matched: Matched<'a>,
    rows: Option<RowsOfRanks>,
}

/// Returns the sums of a rank without the steps that turned out not to be training.
fn training_sums(steps: &StepBoards, rank: RankIndex, mut sums: RankSums) -> RankSums {
    if let Some((board, row)) = steps.of_rank(rank) {
        board.no_training[row].take_out_of(&mut sums);
    }
    sums
}

/// Returns the problems of a rank's log.
fn read_problems(log: &RankLog, rank: RankIndex, of_records: &[Problem]) -> Vec<ProblemSummary> {
    // Of a part of a log, only damage in this part matters.
    let of_file = log
        .problems
        .iter()
        .filter(|problem| log.reads_offset(problem.offset));
    let all = of_file.chain(of_records);
    all.map(|problem| ProblemSummary {
        rank: Some(rank.0),
        file: Some(problem.path.display().to_string()),
        offset_bytes: Some(problem.offset),
        what: problem.what.clone(),
    })
    .collect()
}

/// Approximate span of the run, for progress.
#[derive(Clone, Copy)]
struct RunSpan {
    first_ns: i64,
    last_ns: i64,
}

impl RunSpan {
    /// Returns the span between the first and the last calibration of all ranks.
    fn of(logs: Logs<'_>, identities: &Identities) -> Option<Self> {
        let clocks: &Clocks = logs.clocks;
        let times = || {
            identities.ranks.iter().flat_map(move |rank| {
                let line = clocks.line(rank.log);
                logs.all[rank.log]
                    .calibrations
                    .iter()
                    .map(move |entry| line.ns(entry.ticks))
            })
        };
        let window = logs.window();
        let first_ns = times().min()?.max(window.from_ns);
        let last_ns = times().max()?.min(window.until_ns);
        (first_ns < last_ns).then_some(Self { first_ns, last_ns })
    }

    /// Returns the share of the span that is before `reached_ns`, from 0 to 1.
    fn share_until(self, reached_ns: i64) -> f64 {
        let done_ns = reached_ns.max(self.first_ns) - self.first_ns;
        (done_ns as f64 / (self.last_ns - self.first_ns).max(1) as f64).min(1.0)
    }
}
