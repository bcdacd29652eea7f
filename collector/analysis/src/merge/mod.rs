//! Merges run directories into a session: the passes over all logs, in order.
//!
//! | stage | content |
//! |---|---|
//! | [`opening`] | empties the session directory, aligns the clocks, identifies ranks |
//! | [`clock_logs`] | with several hosts and many ranks: reads the logs for evidence about clocks |
//! | [`clock_pass`] | with several hosts: matches this evidence, solves the clocks |
//! | [`step_pass`] | finds steps and structure from samples of the logs |
//! | [`read_pass`] | with many ranks: reads the logs into temporary files, writes the tables of single ranks |
//! | [`match_pass`] | matches all operations, measures the instances, writes their tables |
//! | [`write_pass`] | with many ranks: writes the tables of operations, steps and stalls |
//! | [`units`] | both of these passes, in units that other processes run |
//! | [`crate::summary`] | sums, scores and findings |
//! | [`session_directory`] | writes the last tables and the summary |
//!
//! [`in_periods`] repeats them for each period of a long run.

pub mod around_matching;
pub mod batch_runs;
pub mod carried_file;
pub mod checked_file;
pub mod clock_logs;
pub mod clock_pass;
pub mod error;
pub mod in_periods;
pub mod instance_runs;
pub mod logs;
pub mod match_pass;
pub mod opening;
pub mod options;
pub mod period;
pub mod pool;
pub mod progress;
pub mod rank_tables;
pub mod read_pass;
pub mod readers;
pub mod row_runs;
pub mod session_directory;
pub mod shared_work;
pub mod step_pass;
pub mod tables;
pub mod temporary_file;
pub mod unit_runner;
pub mod units;
pub mod version;
pub mod write_pass;

pub use error::MergeError;
pub use options::MergeOptions;
pub use progress::Progress;

use crate::ingest::between::LogId;
use crate::ingest::gpu_samples::SampledGpus;
use crate::ingest::open_files::allow_many_files;
use crate::ingest::part::Last;
use crate::ingest::ray_tasks::RayTasks;
use crate::ingest::run_part::{Extent, RunPart};
use crate::ingest::{hangs, ingest_in_place, ingest_with, ras};
use crate::measures::merge_result::MergeResult;
use crate::merge::carried_file::CarriedLogs;
use crate::merge::logs::Logs;
use crate::merge::match_pass::match_ranks;
use crate::merge::opening::{Opened, open};
use crate::merge::readers::{Additions, Readers, Worlds};
use crate::merge::step_pass::{find_steps, find_structures};
use crate::merge::tables::TablesFolder;
use crate::merge::unit_runner::UnitRunner;
use crate::summary;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{InstanceRow, ProblemSummary, Problems, Session};
use rankscope_ranklog::reader::RankLog;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};

/// Reads the logs of all directories and writes a session. Calls `progress` often, from this thread.
pub fn merge(options: &MergeOptions, progress: &mut dyn FnMut(Progress)) -> Result<Session, MergeError> {
    merge_last(options, Last::default(), progress)
}

/// Merges only the last part of the run, as if the run had begun there ([`crate::ingest::part`]).
pub fn merge_last(
    options: &MergeOptions,
    last: Last,
    progress: &mut dyn FnMut(Progress),
) -> Result<Session, MergeError> {
    merge_into(
        &TablesFolder::of_session(&options.output),
        options,
        last,
        progress,
    )
}

/// Merges as [`merge`] does, with the same session. `runner` lets other processes read the logs and write the tables
/// ([`units`]).
pub fn merge_by(
    runner: Arc<dyn UnitRunner>,
    options: &MergeOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Session, MergeError> {
    let folder = TablesFolder::of_session(&options.output).read_by(runner);
    merge_into(&folder, options, Last::default(), progress)
}

/// Merges as [`merge`] does, but as if the job had very many ranks, or very few. The session is the same; tests compare
/// them.
#[doc(hidden)]
pub fn merge_as_of(many_ranks: bool, options: &MergeOptions) -> Result<Session, MergeError> {
    let from = if many_ranks { 0 } else { usize::MAX };
    let folder = TablesFolder::of_session(&options.output).reading_before_from(from);
    merge_into(&folder, options, Last::default(), &mut |_| {})
}

/// Computes the summary of the last part of the run on the calling thread and a second one, and writes no file. A caller
/// that reads a running job repeatedly would otherwise create thousands of files each time, one per rank and table.
///
/// The rows of the table of instances are sent to `instances`, if it is given. Their number is at most that of the records.
pub fn summarize_last(
    directories: &[PathBuf],
    last: Last,
    instances: Option<Sender<Vec<InstanceRow>>>,
) -> Result<Session, MergeError> {
    let options = MergeOptions {
        directories: directories.to_vec(),
        output: PathBuf::new(),
        threads: Some(1),
        most_pending: None,
        origins: Vec::new(),
    };
    merge_into(&TablesFolder::none(instances), &options, last, &mut |_| {})
}

fn merge_into(
    folder: &TablesFolder,
    options: &MergeOptions,
    last: Last,
    progress: &mut dyn FnMut(Progress),
) -> Result<Session, MergeError> {
    progress(Progress::of_phase("opening logs", 0));
    let mut ingested = if last == Last::default() {
        ingest_with(&options.directories, &options.copies(), &Default::default())?
    } else {
        ingest_in_place(&options.directories)?
    };
    let mut problems = ingested.problems;
    problems.append(&mut ingested.without_end);
    let extent = Extent::Last(last);
    let merged = merge_logs(folder, options, extent, (&mut ingested.logs, problems), progress)?;
    Ok(merged.session)
}

/// Result of a merge of opened logs.
struct MergedLogs {
    session: Session,
    /// Numbers of the logs at the end of the part.
    carried: CarriedLogs,
}

/// Merges a part of opened logs. `problems` are those of their files.
fn merge_logs(
    folder: &TablesFolder,
    options: &MergeOptions,
    extent: Extent<'_>,
    (logs, mut problems): (&mut [RankLog], Vec<ProblemSummary>),
    progress: &mut dyn FnMut(Progress),
) -> Result<MergedLogs, MergeError> {
    let opened = open(folder, options, extent, logs, progress)?;
    let Opened {
        clocks,
        mut identities,
        part,
        problems: found,
    } = opened;
    problems.extend(found);
    let logs = &*logs;
    allow_many_files();

    let delays: Vec<_> = logs.iter().map(|_| OnceLock::new()).collect();
    let logs = Logs {
        all: logs,
        clocks: &clocks,
        part: part.as_ref(),
        delays: &delays,
    };
    let mut plans = find_steps(logs, &identities, progress);
    let structures = find_structures(logs, &mut identities, &mut plans);
    let worlds = Worlds {
        plans: &plans,
        structures: &structures,
    };
    let gpus = SampledGpus::of_directories(
        &options.directories,
        (&clocks, &identities, logs.all),
        logs.window(),
        &mut problems,
    );
    // Tasks are only in tables, which a reader of a running job does not have.
    let ray = match folder.session() {
        Some(_) => RayTasks::of_directories(&options.directories, logs.all, &mut problems),
        None => RayTasks::default(),
    };
    let additions = Additions {
        gpus: &gpus,
        ray: &ray,
    };
    let readers = Readers {
        logs,
        identities: &identities,
        additions: &additions,
        worlds,
    };
    let mut matched = match_ranks(options, folder, readers, progress)?;

    let operations = matched.measures.totals.operations;
    progress(Progress::of_phase("writing", operations));
    problems.append(&mut matched.problems);
    let period = logs.part.map(RunPart::window).filter(|part| part.has_end());
    // A status has no time. It describes the end of the recording.
    let has_last_status = period.is_none() || !logs.all.iter().any(RankLog::ends_early);
    let ras = match has_last_status {
        true => ras::of_directories(&options.directories, &mut problems),
        false => Vec::new(),
    };
    let is_in_period = |unix_ns: i64| {
        let at_ns = unix_ns.saturating_sub(clocks.axis.origin_unix_ns);
        period.is_none_or(|period| period.contains(at_ns))
    };
    let hangs = hangs::of_directories(&options.directories, is_in_period, &mut problems);
    let mut session = summary::session(&MergeResult {
        directories: &options.directories,
        logs: logs.all,
        part: logs.part.map(RunPart::window),
        clocks: &clocks,
        identities: &identities,
        plans: &plans,
        structures: &structures,
        sums: &matched.sums,
        measures: &matched.measures,
        ras,
        hangs,
        other_gpus: gpus.of_no_rank(),
        problems,
    });
    options.name_origins(&mut session);
    let Some(output) = folder.session() else {
        session.problems.listed.truncate(Problems::MAX_LISTED);
        let carried = CarriedLogs::new();
        return Ok(MergedLogs { session, carried });
    };
    let host_of = |rank: RankIndex| clocks.host_of[identities.ranks[rank.index()].log] as u32;
    let traffic = matched.measures.traffic.rows(&identities, &matched.sums, host_of);
    session_directory::complete(output, &mut session, matched.tables, traffic)?;
    let ranks = identities.ranks.iter().zip(matched.carried);
    let carried = ranks.filter_map(|(rank, carried)| {
        let carried = carried?;
        Some((LogId::of(&logs.all[rank.log]), Arc::new(carried)))
    });
    let carried = carried.collect();
    Ok(MergedLogs { session, carried })
}
