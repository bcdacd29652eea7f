//! Makes units, has them run, and takes one attempt of each.

use crate::merge::checked_file;
use crate::merge::error::MergeError;
use crate::merge::tables::TableSizes;
use crate::merge::unit_runner::UnitRunner;
use crate::merge::units::input::{UnitInput, Work};
use crate::merge::units::output::{PartFile, UnitOutput};
use crate::merge::units::parts::{self, RECEIPT};
use rankscope_formats::session::RowLimits;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Size of the logs of a unit, in bytes. It takes some seconds to read.
const UNIT_BYTES: u64 = 32 << 20;
/// Maximum number of ranks of a unit.
const UNIT_RANKS: usize = 64;
/// Maximum number of units. The file of batches of each is open until the merge ends.
const MAX_UNITS: usize = 2048;

/// Cuts ranks or logs into units: consecutive ones, about equally large. Takes the size of each log, in bytes.
pub fn cut<T: Copy>(ranks: &[(T, u64)]) -> Vec<Vec<T>> {
    let all: u64 = ranks.iter().map(|&(_, bytes)| bytes).sum();
    let unit_bytes = UNIT_BYTES.max(all / MAX_UNITS as u64 * 4);
    let unit_ranks = UNIT_RANKS.max(ranks.len().div_ceil(MAX_UNITS / 4));
    let mut units: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0;
    for &(rank, size) in ranks {
        match units.last_mut() {
            Some(unit) if unit.len() < unit_ranks && bytes + size <= unit_bytes => {
                unit.push(rank);
                bytes += size;
            }
            _ => {
                units.push(vec![rank]);
                bytes = size;
            }
        }
    }
    units
}

/// Units of one stage.
pub struct Units<'a> {
    session: &'a Path,
    parts: &'a Path,
    /// Number of the first unit.
    first: u32,
    /// Checksums of the inputs.
    checks: Vec<u32>,
    /// What the runner reported as the cause of missing units.
    failure: Option<String>,
    /// Time to wait for the receipts of units that the runner completed.
    visible_after: Duration,
}

/// A complete attempt at a unit.
pub struct Attempt {
    /// Its directory.
    pub path: PathBuf,
    /// Its receipt.
    pub output: UnitOutput,
}

impl<'a> Units<'a> {
    /// Prepares units, from number `first` on. The tables go to the session, all other files to `parts`.
    pub fn new((session, parts): (&'a Path, &'a Path), first: u32) -> Self {
        Self {
            session,
            parts,
            first,
            checks: Vec::new(),
            failure: None,
            visible_after: Duration::ZERO,
        }
    }

    /// Adds a unit.
    pub fn push(&mut self, limits: RowLimits, work: Work) -> Result<(), MergeError> {
        let path = parts::input_path(self.parts, self.numbers().end);
        let check = checked_file::write(&path, &UnitInput::new(limits, work));
        self.checks
            .push(check.map_err(|source| output_error(&path, source))?);
        Ok(())
    }

    /// Returns the numbers of the units.
    pub fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.checks.len() as u32
    }

    /// Has the units run. Calls `done` with the number of units that are complete.
    pub fn run(&mut self, runner: &dyn UnitRunner, done: &mut dyn FnMut(usize)) {
        if self.checks.is_empty() {
            return;
        }
        let units = self.numbers();
        let mut count = || {
            let attempts = parts::complete_attempts(self.parts, &units).unwrap_or_default();
            done(attempts.iter().filter(|found| !found.is_empty()).count());
        };
        // A job may fail after all of its units are complete, because of results that nobody needs.
        self.failure = runner.run(self.parts, units.clone(), &mut count).err();
        self.visible_after = runner.visible_after();
        count();
    }

    /// Takes one attempt of each unit, moves its tables to the session, and calls `take` with the unit's position and the
    /// attempt.
    ///
    /// # Errors
    /// [`MergeError::Units`] if a unit has no complete attempt, whatever the runner reported.
    pub fn take(
        self,
        sizes: &mut TableSizes,
        mut take: impl FnMut(usize, Attempt) -> Result<(), MergeError>,
    ) -> Result<(), MergeError> {
        let mut made = BTreeSet::new();
        for (unit, attempts) in self.attempts()?.iter().enumerate() {
            let mut attempt = self.choose(unit, attempts)?;
            for file in &attempt.output.files {
                self.take_file(&attempt.path, file, &mut made)?;
            }
            sizes.merge(TableSizes::from(std::mem::take(&mut attempt.output.tables)));
            take(unit, attempt)?;
        }
        Ok(())
    }

    /// Returns one attempt of each unit, with all of its files, in the order of the units. They stay where they are.
    ///
    /// # Errors
    /// As [`Self::take`], for each unit.
    pub fn chosen(self) -> Result<impl Iterator<Item = Result<Attempt, MergeError>>, MergeError> {
        let attempts = self.attempts()?.into_iter().enumerate();
        Ok(attempts.map(move |(unit, attempts)| {
            let attempt = self.choose(unit, &attempts)?;
            for file in &attempt.output.files {
                checked_path(&attempt.path, file)?;
            }
            Ok(attempt)
        }))
    }

    /// Returns the complete attempts by unit. If the runner succeeded, waits for those that are not visible yet.
    fn attempts(&self) -> Result<Vec<Vec<PathBuf>>, MergeError> {
        let start = Instant::now();
        loop {
            let attempts = parts::complete_attempts(self.parts, &self.numbers())
                .map_err(|source| output_error(self.parts, source))?;
            let is_whole = attempts.iter().all(|of_unit| !of_unit.is_empty());
            if is_whole || self.failure.is_some() || start.elapsed() >= self.visible_after {
                return Ok(attempts);
            }
            thread::sleep(Duration::from_secs(1));
        }
    }

    /// Returns the first attempt at a unit that belongs to this merge.
    fn choose(&self, unit: usize, attempts: &[PathBuf]) -> Result<Attempt, MergeError> {
        let mut problem = self.failure.clone();
        for path in attempts {
            match checked_file::read::<UnitOutput>(&path.join(RECEIPT)) {
                Ok((output, _)) if output.input_check != self.checks[unit] => {
                    problem = Some("it was run with another input".to_owned());
                }
                Ok((output, _)) => {
                    let path = path.clone();
                    return Ok(Attempt { path, output });
                }
                Err(error) => problem = Some(error.to_string()),
            }
        }
        let problem = problem.as_deref().unwrap_or("no process completed it");
        let number = self.first as usize + unit;
        Err(MergeError::Units(format!(
            "unit {number} of the merge is missing: {problem}"
        )))
    }

    fn take_file(
        &self,
        attempt: &Path,
        file: &PartFile,
        made: &mut BTreeSet<String>,
    ) -> Result<(), MergeError> {
        let from = checked_path(attempt, file)?;
        let table = self.session.join(&file.table);
        if !made.contains(&file.table) {
            fs::create_dir_all(&table).map_err(|source| output_error(&table, source))?;
            made.insert(file.table.clone());
        }
        let to = table.join(&file.name);
        fs::rename(&from, &to).map_err(|source| output_error(&to, source))
    }
}

/// Returns the path of a file of an attempt, which has the size that the receipt states.
fn checked_path(attempt: &Path, file: &PartFile) -> Result<PathBuf, MergeError> {
    if !is_plain_name(&file.table) || !is_plain_name(&file.name) {
        return Err(MergeError::Units(format!(
            "{}: the receipt names a file outside: {}/{}",
            attempt.display(),
            file.table,
            file.name
        )));
    }
    let path = attempt.join(&file.table).join(&file.name);
    let found = fs::metadata(&path).map_err(|source| output_error(&path, source))?;
    if found.len() != file.bytes {
        let what = format!("{} bytes, and {} were written", found.len(), file.bytes);
        return Err(output_error(
            &path,
            io::Error::new(io::ErrorKind::InvalidData, what),
        ));
    }
    Ok(path)
}

/// Returns true if a name is a file in its directory, and no path to elsewhere.
fn is_plain_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
}

fn output_error(path: &Path, source: io::Error) -> MergeError {
    MergeError::Output {
        path: path.to_path_buf(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_formats::ids::RankIndex;

    #[test]
    fn units_are_bounded_in_ranks_and_bytes() {
        let ranks = |count: u32, bytes: u64| {
            (0..count)
                .map(|rank| (RankIndex(rank), bytes))
                .collect::<Vec<_>>()
        };
        let largest = cut(&ranks(1000, 10)).iter().map(Vec::len).max();
        assert_eq!(largest, Some(UNIT_RANKS));
        assert_eq!(cut(&ranks(10, UNIT_BYTES)).len(), 10);
        for (count, bytes) in [(300_000, 10), (16_384, 1 << 30), (1, 0), (5000, UNIT_BYTES - 1)] {
            let units = cut(&ranks(count, bytes));
            assert!(units.len() <= MAX_UNITS, "{count} {bytes}: {}", units.len());
            let all: Vec<_> = units.concat();
            assert!(
                all.iter().copied().eq((0..count).map(RankIndex)),
                "{count} {bytes}"
            );
        }
        assert!(cut::<RankIndex>(&[]).is_empty());
    }

    #[test]
    fn receipts_name_no_files_elsewhere() {
        assert!(is_plain_name("rank=0.parquet"));
        for name in ["", ".", "..", "../a", "/a", "a/b"] {
            assert!(!is_plain_name(name), "{name}");
        }
    }
}
