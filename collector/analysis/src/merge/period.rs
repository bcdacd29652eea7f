//! Merges one period into a directory: its session, the viewer's index, and what the next period needs.

use crate::index;
use crate::ingest::between::{Between, RunCut};
use crate::ingest::run_part::Extent;
use crate::merge::carried_file;
use crate::merge::error::MergeError;
use crate::merge::options::MergeOptions;
use crate::merge::progress::Progress;
use crate::merge::tables::TablesFolder;
use crate::merge::{MergedLogs, merge_logs};
use rankscope_formats::session::{PeriodCut, ProblemSummary, Session};
use rankscope_ranklog::reader::RankLog;
use std::io;

/// Merges the logs of a period into the directory `options.output`. `problems` are those of their files.
pub fn merge_period(
    options: &MergeOptions,
    between: &Between<'_>,
    logs: &mut [RankLog],
    problems: Vec<ProblemSummary>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Session, MergeError> {
    let output = &options.output;
    let folder = TablesFolder::of_session(output);
    let MergedLogs { session, carried } = merge_logs(
        &folder,
        options,
        Extent::Between(*between),
        (logs, problems),
        progress,
    )?;
    let written = |source: io::Error| MergeError::Output {
        path: output.clone(),
        source,
    };
    cut_of(between.until).write(output).map_err(written)?;
    carried_file::write(output, &carried).map_err(written)?;
    let ranks = 0..session.ranks.len() as u32;
    let mut indexed = |done: u32, all: u32| {
        progress(Progress {
            share: Some(f64::from(done) / f64::from(all.max(1))),
            ..Progress::of_phase("indexing for the viewer", session.totals.operations)
        });
    };
    // The viewer makes missing parts itself.
    let _ = index::ensure(output, &session, ranks, &mut indexed);
    Ok(session)
}

fn cut_of(cut: &RunCut) -> PeriodCut {
    let logs = cut.of_logs.iter();
    PeriodCut {
        unix_ns: cut.unix_ns,
        logs: logs
            .map(|(log, cut)| (log.nonce, log.pid, cut.ticks, cut.begin_ticks, cut.last_ticks))
            .collect(),
    }
}
