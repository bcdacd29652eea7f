//! `rankscope ctl`.

use super::{Exit, kernels, print};
use anyhow::{Context, Result, bail};
use clap::Args;
use rankscope_formats::whole_file;
use rankscope_ranklog::activity_request::CONTROL_FILE;
use rankscope_ranklog::place::SEGMENT_EXTENSION;
use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

const EXAMPLES: &str = "\
Examples:
  rankscope ctl shared/run1 --kernels=all       record all kernels from now on
  rankscope ctl shared/run1 --kernels=all@+10   record all kernels for the next ten seconds
  rankscope ctl shared/run1 --kernels=off       stop recording kernels";

/// Change what a running job records, through its run directory. Its processes poll the directory every second, or
/// every four seconds before the first request.
///
/// A process that was started without --kernels starts to record with its next NCCL call.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Ctl {
    /// Run directory of the job.
    #[arg(value_name = "RUN")]
    directory: PathBuf,

    /// Device activity to record (see `rankscope run --help`). Windows in seconds count from now.
    #[arg(long, value_name = "WHAT", require_equals = true, value_parser = kernels::parse)]
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
                "{} has no logs: name the directory that `rankscope run` records into",
                self.directory.display()
            );
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        // The time makes a repeated request a new text, so that the processes act on it again.
        let text = format!("kernels={}\nasked_unix_ns={now}\n", self.kernels);
        let path = self.directory.join(CONTROL_FILE);
        whole_file::write(&path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        print::text(&format!(
            "requested kernels={}; processes that record into {} apply it within one second, or four\n",
            self.kernels,
            self.directory.display()
        ))?;
        Ok(Exit::Fine)
    }
}
