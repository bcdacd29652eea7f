//! Summary of one run, from its session. It uses this run alone, so a stored summary is equivalent to the session.
//!
//! In the order of the data: [`counted_steps`] selects the counted steps, [`step_parts`] reads the steps, and
//! [`operations`] the operations and instances. [`device_work`] reads device activity, [`named_time`] the named parts of
//! host time, and [`whole_run`] `session.json`. All of them add up [`cells`].

mod cells;
mod counted_steps;
mod device_work;
mod named_time;
mod operations;
mod step_parts;
mod sums;
mod whole_run;

pub use counted_steps::{OUTLIER_RULE, WARM_UP_RULE};
pub use whole_run::MAX_KERNELS;

use counted_steps::CountedSteps;
use rankscope_formats::comparison::{RunSummary, StepsUsed, WorstStep};
use rankscope_formats::session::{Session, SummaryError, TableError};
use std::path::Path;
use sums::Sums;

/// Error while summarising a session.
#[derive(Debug, thiserror::Error)]
pub enum SummariseError {
    /// The summary of the session cannot be read.
    #[error(transparent)]
    Session(#[from] SummaryError),
    /// A table of the session cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// Compared run, with data that only its session has.
#[derive(Clone, Debug)]
pub struct Summarised {
    /// Stored summary.
    pub summary: RunSummary,
    /// Longest counted steps, the longest first.
    pub worst_steps: Vec<WorstStep>,
}

/// Maximum number of longest steps.
const WORST_STEPS: usize = 3;

/// Summarises the session in `directory`; `shown` is the displayed name of the run.
pub fn summarise(directory: &Path, shown: &str) -> Result<Summarised, SummariseError> {
    let session = Session::read(directory)?;
    let world = main_world(&session);
    let members = session
        .worlds
        .get(world as usize)
        .map_or(&[][..], |world| &world.ranks);
    let is_device = step_parts::is_device(&session, members);
    let counted = CountedSteps::read(directory, &session, world, is_device)?;
    let read = read_ranks(directory, &session, members, is_device, &counted)?;
    let mut sums = read.sums;
    operations::instances(directory, &session, world, &counted, &mut sums)?;
    let steps = StepsUsed {
        source: session.steps.source.clone(),
        reason: whole_run::why_no_steps(&session, &counted),
        train: counted.train,
        partial: counted.partial,
        evaluate: counted.evaluate,
        checkpoint: counted.checkpoint,
        warm_up_rule: WARM_UP_RULE.to_owned(),
        warm_up: counted.warm_up,
        counted: counted.counted,
        outlier_rule: OUTLIER_RULE.to_owned(),
        outliers: counted.outliers,
        sequence: sums.sequence.usual(),
    };
    let parts = step_parts::names(is_device);
    let worst_steps = sums.series.longest(&counted, WORST_STEPS);
    let summary = RunSummary {
        tool: session.tool.clone(),
        run: whole_run::name(&session, shown),
        kind: whole_run::kind(&session),
        surroundings: session.surroundings.clone(),
        world: whole_run::world(&session, world),
        parts: parts.iter().map(|&part| part.to_owned()).collect(),
        ranks: read.ranks,
        metrics: whole_run::metrics(
            &session,
            world,
            &counted,
            &sums,
            is_device,
            steps.reason.as_deref(),
        ),
        operations: operations::of_run(&sums, &counted),
        communicators: whole_run::communicators(&session, world),
        findings: whole_run::findings(&session),
        steps,
    };
    Ok(Summarised { summary, worst_steps })
}

/// Returns the world with the most training steps, as in the report; the first one if several have equally many.
fn main_world(session: &Session) -> u32 {
    let steps = |world: u32| -> u64 {
        let list = session.steps.list.iter().filter(|step| step.world == world);
        list.map(|step| u64::from(step.steps)).sum()
    };
    (0..session.worlds.len() as u32)
        .max_by_key(|&world| (steps(world), std::cmp::Reverse(world)))
        .unwrap_or(0)
}

/// Data from the files of the ranks.
struct RanksRead {
    ranks: Vec<rankscope_formats::comparison::RankOfRun>,
    sums: Sums,
}

/// Reads the tables of these ranks, on as many threads as there are processors.
fn read_ranks(
    directory: &Path,
    session: &Session,
    members: &[u32],
    is_device: bool,
    counted: &CountedSteps,
) -> Result<RanksRead, TableError> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(members.len().max(1));
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || -> Result<(Vec<_>, Sums), TableError> {
        let mut sums = Sums::new(counted);
        let mut ranks = Vec::new();
        loop {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(&rank) = members.get(at) else {
                return Ok((ranks, sums));
            };
            let steps = step_parts::read(directory, session, rank, counted, is_device, &mut sums)?;
            operations::of_rank(directory, session, rank, at == 0, counted, &mut sums)?;
            named_time::read(directory, rank, counted, &mut sums)?;
            if is_device {
                device_work::read(directory, rank, &steps.windows, counted, &mut sums)?;
            }
            ranks.push(steps.rank);
        }
    };
    let parts: Vec<Result<(Vec<_>, Sums), TableError>> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        started
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    let mut read = RanksRead {
        ranks: Vec::new(),
        sums: Sums::new(counted),
    };
    for part in parts {
        let (ranks, sums) = part?;
        read.ranks.extend(ranks);
        read.sums.merge(&sums);
    }
    read.ranks.sort_by_key(|rank| rank.number);
    Ok(read)
}
