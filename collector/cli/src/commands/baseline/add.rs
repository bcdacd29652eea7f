//! `rankscope baseline add`.

use super::super::{Exit, print, session};
use super::defaults;
use super::store_options::{PushOptions, StoreOptions};
use super::warnings::warn;
use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use rankscope_analysis::model::units;
use rankscope_compare::baseline::batch::{batch, check, different, refuse_known};
use rankscope_compare::baseline::job::job;
use rankscope_compare::baseline::machine::machine;
use rankscope_compare::baseline::store::Found;
use rankscope_compare::baseline::{Key, KeyFilter, StoreError};
use rankscope_compare::summarise::summarise;
use rankscope_formats::comparison::RunSummary;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const EXAMPLES: &str = "\
Examples:
  rankscope baseline add runs/main/run-*
  rankscope baseline add --store git:baselines --push --branch main --machine dgx-a runs/main/run-*
  rankscope baseline add --store /shared/baselines --job resnet50 --commit $(git rev-parse HEAD) run1 run2 run3";

/// Add runs as one entry.
///
/// Runs that are added together are one batch: they were recorded one after the other, under the same conditions.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Add {
    #[command(flatten)]
    store: StoreOptions,

    /// Branch of the recorded program.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    branch: Option<String>,

    /// Machine, or type of machine, of the runs.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    machine: Option<String>,

    /// Name of the job.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    job: Option<String>,

    /// Commit of the recorded program (default: GITHUB_SHA or CI_COMMIT_SHA, else git's HEAD here).
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    commit: Option<String>,

    #[command(flatten)]
    push: PushOptions,

    /// Runs: run directories that were merged, or session directories.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
}

/// Run with the name of its job.
struct Read {
    summary: RunSummary,
    job: Option<String>,
}

impl Add {
    pub fn run(self) -> Result<Exit> {
        let store = self.store.open()?;
        let read = self
            .runs
            .iter()
            .map(|run| read(run))
            .collect::<Result<Vec<Read>>>()?;
        let runs: Vec<RunSummary> = read.iter().map(|read| read.summary.clone()).collect();
        check(&runs)?;
        let key = self.key(&read)?;
        self.push.before(&store)?;
        let known = match store.batches(&KeyFilter::only(&key), None) {
            Err(StoreError::Missing { .. }) => Found::default(),
            known => known?,
        };
        warn(&known.problems);
        refuse_known(&runs, &known.entries)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_nanos() as i64);
        let commit = self.commit.clone().or_else(defaults::commit);
        let entry = store.add(&batch(&key, commit, now, runs)?)?;
        self.push.after(&store)?;
        print::text(&format!(
            "added {} to {} as {entry}\n{key}; {} of this key\n",
            units::counted(read.len() as u64, "run"),
            store.shown(),
            entries(known.entries.len() + 1),
        ))?;
        Ok(Exit::Fine)
    }

    fn key(&self, read: &[Read]) -> Result<Key> {
        let [first, others @ ..] = read else {
            bail!("no run is given");
        };
        // Named parts of the key need no detection. Detected parts must be equal for all runs.
        let machine_of = |run: &RunSummary| machine(run).unwrap_or_else(|| "unknown".to_owned());
        for other in others {
            let pair = [&first.summary, &other.summary];
            if self.machine.is_none() {
                different("machine", pair, machine_of)?;
            }
            if self.job.is_none() && first.job != other.job {
                let shown = |read: &Read| read.job.clone().unwrap_or_else(|| "unknown".to_owned());
                bail!(
                    "{} and {} are runs of different jobs, {} and {}; name the job with --job if they belong together",
                    first.summary.run.directory,
                    other.summary.run.directory,
                    shown(first),
                    shown(other)
                );
            }
        }
        let shown = &first.summary.run.directory;
        Ok(Key {
            branch: self.branch.clone().unwrap_or_else(defaults::branch),
            machine: self
                .machine
                .clone()
                .or_else(|| machine(&first.summary))
                .with_context(|| {
                    format!(
                        "{shown} does not record its processors (an import, or a recording of an older rankscope); \
                         name the machine with --machine"
                    )
                })?,
            job: self.job.clone().or_else(|| first.job.clone()).with_context(|| {
                format!("{shown} does not record its program; name the job with --job")
            })?,
        })
    }
}

/// Formats a number of entries.
pub fn entries(count: usize) -> String {
    format!("{count} {}", if count == 1 { "entry" } else { "entries" })
}

fn read(run: &Path) -> Result<Read> {
    let (path, session) = session::read(run)?;
    if session.part.is_some() {
        bail!(
            "{} has only the last part of a run; merge the whole run first: rankscope merge DIR",
            run.display()
        );
    }
    let read = summarise(&path, &run.display().to_string());
    let summary = read
        .with_context(|| format!("cannot summarise {}", run.display()))?
        .summary;
    let job = job(&session, summary.world.size);
    Ok(Read { summary, job })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_in_words() {
        assert_eq!(
            [entries(0), entries(1), entries(2)],
            ["0 entries", "1 entry", "2 entries"]
        );
    }
}
