//! Runs a unit.

use crate::merge::checked_file;
use crate::merge::tables::TableSizes;
use crate::merge::units::error::UnitError;
use crate::merge::units::input::{UnitInput, Work, version};
use crate::merge::units::output::{PartFile, UnitOutput};
use crate::merge::units::parts::{self, RECEIPT};
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
    let read = match input.work {
        Work::Read(input) => Some(input.run(&directory, limits, &allows, &mut sizes)?),
        Work::Write(input) => {
            input.run((parts, &directory), limits, &mut sizes)?;
            None
        }
    };
    let records = read.as_ref().map_or(0, |read| read.records());
    let output = UnitOutput {
        input_check,
        files: files(&directory)?,
        tables: sizes.into_tables(),
        read,
    };
    checked_file::write(&directory.join(RECEIPT), &output)?;
    Ok(records)
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
