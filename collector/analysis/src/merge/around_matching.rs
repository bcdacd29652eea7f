//! Before matching, the logs of a large job are read. After it, the tables of each rank are written. This process does both, or other
//! processes do it in units.

use crate::merge::batch_runs::BatchPlace;
use crate::merge::error::MergeError;
use crate::merge::progress::Progress;
use crate::merge::read_pass::{ReadLogs, read_logs};
use crate::merge::readers::Readers;
use crate::merge::tables::{TableSizes, TablesFolder};
use crate::merge::temporary_file::{TemporaryFile, TemporaryFolder};
use crate::merge::unit_runner::UnitRunner;
use crate::merge::units::driver::{Attempt, Units, cut};
use crate::merge::units::input::Work;
use crate::merge::units::parts::{BATCHES, Parts};
use crate::merge::units::read::{ReadInput, ReadOutput, is_on_disk};
use crate::merge::units::write::WriteInput;
use crate::merge::write_pass::{RowsOfRanks, write_tables};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::RowLimits;
use std::io;
use std::path::Path;

/// The passes before and after matching.
pub struct AroundMatching<'a> {
    folder: &'a TablesFolder,
    session: &'a Path,
    readers: Readers<'a>,
    limits: RowLimits,
    threads: usize,
    /// What runs units, and their directory, which is removed with this value.
    elsewhere: Option<(&'a dyn UnitRunner, Parts)>,
    /// Number after those of all units so far.
    next_unit: u32,
}

impl<'a> AroundMatching<'a> {
    /// Prepares the passes.
    ///
    /// # Errors
    /// The directory of units cannot be created.
    pub fn new(
        (folder, session): (&'a TablesFolder, &'a Path),
        readers: Readers<'a>,
        limits: RowLimits,
        threads: usize,
    ) -> Result<Self, MergeError> {
        let parts = folder
            .runner()
            .map(|runner| Ok((runner, Parts::create(session)?)));
        let elsewhere = parts
            .transpose()
            .map_err(|source: io::Error| MergeError::Output {
                path: session.to_path_buf(),
                source,
            })?;
        Ok(Self {
            folder,
            session,
            readers,
            limits,
            threads,
            elsewhere,
            next_unit: 0,
        })
    }

    /// Returns where the rows go that matching finds.
    pub fn rows(&self) -> TemporaryFolder {
        match &self.elsewhere {
            Some((_, parts)) => TemporaryFolder::shared(parts.path()),
            None => TemporaryFolder::unnamed(self.session),
        }
    }

    /// Reads all logs.
    pub fn read(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<ReadLogs, MergeError> {
        let Readers { logs, identities, .. } = self.readers;
        let log = |rank: RankIndex| logs.of_rank(identities, rank);
        let ranks = (0..identities.ranks.len()).map(RankIndex::of);
        let all = ranks.len();
        let mut read = ReadLogs::new(all);
        let (elsewhere, here): (Vec<_>, Vec<_>) =
            ranks.partition(|&rank| self.elsewhere.is_some() && is_on_disk(log(rank)));
        if let Some((runner, parts)) = &self.elsewhere {
            let ranks_of_units = self.cut(elsewhere.iter().copied());
            let mut units = Units::new((self.session, parts.path()), 0);
            for ranks in &ranks_of_units {
                units.push(self.limits, Work::Read(self.input(ranks)?))?;
            }
            self.next_unit = units.numbers().end;
            units.run(*runner, &mut |done| {
                progress(of_units("reading logs", done, ranks_of_units.len()))
            });
            let (batches, of_ranks) = (&mut read.batches, &mut read.ranks);
            units.take(&mut read.tables, |unit, Attempt { path, output }| {
                let expected = &ranks_of_units[unit];
                let is_whole = |output: &ReadOutput| output.ranks.iter().map(|rank| &rank.rank).eq(expected);
                let Some(output) = output.read.filter(is_whole) else {
                    let what = format!("{}: the receipt has other ranks than the unit", path.display());
                    return Err(MergeError::Units(what));
                };
                let path = path.join(BATCHES);
                let file = TemporaryFile::open(&path, output.batches_bytes);
                let file = batches.add_file(file.map_err(|source| MergeError::Output { path, source })?);
                for rank in output.ranks {
                    let (index, offset) = (rank.rank, rank.batches_offset);
                    batches.begin(index, BatchPlace { file, offset });
                    of_ranks[index.index()] = rank.into_read(&log(index).path);
                }
                Ok(())
            })?;
        }
        let mut done = |done| progress(of_units("reading logs", elsewhere.len() + done, all));
        let reader_of = |rank| self.readers.reader(rank);
        let folder = (self.folder, self.session);
        read_logs(
            folder,
            (&here, self.threads),
            self.limits,
            reader_of,
            &mut read,
            &mut done,
        )?;
        Ok(read)
    }

    /// Cuts ranks into units.
    fn cut(&self, ranks: impl Iterator<Item = RankIndex>) -> Vec<Vec<RankIndex>> {
        let Readers { logs, identities, .. } = self.readers;
        let with_bytes = ranks.map(|rank| (rank, logs.of_rank(identities, rank).segment_bytes));
        cut(&with_bytes.collect::<Vec<_>>())
    }

    /// Returns the input of a unit that reads.
    fn input(&self, ranks: &[RankIndex]) -> Result<ReadInput, MergeError> {
        let mut input = ReadInput::new(self.readers.stride());
        for &rank in ranks {
            let (rank, anchors) = self.readers.input(rank).map_err(|source| MergeError::Output {
                path: self.session.to_path_buf(),
                source,
            })?;
            input.push(rank, &anchors);
        }
        Ok(input)
    }

    /// Writes the tables of the rows that matching found.
    pub fn write(
        &self,
        rows: &RowsOfRanks,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<TableSizes, MergeError> {
        let ranks = self.readers.identities.ranks.len();
        let Some((runner, parts)) = &self.elsewhere else {
            let mut done = |done| progress(of_units("writing tables", done, ranks));
            return write_tables(rows, self.folder, (ranks, self.threads), self.limits, &mut done);
        };
        // Units write the tables of all ranks, also of those whose logs were read here.
        let ranks_of_units = self.cut((0..ranks).map(RankIndex::of));
        let mut units = Units::new((self.session, parts.path()), self.next_unit);
        for ranks in &ranks_of_units {
            units.push(self.limits, Work::Write(WriteInput::new(rows, ranks)))?;
        }
        units.run(*runner, &mut |done| {
            progress(of_units("writing tables", done, ranks_of_units.len()));
        });
        let mut sizes = TableSizes::default();
        units.take(&mut sizes, |_, _| Ok(()))?;
        Ok(sizes)
    }
}

/// Returns the progress of a phase that goes from rank to rank, or from unit to unit.
fn of_units(phase: &'static str, done: usize, all: usize) -> Progress {
    Progress {
        phase,
        operations: 0,
        share: Some(done as f64 / all.max(1) as f64),
    }
}
