//! `rankscope ctl`.

use super::{Exit, kernels, print};
use anyhow::{Context, Result, bail};
use clap::Args;
use rankscope_ranklog::place::SEGMENT_EXTENSION;
use rankscope_ranklog::wanted::CONTROL_FILE;
use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

const EXAMPLES: &str = "\
Examples:
  rankscope ctl shared/run1 --kernels=all       record all kernels from now on
  rankscope ctl shared/run1 --kernels=all@+10   for the next ten seconds
  rankscope ctl shared/run1 --kernels=off       no more";

/// Tell a running job what to record, through its run directory: all processes of it look there every second, or every
/// four where nothing was asked for so far.
///
/// A process that was started without --kernels begins with its next call of NCCL.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Ctl {
    /// The run directory that the job records into.
    #[arg(value_name = "RUN")]
    directory: PathBuf,

    /// What of the devices' work is to be recorded (see `rankscope run --help`); windows of seconds count from now.
    #[arg(long, value_name = "WHAT", require_equals = true, value_parser = kernels::wanted)]
    kernels: String,
}

impl Ctl {
    pub fn run(self) -> Result<Exit> {
        let logs = fs::read_dir(&self.directory)
            .with_context(|| format!("cannot read {}", self.directory.display()))?
            .flatten()
            .filter(|entry| {
                entry
                    .path()
                    .extension()
                    .is_some_and(|extension| extension == SEGMENT_EXTENSION)
            })
            .count();
        if logs == 0 {
            bail!(
                "{} holds no logs: name the directory that `rankscope run` records into",
                self.directory.display()
            );
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        // What is asked for twice is done twice: the moment makes it another text.
        let text = format!("kernels={}\nasked_unix_ns={now}\n", self.kernels);
        let path = self.directory.join(CONTROL_FILE);
        let unfinished = self.directory.join(format!("{CONTROL_FILE}.unfinished"));
        fs::write(&unfinished, text)
            .and_then(|()| fs::rename(&unfinished, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        print::text(&format!(
            "asked for kernels={}; processes that record into {} see it within a second, or four\n",
            self.kernels,
            self.directory.display()
        ))?;
        Ok(Exit::Fine)
    }
}
