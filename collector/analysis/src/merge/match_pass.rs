//! Third stage of a merge: matches the operations of all ranks to instances, measures them, and writes their rows.
//!
//! Decoding threads read the logs and write the tables of single ranks ([`crate::merge::pool`]). This thread matches,
//! measures, and closes the steps and stalls that all ranks have passed.

use crate::clocks::clock::Clocks;
use crate::identity::Identities;
use crate::identity::world_error;
use crate::ingest::gpu_samples::SampledGpus;
use crate::ingest::part::LeftOut;
use crate::ingest::ray_tasks::RayTasks;
use crate::matching::{Matcher, stride};
use crate::measures::all::Measures;
use crate::measures::stalls::StallBoard;
use crate::measures::step_board::StepBoard;
use crate::merge::error::MergeError;
use crate::merge::logs::Logs;
use crate::merge::options::MergeOptions;
use crate::merge::pool::{Pool, RankTask};
use crate::merge::progress::Progress;
use crate::merge::tables::{
    InstanceTable, StallTables, StepTables, TableSizes, TablesFolder, row_limits, rows_per_handover,
};
use crate::model::sources::CUPTI;
use crate::rank::anchors::Anchors;
use crate::rank::{FrameworkTask, RankBatch, RankSums};
use crate::steps::plan::StepPlan;
use crate::structure::Structure;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{ProblemSummary, RowLimits, TableError};
use rankscope_ranklog::reader::RankLog;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Steps and structure, by world.
#[derive(Clone, Copy)]
pub struct Worlds<'a> {
    /// Steps of each world.
    pub plans: &'a [StepPlan],
    /// Structure of each world.
    pub structures: &'a [Structure],
}

impl Worlds<'_> {
    /// Returns the ends of the steps of a rank.
    fn anchors_of(self, identities: &Identities, rank: RankIndex) -> Anchors {
        identities.ranks[rank.index()]
            .world
            .and_then(|world| self.plans.get(world as usize))
            .map_or_else(Anchors::default, |plan| plan.anchors_of(rank))
    }
}

/// Other files of a run directory, whose content is added to the ranks.
pub struct Additions<'a> {
    /// Samples of the GPUs.
    pub gpus: &'a SampledGpus,
    /// Tasks of Ray.
    pub ray: &'a RayTasks,
}

impl Additions<'_> {
    /// Returns the tasks that a framework ran in the process of a rank.
    fn tasks(&self, logs: Logs<'_>, identities: &Identities, rank: RankIndex) -> Vec<FrameworkTask> {
        let log = identities.ranks[rank.index()].log;
        self.ray.of_log(&logs.all[log], &logs.clocks.line(log))
    }
}

/// Result of the pass.
pub struct Matched<'a> {
    /// Measures over all instances.
    pub measures: Measures<'a>,
    /// Sums of each rank.
    pub sums: Vec<RankSums>,
    /// Problems of the logs, found while they were read.
    pub problems: Vec<ProblemSummary>,
    /// Tables that were written.
    pub tables: TableSizes,
}

/// Reads all logs, matches their operations, and measures the instances.
pub fn match_ranks<'a>(
    options: &MergeOptions,
    folder: &TablesFolder,
    logs: Logs<'a>,
    identities: &'a Identities,
    additions: &Additions<'_>,
    worlds: Worlds<'a>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Matched<'a>, MergeError> {
    let ranks = identities.ranks.len();
    let limits = row_limits(ranks);
    let tasks = rank_tasks(folder, logs, identities, additions, worlds, limits)?;
    let steps = StepTables::create(folder, ranks, limits)?;
    let instances = InstanceTable::create(folder)?;
    let span = RunSpan::of(logs, identities);
    std::thread::scope(|scope| {
        let mut pass = MatchPass {
            identities,
            measures: new_measures(logs, identities, worlds),
            matcher: Matcher::new(&identities.communicators, ranks, options.pending_limit(ranks)),
            pool: Pool::start(scope, options.decoding_threads(), tasks),
            steps,
            stalls: StallTables::new(folder, ranks, limits),
            instances: InstanceTable::start(scope, instances),
            handover: rows_per_handover(ranks),
        };
        let mut frontier = Frontier::new(ranks);
        while let Some((rank, behind_ns)) = frontier.next() {
            let mut task = pass.fetch(rank)?;
            let reached_ns = behind_ns.max(pass.take_batch(rank, &mut task.batch));
            if task.ended {
                pass.end_rank(rank);
            } else {
                frontier.reach(rank, reached_ns);
            }
            pass.write_closed(frontier.reached_by_all_ns())?;
            pass.send_back(task);
            if !pass.send_instances() {
                break;
            }
            progress(Progress {
                phase: "matching",
                operations: pass.measures.totals.operations,
                share: span.map(|span| span.share_until(reached_ns)),
            });
        }
        pass.finish(logs)
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
            .of_part(logs.from_ns.is_some())
        })
        .collect();
    let all_ranks = (0..identities.ranks.len()).map(RankIndex::of);
    let has_devices = |rank: RankIndex| logs.of_rank(identities, rank).properties.contains_key(CUPTI);
    let mut stalls = StallBoard::new(all_ranks.clone().map(has_devices));
    for rank in all_ranks.filter(|&rank| !worlds.anchors_of(identities, rank).is_empty()) {
        stalls.expect_steps(rank);
    }
    let mut measures = Measures::new(identities, logs.clocks, boards, stalls);
    measures.left_out = logs.from_ns.map(LeftOut::new);
    for structure in worlds.structures {
        let stages = structure.pipelines.iter().flat_map(|pipeline| &pipeline.stages);
        stages.flatten().for_each(|&rank| measures.mark_stage(rank));
    }
    measures
}

/// Opens the reader and the tables of each rank.
fn rank_tasks<'a>(
    folder: &TablesFolder,
    logs: Logs<'a>,
    identities: &Identities,
    additions: &Additions<'_>,
    worlds: Worlds<'_>,
    limits: RowLimits,
) -> Result<Vec<RankTask<'a>>, TableError> {
    let ranks = identities.ranks.len();
    (0..ranks)
        .map(RankIndex::of)
        .map(|rank| {
            let anchors = worlds.anchors_of(identities, rank);
            let reader = logs
                .reader(identities, rank, anchors)
                .with_stride(stride(ranks))
                .with_gpus(additions.gpus.of_rank(rank, identities, logs.clocks, logs.all))
                .with_tasks(additions.tasks(logs, identities, rank));
            RankTask::new(rank, reader, folder, limits)
        })
        .collect()
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

/// State of the pass.
struct MatchPass<'a, 'scope> {
    identities: &'a Identities,
    measures: Measures<'a>,
    matcher: Matcher,
    pool: Pool<'a>,
    steps: StepTables,
    stalls: StallTables,
    instances: InstanceTable<'scope>,
    /// Number of rows that are passed to a writing thread at once.
    handover: usize,
}

impl<'a> MatchPass<'a, '_> {
    fn fetch(&mut self, rank: RankIndex) -> Result<Box<RankTask<'a>>, MergeError> {
        self.pool.fetch(rank)?.ok_or(MergeError::Worker)
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

    /// Sends a rank's task to the decoding threads, with the rows that are due.
    fn send_back(&mut self, mut task: Box<RankTask<'a>>) {
        let rows = &mut self.measures.rows.operations[task.rank.index()];
        if rows.len() >= self.handover {
            std::mem::swap(&mut task.rows, rows);
        }
        if task.ended && task.rows.is_empty() {
            self.pool.keep(task);
        } else {
            self.pool.send(task);
        }
    }

    /// Sends instances to their table if enough are due. Returns false if the table cannot be written.
    fn send_instances(&mut self) -> bool {
        let rows = &mut self.measures.rows.instances;
        rows.len() < self.handover || self.instances.send(std::mem::take(rows))
    }

    /// Measures what is still pending, and writes all remaining rows.
    fn finish(mut self, logs: Logs<'_>) -> Result<Matched<'a>, MergeError> {
        let measures = &mut self.measures;
        self.matcher.finish(|instance| measures.take(instance));
        measures.finish();
        self.steps
            .write_closed(&mut measures.steps.boards, self.identities, None)?;
        self.stalls.write_judged(&mut measures.stalls, None, 0)?;
        // If the table cannot be written, its end returns the reason.
        self.instances.send(std::mem::take(&mut measures.rows.instances));
        let ranks = self.identities.ranks.len();
        let mut tables = TableSizes::default();
        let mut sums = Vec::with_capacity(ranks);
        let mut problems = Vec::new();
        for rank in (0..ranks).map(RankIndex::of) {
            let mut task = self.fetch(rank)?;
            task.rows.append(&mut self.measures.rows.operations[rank.index()]);
            problems.extend(read_problems(logs.of_rank(self.identities, rank), &task));
            sums.push(self.training_sums(&task));
            task.finish(&mut tables)?;
        }
        self.steps.finish(&mut tables)?;
        self.stalls.finish(&mut tables)?;
        self.instances.finish(&mut tables)?;
        Ok(Matched {
            measures: self.measures,
            sums,
            problems,
            tables,
        })
    }

    /// Returns the sums of a rank without the steps that turned out not to be training.
    fn training_sums(&self, task: &RankTask<'_>) -> RankSums {
        let mut sums = task.reader.sums();
        if let Some((board, row)) = self.measures.steps.of_rank(task.rank) {
            board.no_training[row].take_out_of(&mut sums);
        }
        sums
    }
}

/// Returns the problems of a rank's log.
fn read_problems(log: &RankLog, task: &RankTask<'_>) -> Vec<ProblemSummary> {
    let all = log.problems.iter().chain(task.reader.problems());
    all.map(|problem| ProblemSummary {
        rank: Some(task.rank.0),
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
        let first_ns = times().min()?.max(logs.from_ns.unwrap_or(i64::MIN));
        let last_ns = times().max()?;
        (first_ns < last_ns).then_some(Self { first_ns, last_ns })
    }

    /// Returns the share of the span that is before `reached_ns`, from 0 to 1.
    fn share_until(self, reached_ns: i64) -> f64 {
        let done_ns = reached_ns.max(self.first_ns) - self.first_ns;
        (done_ns as f64 / (self.last_ns - self.first_ns).max(1) as f64).min(1.0)
    }
}
