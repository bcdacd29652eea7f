//! Opens the logs, aligns the clocks, and identifies the ranks.

use crate::clocks::clock::Clocks;
use crate::clocks::solution::ClockSolution;
use crate::identity::Identities;
use crate::identity::draft::Inconsistency;
use crate::ingest::part::{Begin, Last};
use crate::ingest::{Ingested, ingest, ingest_in_place};
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

/// Logs with final clocks and identities.
pub struct Opened {
    /// The logs, without the records before the merged part.
    pub logs: Vec<RankLog>,
    /// The axis.
    pub clocks: Clocks,
    /// Identities of ranks and communicators.
    pub identities: Identities,
    /// Start of the merged part, if only a part of the run is merged.
    pub from_ns: Option<i64>,
    /// Problems of the logs, of the clocks and of the identities.
    pub problems: Vec<ProblemSummary>,
}

/// Opens all logs, and empties the session directory once there are logs. Of several hosts, it also derives the clocks
/// from the job's own operations.
pub fn open(
    folder: &TablesFolder,
    options: &MergeOptions,
    last: Last,
    progress: &mut dyn FnMut(Progress),
) -> Result<Opened, MergeError> {
    progress(Progress::of_phase("opening logs", 0));
    let Ingested {
        mut logs,
        mut problems,
    } = if last == Last::default() {
        ingest(&options.directories)?
    } else {
        ingest_in_place(&options.directories)?
    };
    if let Some(output) = folder.session() {
        session_directory::prepare(output)?;
    }
    let mut clocks = Clocks::align(&logs);
    let begin = Begin::choose(&mut logs, &clocks, last);
    let mut identities = Identities::learn(&logs, &clocks);
    if clocks.hosts.len() > 1 {
        let solution = solve_clocks(folder, options, (&logs, &clocks), &identities, progress)?;
        clocks.correct(solution);
        // By the corrected clocks, the first rank may be another one.
        identities = Identities::learn(&logs, &clocks);
    }
    let from_ns = begin.map(|begin| begin.from_ns(&clocks));
    problems.extend(clocks.problems.drain(..).map(|what| problem(None, None, what)));
    for Inconsistency { log, what } in &identities.problems {
        let file = logs[*log].path.display().to_string();
        problems.push(problem(rank_of_log(&identities, *log), Some(file), what.clone()));
    }
    Ok(Opened {
        logs,
        clocks,
        identities,
        from_ns,
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
        from_ns: None,
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
