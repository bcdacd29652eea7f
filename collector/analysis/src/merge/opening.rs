//! Aligns the clocks of the opened logs, and identifies the ranks.

use crate::clocks::clock::Clocks;
use crate::clocks::solution::ClockSolution;
use crate::identity::Identities;
use crate::identity::draft::Inconsistency;
use crate::ingest::run_part::{Extent, LogCuts, RunPart};
use crate::merge::clock_pass::{ClockProgress, Reading, collect};
use crate::merge::error::MergeError;
use crate::merge::logs::Logs;
use crate::merge::options::MergeOptions;
use crate::merge::progress::Progress;
use crate::merge::session_directory;
use crate::merge::tables::TablesFolder;
use crate::rank::anchors::Anchors;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::ProblemSummary;
use rankscope_ranklog::reader::RankLog;

/// Final clocks and identities of the logs.
pub struct Opened {
    /// The axis.
    pub clocks: Clocks,
    /// Identities of ranks and communicators.
    pub identities: Identities,
    /// The merged part, if only a part of the run is merged.
    pub part: Option<RunPart>,
    /// Problems of the clocks and of the identities.
    pub problems: Vec<ProblemSummary>,
}

/// Aligns the clocks, identifies the ranks, and restricts the logs to the merged part. Of several hosts, it derives the clocks
/// from the job's own operations. Empties the session directory.
pub fn open(
    folder: &TablesFolder,
    options: &MergeOptions,
    extent: Extent<'_>,
    logs: &mut [RankLog],
    progress: &mut dyn FnMut(Progress),
) -> Result<Opened, MergeError> {
    if let Some(output) = folder.session() {
        session_directory::prepare(output)?;
    }
    let mut clocks = Clocks::align(logs);
    if let Extent::Between(between) = extent {
        clocks.move_origin(between.origin_unix_ns);
    }
    let cuts = LogCuts::restrict(extent, logs, &clocks);
    let logs = &*logs;
    let mut identities = Identities::learn(logs, &clocks);
    if clocks.hosts.len() > 1 {
        let solution = solve_clocks(folder, options, (logs, &clocks), &identities, progress)?;
        clocks.correct(solution);
        // By the corrected clocks, the first rank may be another one.
        identities = Identities::learn(logs, &clocks);
    }
    let part = cuts.map(|cuts| cuts.on_axis(extent, &clocks, logs.len()));
    let mut problems = Vec::new();
    problems.extend(clocks.problems.drain(..).map(|what| problem(None, None, what)));
    for Inconsistency { log, what } in &identities.problems {
        let file = logs[*log].path.display().to_string();
        problems.push(problem(rank_of_log(&identities, *log), Some(file), what.clone()));
    }
    Ok(Opened {
        clocks,
        identities,
        part,
        problems,
    })
}

/// Derives the clocks of several hosts from the job's own operations, in a separate pass over all logs.
fn solve_clocks(
    folder: &TablesFolder,
    options: &MergeOptions,
    (logs, clocks): (&[RankLog], &Clocks),
    identities: &Identities,
    progress: &mut dyn FnMut(Progress),
) -> Result<ClockSolution, MergeError> {
    let ranks = identities.ranks.len();
    let readable = Logs {
        all: logs,
        clocks,
        // The clocks are not known yet.
        part: None,
        delays: &[],
    };
    collect(
        logs,
        clocks,
        identities,
        Reading {
            directory: folder.session_if_read_before(ranks),
            threads: options.decoding_threads(),
            most_pending: options.pending_limit(ranks),
        },
        |rank| readable.reader(identities, rank, Anchors::default()),
        &mut |done| {
            let phase = "aligning clocks";
            progress(match done {
                ClockProgress::Logs(logs) => Progress {
                    share: Some(logs as f64 / ranks.max(1) as f64),
                    ..Progress::of_phase(phase, 0)
                },
                ClockProgress::Operations(operations) => Progress::of_phase(phase, operations),
            });
        },
    )
}

fn problem(rank: Option<RankIndex>, file: Option<String>, what: String) -> ProblemSummary {
    ProblemSummary {
        rank: rank.map(|rank| rank.0),
        file,
        offset_bytes: None,
        what,
    }
}

fn rank_of_log(identities: &Identities, log: usize) -> Option<RankIndex> {
    identities
        .ranks
        .iter()
        .position(|rank| rank.log == log)
        .map(RankIndex::of)
}
