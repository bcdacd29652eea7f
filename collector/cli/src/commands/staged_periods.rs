//! Periods of a run in an object store: what the next merge needs is copied to this machine, and new periods are copied back.
//!
//! Final periods in the store are never written again. The list of the periods is written last, so it only names complete ones.

use super::progress::Progress;
use super::results::REPORT;
use super::staged::Staged;
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

/// Periods in an object store, and their copy.
pub struct PeriodsInStore {
    /// URL of the output.
    url: PathBuf,
    /// Directory of this machine that gets the output first.
    output: PathBuf,
    /// Periods in the store before the merge.
    before: Option<Periods>,
}

impl PeriodsInStore {
    /// Copies what a merge needs of the periods in the store. Returns nothing if the output stays on this machine.
    pub fn of(staged: &Staged, progress: &Progress) -> Result<Option<Self>> {
        let Some(url) = &staged.upload_to else {
            return Ok(None);
        };
        let periods = Self {
            url: url.clone(),
            output: staged.output.clone(),
            before: known(url)?,
        };
        periods.fetch(progress)?;
        Ok(Some(periods))
    }

    fn session(&self) -> PathBuf {
        self.output.join(SESSION_DIRECTORY)
    }

    fn fetch(&self, progress: &Progress) -> Result<()> {
        let session = self.session();
        // A copy of the last merge is used if nobody has merged since.
        if let Some(before) = &self.before
            && matches!(Periods::read(&session), Ok(Some(copied)) if copied == *before)
        {
            return Ok(());
        }
        match fs::remove_dir_all(&session) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", session.display()));
            }
            _ => {}
        }
        let Some(before) = &self.before else {
            return Ok(());
        };
        progress.report("copying the ends of periods", None);
        let names: BTreeSet<&str> = before.periods.iter().map(|period| period.name.as_str()).collect();
        let is_needed = |name: &str| {
            name.split_once('/')
                .is_some_and(|(period, file)| names.contains(period) && NEEDED_LATER.contains(&file))
        };
        let directory = self.url.join(SESSION_DIRECTORY).join(PERIODS_DIRECTORY);
        let needed = copy::find(&directory, is_needed)?;
        copy::download(&directory, &needed, &session.join(PERIODS_DIRECTORY), &mut |_| {})?;
        fs::create_dir_all(&session)
            .and_then(|()| before.write(&session))
            .with_context(|| format!("cannot write {}", session.display()))
    }

    /// Copies the periods that were merged to the store, and then their list. `places` then has the URLs of the results.
    pub fn deliver(self, list: &Periods, places: &mut Places, progress: &Progress) -> Result<()> {
        let session = self.url.join(SESSION_DIRECTORY);
        let unwritable = |error: io::Error| {
            anyhow::Error::from(error).context(format!("cannot write {}", session.display()))
        };
        self.expect_unchanged(self.before.as_ref())?;
        let mut expected = self.before.clone();
        if expected.is_none() {
            // From now on, the directory is known as one that this program made.
            let empty = Periods {
                periods: Vec::new(),
                ..list.clone()
            };
            empty.write(&session).map_err(unwritable)?;
            expected = Some(empty);
        }
        let is_delivered = |period: &Period| {
            let known = self.before.iter().flat_map(|before| &before.periods);
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
            let phase = format!("period {} of {}: copying to the store", number + 1, merged.len());
            copy::upload(&upload, &mut |_| progress.report(phase.clone(), None))?;
        }
        self.expect_unchanged(expected.as_ref())?;
        list.write(&session).map_err(unwritable)?;
        if let Some(report) = &mut places.report {
            let url = self.url.join(REPORT);
            let copied = fs::read(&*report).and_then(|page| whole_file::write(&url, &page));
            copied.with_context(|| format!("cannot write {}", url.display()))?;
            *report = url;
        }
        places.session = session;
        self.drop_tables(list)
    }

    /// Fails if the list in the store is not this one: another merge has written there.
    fn expect_unchanged(&self, expected: Option<&Periods>) -> Result<()> {
        if known(&self.url)?.as_ref() != expected {
            bail!(
                "another merge wrote periods into {} at the same time; merge again",
                self.url.display()
            );
        }
        Ok(())
    }

    /// Removes from this machine what no later merge needs of the final periods.
    fn drop_tables(&self, list: &Periods) -> Result<()> {
        for period in list.periods.iter().filter(|period| period.is_final) {
            let directory = period.path(&self.session());
            remove_others(&directory).with_context(|| format!("cannot clean up {}", directory.display()))?;
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
            "{} is a session of the whole run; name another URL for its periods, or remove it",
            session.display()
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
fn remove_others(period: &Path) -> io::Result<()> {
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
