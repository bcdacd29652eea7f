//! `rankscope dump`: the last part of a job that records in flight mode, as an ordinary run.

use super::merge::{self, Merged};
use super::{Exit, print};
use crate::launch::run_directory;
use anyhow::{Context, Result, bail};
use clap::Args;
use rankscope_ranklog::collect::copy;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  rankscope run --flight 30s -o shared/run1 -- torchrun train.py   keep the last thirty seconds, in memory
  rankscope dump shared/run1                                       write them to shared/run1-dump-TIME, and merge
  rankscope dump shared/run1 -o now && rankscope view now

Exit status: 0 success, 2 wrong usage or unreadable input, 3 the figures contradict each other.";

/// Write the last part of a running job as an ordinary run, for example of a job that was started with --flight.
///
/// The job goes on, and nothing in it changes. The records of a process are in the memory of its own machine: on several
/// nodes, run the command on each of them with one output directory, and merge afterwards.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Dump {
    /// Run directory of the job.
    #[arg(value_name = "RUN")]
    directory: PathBuf,

    /// Directory to write to; not inside the run directory (default: RUN-dump-TIME).
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Only write the logs; merge later with `rankscope merge DIR`.
    #[arg(long)]
    no_merge: bool,

    /// Print the summary of the session as JSON.
    #[arg(long, conflicts_with = "no_merge")]
    json: bool,
}

impl Dump {
    pub fn run(self) -> Result<Exit> {
        let output = match &self.output {
            Some(output) => output.clone(),
            None => beside(&self.directory)?,
        };
        copy_logs(&self.directory, &output)?;
        if self.no_merge {
            print::message(&format!(
                "written, to merge it: rankscope merge {}",
                output.display()
            ));
            return Ok(Exit::Fine);
        }
        let merged = merge::merge(std::slice::from_ref(&output), &output)?;
        merged.print(self.json)?;
        Ok(merged.exit())
    }
}

/// Writes the last part of a job beside its run directory, and merges it.
pub fn dump(directory: &Path) -> Result<Merged> {
    let output = beside(directory)?;
    copy_logs(directory, &output)?;
    merge::merge(std::slice::from_ref(&output), &output)
}

/// Returns a new name beside the run directory. Inside it, a merge of the run would find the copies.
fn beside(directory: &Path) -> Result<PathBuf> {
    let directory = fs::canonicalize(directory)
        .with_context(|| format!("cannot read the run directory {}", directory.display()))?;
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push(format!("-dump-{}", run_directory::time_name()));
    Ok(directory.with_file_name(name))
}

/// Copies all logs with what the live areas have.
fn copy_logs(directory: &Path, output: &Path) -> Result<()> {
    let logs = run_directory::logs(directory)?;
    if logs.is_empty() {
        bail!("no rank logs (*.rslog) in {}", directory.display());
    }
    // Command lines and environments are private.
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(output);
    created.with_context(|| format!("cannot create {}", output.display()))?;
    let (source, target) = (fs::canonicalize(directory)?, fs::canonicalize(output)?);
    if target.starts_with(&source) {
        bail!(
            "{} is inside the run directory, where a merge of the run would find the copies; name another with -o",
            output.display()
        );
    }
    let (mut copied, mut elsewhere) = (0, 0);
    for log in logs {
        match copy(&log, output)? {
            Some(_) => copied += 1,
            None => elsewhere += 1,
        }
    }
    if elsewhere > 0 {
        print::message(&format!(
            "{elsewhere} logs were left out: the memory of their processes is on other machines, or gone"
        ));
    }
    if copied == 0 {
        bail!(
            "no process of {} has its memory on this machine",
            directory.display()
        );
    }
    Ok(())
}
