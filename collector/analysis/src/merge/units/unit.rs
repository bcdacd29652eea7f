//! Runs a unit.

use crate::ingest::MAX_OPEN_FILES;
use crate::merge::checked_file;
use crate::merge::options::MergeOptions;
use crate::merge::period::merge_period;
use crate::merge::tables::TableSizes;
use crate::merge::units::error::UnitError;
use crate::merge::units::input::{UnitInput, Work};
use crate::merge::units::output::{PartFile, UnitOutput};
use crate::merge::units::parts::{self, RECEIPT};
use crate::merge::units::period::PeriodInput;
use crate::merge::version::version;
use rankscope_formats::session::Period;
use rankscope_ranklog::reader::RankLog;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

/// Runs a unit whose input is in `parts`, and writes its output there, under the name of this attempt. `allows` decides about the
/// files that this process may use. Returns the number of records of the unit's logs; 0 if it reads none.
///
/// # Errors
/// [`UnitError`]; the attempt then has no receipt.
pub fn run_unit(
    parts: &Path,
    unit: u32,
    attempt: &str,
    allows: impl Fn(&Path) -> bool,
) -> Result<u64, UnitError> {
    if !allows(parts) {
        return Err(UnitError::no_access(parts));
    }
    let (input, input_check) = checked_file::read::<UnitInput>(&parts::input_path(parts, unit))?;
    if input.version != version() {
        return Err(UnitError::Refused(format!(
            "the merge was started by rankscope {}, and this is rankscope {}; install the same version everywhere",
            input.version,
            version()
        )));
    }
    let directory = parts::attempt_path(parts, unit, attempt);
    // The directory of parts is not created: a merge that has ended needs no more attempts.
    fs::create_dir(&directory)?;
    let limits = input.row_limits();
    let mut sizes = TableSizes::default();
    let (mut read, mut counted, mut period) = (None, Vec::new(), None);
    let mut records = 0;
    match input.work {
        Work::Read(input) => {
            let output = input.run(&directory, limits, &allows, &mut sizes)?;
            records = output.records();
            read = Some(output);
        }
        Work::Write(input) => input.run((parts, &directory), limits, &mut sizes)?,
        Work::Count(input) => counted = input.run(&allows)?,
        Work::Period(input) => {
            let merged = run_period(*input, &directory, &allows)?;
            (period, records) = (Some(merged.0), merged.1);
        }
    }
    let output = UnitOutput {
        input_check,
        files: files(&directory)?,
        tables: sizes.into_tables(),
        read,
        period,
        counted,
    };
    checked_file::write(&directory.join(RECEIPT), &output)?;
    Ok(records)
}

/// Merges a period into the directory of an attempt. Also returns its number of records.
fn run_period(
    input: PeriodInput,
    directory: &Path,
    allows: &dyn Fn(&Path) -> bool,
) -> Result<(Period, u64), UnitError> {
    if let Some(refused) = input.directories.iter().find(|directory| !allows(directory)) {
        return Err(UnitError::no_access(refused));
    }
    let options = MergeOptions {
        // An executor runs as many units at once as it has threads.
        threads: Some(1),
        most_pending: input.most_pending,
        origins: input.origins.clone(),
        ..MergeOptions::new(input.directories.clone(), directory.to_path_buf())
    };
    let opened: Result<Vec<RankLog>, UnitError> =
        input.logs.iter().cloned().map(|log| log.open(allows)).collect();
    let mut logs = opened?;
    if logs.len() > MAX_OPEN_FILES {
        logs.iter_mut().for_each(RankLog::close_file);
    }
    let problems = input.problems.clone();
    let session =
        input.with_part(|between| merge_period(&options, between, &mut logs, problems, &mut |_| {}))?;
    let records = session.ranks.iter().map(|rank| rank.records).sum();
    Ok((
        Period::of(&session, input.name.clone(), input.span(), false),
        records,
    ))
}

/// Returns the files of all tables of an attempt.
fn files(attempt: &Path) -> io::Result<Vec<PartFile>> {
    let mut files = Vec::new();
    for table in fs::read_dir(attempt)? {
        let table = table?;
        if !table.file_type()?.is_dir() {
            continue;
        }
        for file in fs::read_dir(table.path())? {
            let file = file?;
            files.push(PartFile {
                table: text(&table.file_name())?,
                name: text(&file.file_name())?,
                bytes: file.metadata()?.len(),
            });
        }
    }
    Ok(files)
}

/// Returns a name that this program gave, as text.
fn text(name: &OsStr) -> io::Result<String> {
    let text = name.to_str().map(str::to_owned);
    text.ok_or_else(|| io::Error::other(format!("unexpected file {}", name.display())))
}
