//! Session directory: is emptied before a merge, and gets its last tables and its summary at the end.

use crate::merge::error::MergeError;
use crate::merge::tables::TableSizes;
use crate::merge::units::parts;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::VIEW_DIRECTORY;
use rankscope_formats::session::{
    CounterRow, InstanceRow, LossRow, NameRow, OperationRow, PauseRow, ProblemRow, ProblemSummary, Problems,
    ProgramSpanRow, SUMMARY_FILE, Session, SpanRow, StallRow, StepRow, Table, TableError, TableWriter,
    TrafficRow, WorkRow, part_path,
};
use rankscope_formats::whole_file;
use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::Path;

/// File that marks a session directory with an unfinished merge.
const UNFINISHED: &str = ".unfinished";

/// Directories of an earlier session that are removed.
const TABLES: [&str; 14] = [
    OperationRow::NAME,
    InstanceRow::NAME,
    SpanRow::NAME,
    ProgramSpanRow::NAME,
    CounterRow::NAME,
    StepRow::NAME,
    WorkRow::NAME,
    StallRow::NAME,
    PauseRow::NAME,
    NameRow::NAME,
    TrafficRow::NAME,
    LossRow::NAME,
    ProblemRow::NAME,
    VIEW_DIRECTORY,
];

/// Creates an empty session directory. Only removes an earlier session.
pub fn prepare(output: &Path) -> Result<(), MergeError> {
    let error = |source| MergeError::Output {
        path: output.to_path_buf(),
        source,
    };
    fs::create_dir_all(output).map_err(error)?;
    let unfinished = output.join(UNFINISHED);
    let is_session = output.join(SUMMARY_FILE).exists() || unfinished.exists();
    let is_empty = fs::read_dir(output).map_err(error)?.next().is_none();
    if !is_session && !is_empty {
        return Err(MergeError::Occupied(output.to_path_buf()));
    }
    // Marks the directory as a session, in case this merge is interrupted.
    fs::write(&unfinished, b"").map_err(error)?;
    let summary = output.join(SUMMARY_FILE);
    match fs::remove_file(&summary) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(error(source)),
        _ => {}
    }
    whole_file::remove_leftovers(&summary).map_err(error)?;
    parts::remove_leftovers(output).map_err(error)?;
    for table in TABLES {
        match fs::remove_dir_all(output.join(table)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(error(source)),
            _ => {}
        }
    }
    Ok(())
}

/// Writes the tables of traffic, losses and problems, and then the summary. `tables` are the tables so far.
pub fn complete(
    output: &Path,
    session: &mut Session,
    mut tables: TableSizes,
    traffic: Vec<TrafficRow>,
) -> Result<(), MergeError> {
    write_table(output, traffic, &mut tables)?;
    write_table(output, losses(session), &mut tables)?;
    write_table(output, problems(&session.problems.listed), &mut tables)?;
    session.problems.listed.truncate(Problems::MAX_LISTED);
    session.tables = tables.into_tables();
    session.tables.sort_by(|one, other| one.name.cmp(&other.name));
    session.write(output).map_err(|source| MergeError::Output {
        path: output.join(SUMMARY_FILE),
        source,
    })?;
    // From now on the summary shows that the directory is a session.
    let _ = fs::remove_file(output.join(UNFINISHED));
    Ok(())
}

fn write_table<T: Table>(output: &Path, mut rows: Vec<T>, tables: &mut TableSizes) -> Result<(), TableError> {
    let mut table = TableWriter::<T>::create(&part_path::<T>(output), usize::MAX)?;
    table.write(&mut rows)?;
    tables.finish(table)
}

fn losses(session: &Session) -> Vec<LossRow> {
    session
        .losses
        .iter()
        .map(|loss| LossRow {
            rank: loss.rank.map(RankIndex),
            source: loss.source.clone(),
            cause: loss.cause.clone(),
            kind: loss.kind.clone(),
            count: loss.count,
            first_ns: loss.first_ns,
            last_ns: loss.last_ns,
        })
        .collect()
}

fn problems(problems: &[ProblemSummary]) -> Vec<ProblemRow> {
    problems
        .iter()
        .map(|problem| ProblemRow {
            rank: problem.rank.map(RankIndex),
            file: problem.file.clone().map(Cow::Owned),
            offset_bytes: problem.offset_bytes,
            what: problem.what.clone(),
        })
        .collect()
}
