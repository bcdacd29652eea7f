//! Periods of a run in an object store: what the next merge needs is copied to this machine, and new periods are copied back.
//!
//! Final periods in the store are never written again. The list of the periods is written last, so all final periods in it are complete. A
//! period that is not final is incomplete while it is replaced.

use super::progress::Progress;
use super::results::REPORT;
use anyhow::{Context, Result, bail};
use rankscope_analysis::merge::in_periods::NEEDED_LATER;
use rankscope_formats::files::{self, Found};
use rankscope_formats::session::{PERIODS_DIRECTORY, Period, Periods, SESSION_DIRECTORY, SUMMARY_FILE};
use rankscope_formats::whole_file;
use rankscope_remote::copy::{self, Upload};
use rankscope_report::Places;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// File below the copied output with the list of the store from which this machine continues.
const CONTINUED_FROM: &str = "continued-from.json";

/// Periods in an object store.
pub struct PeriodsInStore {
    /// URL of the output.
    url: PathBuf,
    /// Periods there before the merge.
    before: Option<Periods>,
    /// Length of a period, in nanoseconds.
    length_ns: i64,
}

impl PeriodsInStore {
    /// Reads the list of the periods in a store.
    ///
    /// # Errors
    /// There is something else, or periods of another length.
    pub fn read(url: &Path, length_ns: i64) -> Result<Self> {
        let before = known(url)?;
        if let Some(before) = &before
            && before.length_ns != length_ns
        {
            bail!(
                "{} has periods of {}; name the same length, or another URL with -o",
                url.display(),
                before.length()
            );
        }
        Ok(Self {
            url: url.to_path_buf(),
            before,
            length_ns,
        })
    }

    /// Copies what a merge needs of the periods in the store to `output` on this machine.
    pub fn stage(self, output: &Path, progress: &Progress) -> Result<StagedPeriods> {
        let staged = StagedPeriods {
            store: self,
            output: output.to_path_buf(),
        };
        staged.fetch(progress)?;
        Ok(staged)
    }
}

/// Periods in an object store, and their copy.
pub struct StagedPeriods {
    store: PeriodsInStore,
    /// Directory of this machine that gets the output first.
    output: PathBuf,
}

impl StagedPeriods {
    fn session(&self) -> PathBuf {
        self.output.join(SESSION_DIRECTORY)
    }

    fn fetch(&self, progress: &Progress) -> Result<()> {
        let session = self.session();
        // What an earlier merge wrote here is continued if nobody else has merged since, also if it was interrupted.
        let continued = fs::read(self.output.join(CONTINUED_FROM)).ok();
        let continued: Option<Option<Periods>> =
            continued.and_then(|text| serde_json::from_slice(&text).ok());
        let is_usable = |list: &Periods| list.length_ns == self.store.length_ns;
        if continued.as_ref() == Some(&self.store.before)
            && matches!(Periods::read(&session), Ok(Some(list)) if is_usable(&list))
        {
            return Ok(());
        }
        match fs::remove_dir_all(&session) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", session.display()));
            }
            _ => {}
        }
        if let Some(before) = &self.store.before {
            progress.report("copying the ends of periods", None);
            let names: BTreeSet<&str> = before.periods.iter().map(|period| period.name.as_str()).collect();
            let is_needed = |name: &str| {
                name.split_once('/')
                    .is_some_and(|(period, file)| names.contains(period) && NEEDED_LATER.contains(&file))
            };
            let directory = self.store.url.join(SESSION_DIRECTORY).join(PERIODS_DIRECTORY);
            let needed = copy::find(&directory, is_needed)?;
            copy::download(&directory, &needed, &session.join(PERIODS_DIRECTORY), &mut |_| {})?;
            fs::create_dir_all(&session)
                .and_then(|()| before.write(&session))
                .with_context(|| format!("cannot write {}", session.display()))?;
        }
        self.continue_from(self.store.before.as_ref())
    }

    /// Notes that the store has this list.
    fn continue_from(&self, list: Option<&Periods>) -> Result<()> {
        let path = self.output.join(CONTINUED_FROM);
        let text = serde_json::to_vec(&list)?;
        fs::create_dir_all(&self.output)
            .and_then(|()| whole_file::write(&path, &text))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Copies the periods that were merged to the store, and then their list. `places` then has the URLs of the results.
    pub fn deliver(self, list: &Periods, places: &mut Places, progress: &Progress) -> Result<()> {
        let session = self.store.url.join(SESSION_DIRECTORY);
        let unwritable = |error: io::Error| {
            anyhow::Error::from(error).context(format!("cannot write {}", session.display()))
        };
        self.expect_unchanged(self.store.before.as_ref())?;
        let mut expected = self.store.before.clone();
        if expected.is_none() {
            // From now on, the directory is known as one that this program made.
            let empty = Periods {
                periods: Vec::new(),
                ..list.clone()
            };
            empty.write(&session).map_err(unwritable)?;
            self.continue_from(Some(&empty))?;
            expected = Some(empty);
        }
        let is_delivered = |period: &Period| {
            let known = self.store.before.iter().flat_map(|before| &before.periods);
            known
                .filter(|known| known.is_final)
                .any(|known| known.name == period.name)
        };
        let merged: Vec<&Period> = list
            .periods
            .iter()
            .filter(|period| !is_delivered(period))
            .collect();
        for (number, period) in merged.iter().enumerate() {
            let from = period.path(&self.session());
            // A period whose logs are gone became final without a merge.
            if !from.join(SUMMARY_FILE).exists() {
                continue;
            }
            let upload = Upload {
                from: &from,
                to: &period.path(&session),
                last: SUMMARY_FILE,
                replaced: &[""],
            };
            // An earlier merge may have copied this period before it failed.
            if period.is_final && copy::is_uploaded(&upload)? {
                continue;
            }
            let phase = format!("period {} of {}: copying to the store", number + 1, merged.len());
            copy::upload(&upload, &mut |_| progress.report(phase.clone(), None))?;
        }
        self.expect_unchanged(expected.as_ref())?;
        for period in &merged {
            self.expect_complete(period, &session)?;
        }
        list.write(&session).map_err(unwritable)?;
        self.continue_from(Some(list))?;
        if let Some(report) = &mut places.report {
            let url = self.store.url.join(REPORT);
            let copied = fs::read(&*report).and_then(|page| whole_file::write(&url, &page));
            copied.with_context(|| format!("cannot write {}", url.display()))?;
            *report = url;
        }
        places.session = session;
        self.drop_tables(list)
    }

    /// Fails if the list in the store is not this one: another merge has written there.
    fn expect_unchanged(&self, expected: Option<&Periods>) -> Result<()> {
        match known(&self.store.url)?.as_ref() == expected {
            true => Ok(()),
            false => self.another_merge(),
        }
    }

    /// Fails if the store has no complete session of a period, or another one.
    fn expect_complete(&self, period: &Period, session: &Path) -> Result<()> {
        let there = period.path(session).join(SUMMARY_FILE);
        let found = files::find(&there).with_context(|| format!("cannot read {}", there.display()))?;
        let here = fs::metadata(period.path(&self.session()).join(SUMMARY_FILE));
        match (found, here) {
            (Found::File(bytes), Ok(here)) if bytes == here.len() => Ok(()),
            (Found::File(_), Err(_)) => Ok(()),
            _ => self.another_merge(),
        }
    }

    fn another_merge(&self) -> Result<()> {
        bail!(
            "another merge wrote periods into {} at the same time; merge again",
            self.store.url.display()
        )
    }

    /// Removes from this machine what no later merge needs of the final periods.
    fn drop_tables(&self, list: &Periods) -> Result<()> {
        for period in list.periods.iter().filter(|period| period.is_final) {
            let directory = period.path(&self.session());
            keep_needed(&directory).with_context(|| format!("cannot clean up {}", directory.display()))?;
        }
        Ok(())
    }
}

/// Returns the periods in a store.
fn known(url: &Path) -> Result<Option<Periods>> {
    let session = url.join(SESSION_DIRECTORY);
    let summary = session.join(SUMMARY_FILE);
    let found = files::find(&summary).with_context(|| format!("cannot read {}", summary.display()))?;
    if found != Found::Nothing {
        bail!(
            "{} is of a merge of the whole run; remove this file, or name another URL for the periods with -o",
            summary.display()
        );
    }
    if let Some(list) = Periods::read(&session)? {
        return Ok(Some(list));
    }
    if let Some((name, _)) = copy::find(&session, |_| true)?.first() {
        bail!(
            "{} has files that are no periods, such as {name}; name another URL, or remove them",
            session.display()
        );
    }
    Ok(None)
}

/// Removes the files and directories of a period that no later merge needs.
fn keep_needed(period: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(period) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if NEEDED_LATER.iter().any(|needed| name == *needed) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
