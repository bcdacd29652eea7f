//! `rankscope export`.

use super::rank_list::RankList;
use super::size::Size;
use super::time_range::TimeRange;
use super::{Exit, merge, session};
use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  rankscope export --perfetto shared/run1                         trace.pftrace beside the session
  rankscope export --perfetto shared/run1 --ranks 0-3 -o four.pftrace
  rankscope export --perfetto shared/run1 --range 10s-12s --max-bytes 200M
Open the file at https://ui.perfetto.dev with 'Open trace file'; it stays on your machine.";

/// Write a session in a format that other tools open.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    /// A run directory that was merged, or a session directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Perfetto: a timeline of all ranks for ui.perfetto.dev.
    #[arg(long)]
    perfetto: bool,

    /// The file; without it trace.pftrace beside the session.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Only these ranks, for example 0-3,8.
    #[arg(long, value_name = "LIST")]
    ranks: Option<RankList>,

    /// Only this time since the session's start, for example 10s-12.5s.
    #[arg(long, value_name = "FROM-TO", allow_hyphen_values = true)]
    range: Option<TimeRange>,

    /// Stop before the file grows beyond this (default 1GiB, which the page can still open).
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    max_bytes: Size,
}

impl Export {
    pub fn run(self) -> Result<Exit> {
        if !self.perfetto {
            bail!("say which format to write: --perfetto");
        }
        let (path, _session) = session::read(&self.directory)?;
        let beside = path.parent().unwrap_or(&path);
        let _output = self.output.clone().unwrap_or_else(|| beside.join(merge::TRACE));
        bail!("not yet");
    }
}
