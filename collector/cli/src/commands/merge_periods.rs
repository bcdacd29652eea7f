//! `rankscope merge --every`: merges a long run in periods.

use super::Exit;
use super::print;
use super::progress::Progress;
use super::results::REPORT;
use crate::launch::lock::MergeLock;
use anyhow::{Context, Result, bail};
use rankscope_analysis::MergeOptions;
use rankscope_analysis::merge::in_periods::{PeriodOptions, PeriodProgress, merge_in_periods};
use rankscope_analysis::merge::unit_runner::UnitRunner;
use rankscope_analysis::model::time_range::time_ns;
use rankscope_formats::files::is_remote;
use rankscope_formats::session::{PERIODS_FILE, Periods, SESSION_DIRECTORY};
use rankscope_report::{Places, TextLayout};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Unit of lengths of periods, in nanoseconds. Their names have whole seconds.
const SECOND_NS: i64 = 1_000_000_000;

/// Parses the length of a period, in nanoseconds.
pub fn length_ns(text: &str) -> Result<i64, String> {
    let length = time_ns(text).filter(|&ns| ns >= SECOND_NS && ns % SECOND_NS == 0);
    length
        .ok_or_else(|| format!("'{text}' is not a length of periods; write whole seconds, as 1h, 10m or 90s"))
}

/// What to merge, and where to.
pub struct InPeriods<'a> {
    /// Run directories.
    pub directories: &'a [PathBuf],
    /// Directory that gets the session.
    pub output: &'a Path,
    /// Length of a period, in nanoseconds.
    pub length_ns: i64,
    /// Merges periods in other processes.
    pub runner: Option<Arc<dyn UnitRunner>>,
    /// Whether no page is written.
    pub only_session: bool,
    /// Whether the list of periods is printed as JSON.
    pub json: bool,
}

impl InPeriods<'_> {
    /// Merges the periods that are missing or not final, and prints all.
    pub fn run(&self, progress: Progress) -> Result<Exit> {
        let output = self.output;
        if let Some(url) = self
            .directories
            .iter()
            .map(PathBuf::as_path)
            .chain([output])
            .find(|path| is_remote(path))
        {
            bail!(
                "merge --every needs a run directory of this machine, and {} is in an object store",
                url.display()
            );
        }
        fs::create_dir_all(output).with_context(|| format!("cannot create {}", output.display()))?;
        let _lock = MergeLock::take(output)?;
        let session = output.join(SESSION_DIRECTORY);
        let options = MergeOptions::new(self.directories.to_vec(), session.clone());
        let mut report = |now: PeriodProgress| {
            let phase = match now.all {
                0 => now.current.phase.to_owned(),
                all => format!(
                    "period {} of {all}: {}",
                    (now.done + 1).min(all),
                    now.current.phase
                ),
            };
            progress.report(phase, now.current.share);
        };
        let periods = PeriodOptions {
            runner: self.runner.clone(),
            ..PeriodOptions::new(self.length_ns)
        };
        let list = merge_in_periods(&options, &periods, &mut report)?;
        drop(progress);
        let html = (!self.only_session).then(|| output.join(REPORT));
        if let Some(html) = &html {
            rankscope_report::periods::write_html(&list, &session, html)
                .with_context(|| format!("cannot write {}", html.display()))?;
        }
        if self.json {
            print::json(&list)?;
        } else {
            let places = Places {
                session,
                trace: None,
                report: html,
            };
            let layout = TextLayout::of_stdout();
            print::text(&rankscope_report::periods::text(&list, &places, &layout))?;
        }
        Ok(Exit::Fine)
    }
}

/// Fails if a session is in periods. A merge of the whole run would replace it.
pub fn refuse_periods(output: &Path) -> Result<()> {
    let session = output.join(SESSION_DIRECTORY);
    if !session.join(PERIODS_FILE).exists() {
        return Ok(());
    }
    let length = match Periods::read(&session) {
        Ok(Some(list)) => format!("{}s", list.length_ns / SECOND_NS),
        _ => "TIME".to_owned(),
    };
    bail!(
        "{} is in periods; continue it with --every {length}, name another directory with -o, or remove it to merge the \
         whole run",
        session.display()
    )
}
