//! `rankscope export`.

use super::progress::Progress;
use super::rank_list::RankList;
use super::results::TRACE;
use super::size::Size;
use super::{Exit, print, session};
use anyhow::{Result, bail};
use clap::Args;
use rankscope_analysis::model::time_range::TimeRange;
use rankscope_analysis::model::units;
use rankscope_formats::session::beside_session;
use rankscope_report::export::perfetto;
use rankscope_report::export::perfetto::PerfettoOptions;
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  rankscope export --perfetto shared/run1                         trace.pftrace next to the session
  rankscope export --perfetto shared/run1 --ranks 0-3 -o four.pftrace
  rankscope export --perfetto shared/run1 --range 10s..12s --max-bytes 200M
Open the file at https://ui.perfetto.dev with 'Open trace file'; the file stays on your machine.";

/// Write a session in the format of another tool.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    /// Run directory that was merged, or session directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Perfetto: a timeline of all ranks for ui.perfetto.dev.
    #[arg(long)]
    perfetto: bool,

    /// Output file (default: trace.pftrace next to the session).
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Export only these ranks, for example 0-3,8.
    #[arg(long, value_name = "LIST")]
    ranks: Option<RankList>,

    /// Export only this interval since the start of the session, for example 10s..12.5s.
    #[arg(long, value_name = "FROM..TO", allow_hyphen_values = true)]
    range: Option<TimeRange>,

    /// Approximate maximum size of the file. ui.perfetto.dev still opens 1GiB.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    max_bytes: Size,

    /// Print a summary of the written file as JSON.
    #[arg(long)]
    json: bool,
}

impl Export {
    pub fn run(self) -> Result<Exit> {
        if !self.perfetto {
            bail!("name the output format: --perfetto");
        }
        let (path, session) = session::read(&self.directory)?;
        let beside = beside_session(&path);
        let output = self.output.clone().unwrap_or_else(|| beside.join(TRACE));
        let ranks = self
            .ranks
            .as_ref()
            .map(|list| list.positions(&session))
            .transpose()?;
        let options = PerfettoOptions {
            output: output.clone(),
            ranks,
            range_ns: self
                .range
                .map(|range| (range.from_ns.unwrap_or(0), range.to_ns.unwrap_or(i64::MAX))),
            max_bytes: self.max_bytes.0,
        };
        let progress = Progress::new();
        let exported = perfetto::export(&path, &session, &options, &mut |share| {
            progress.report("writing the trace", Some(share));
        })?;
        drop(progress);
        let written = WrittenTrace {
            file: output.display().to_string(),
            bytes: exported.written.bytes,
            ranks: exported.ranks,
            operations: exported.operations,
            dropped: exported.dropped,
            cut_off_ns: exported.cut_off_ns,
        };
        if self.json {
            print::json(&written)?;
        } else {
            print::text(&written.text())?;
        }
        Ok(Exit::Fine)
    }
}

/// Summary of the written file.
#[derive(Serialize)]
struct WrittenTrace {
    file: String,
    bytes: u64,
    ranks: u32,
    operations: u64,
    /// Number of operations and spans that overlap in a way that the format cannot represent.
    dropped: u64,
    /// Time from which the records of some ranks are missing because of the size limit, in nanoseconds.
    cut_off_ns: Option<i64>,
}

impl WrittenTrace {
    fn text(&self) -> String {
        let mut text = format!(
            "{}: {} of {}, {}\n",
            self.file,
            units::counted(self.operations, "operation"),
            units::counted(u64::from(self.ranks), "rank"),
            units::bytes(self.bytes)
        );
        if self.dropped > 0 {
            text.push_str(&format!(
                "{} overlap in a way that the format cannot represent; they were left out\n",
                self.dropped
            ));
        }
        if let Some(cut) = cut_off(self.cut_off_ns) {
            text.push_str(&format!("{cut}\n"));
        }
        text.push_str(
            "open it at https://ui.perfetto.dev with 'Open trace file'; the file stays on your machine\n",
        );
        text
    }
}

/// Returns a warning that the trace is truncated, with advice on how to see the rest.
pub fn cut_off(cut_off_ns: Option<i64>) -> Option<String> {
    let from = units::time(cut_off_ns?);
    Some(format!(
        "the trace reached the size limit: the records of some ranks are missing after {from}; choose a part with \
         rankscope export --perfetto --ranks or --range, or raise the limit with --max-bytes"
    ))
}
