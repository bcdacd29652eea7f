//! `rankscope report`.

use super::{Exit, merge, session};
use anyhow::{Context, Result};
use clap::Args;
use rankscope_collector::report::{self, Places};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  rankscope report shared/run1                  print the summary, write shared/run1/report.html
  rankscope report shared/run1 --html out.html  write the page elsewhere
  rankscope report shared/run1 --json | jq .coverage";

/// Print a session's summary and write its report.html.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Report {
    /// A run directory that was merged, or a session directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Where to write the page, instead of report.html beside the session.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print the summary as JSON; writes a page only if --html names one.
    #[arg(long)]
    json: bool,
}

impl Report {
    pub fn run(self) -> Result<Exit> {
        let (path, session) = session::read(&self.directory)?;
        let beside = path.parent().unwrap_or(&path).to_path_buf();
        let html = self
            .html
            .or_else(|| (!self.json).then(|| beside.join(merge::REPORT)));
        if let Some(html) = &html {
            report::write_html(&session, &path, html)
                .with_context(|| format!("cannot write {}", html.display()))?;
        }
        let trace = Some(beside.join(merge::TRACE)).filter(|trace| trace.is_file());
        let merged = merge::Merged {
            session,
            places: Places {
                session: path,
                trace,
                report: html,
            },
        };
        merged.print(self.json)?;
        Ok(merged.exit())
    }
}
