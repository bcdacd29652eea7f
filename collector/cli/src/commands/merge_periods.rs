//! `rankscope merge --every`: merges a long run in periods.

use super::Exit;
use super::print;
use super::print::message as warn;
use super::progress::Progress;
use super::results::REPORT;
use crate::launch::lock::MergeLock;
use anyhow::{Context, Result, bail};
use rankscope_analysis::MergeOptions;
use rankscope_analysis::merge::in_periods::{PeriodOptions, PeriodProgress, merge_in_periods};
use rankscope_analysis::merge::unit_runner::UnitRunner;
use rankscope_analysis::model::time_range::time_ns;
use rankscope_formats::files::{self, Found};
use rankscope_formats::session::{PERIODS_FILE, Periods, SESSION_DIRECTORY};
use rankscope_report::{Places, TextLayout};
use std::fs;
use std::io::{self, Write};
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
    /// Copied directories, and the URLs from which they came.
    pub origins: &'a [(PathBuf, PathBuf)],
    /// Directory that gets the session.
    pub output: &'a Path,
    /// Length of a period, in nanoseconds.
    pub length_ns: i64,
    /// Time of the newest copy, in nanoseconds since 1970, if logs are copies.
    pub copied_unix_ns: Option<i64>,
    /// True if no process of the job records any more.
    pub has_ended: bool,
    /// Merges periods in other processes.
    pub runner: Option<Arc<dyn UnitRunner>>,
    /// Whether no page is written.
    pub only_session: bool,
    /// Whether the list of periods is printed as JSON.
    pub json: bool,
}

/// Continues the periods of a run directory, and prints all to standard error, where they cannot be confused with the job's output.
pub fn continue_to_stderr(directory: &Path, length_ns: i64) -> Result<()> {
    let in_periods = InPeriods {
        directories: &[directory.to_path_buf()],
        origins: &[],
        output: directory,
        length_ns,
        copied_unix_ns: None,
        has_ended: true,
        runner: None,
        only_session: false,
        json: false,
    };
    let (list, places) = in_periods.merge(&Progress::new())?;
    let text = rankscope_report::periods::text(&list, &places, &TextLayout::of_stderr());
    let mut stderr = io::stderr().lock();
    // A failed write is ignored: nobody reads the output any more.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    Ok(())
}

impl InPeriods<'_> {
    /// Prints all periods.
    pub fn print(&self, list: &Periods, places: &Places) -> Result<Exit> {
        if self.json {
            print::json(list)?;
        } else {
            let layout = TextLayout::of_stdout();
            print::text(&rankscope_report::periods::text(list, places, &layout))?;
        }
        Ok(Exit::Fine)
    }

    /// Merges the periods that are missing or not final. Returns all.
    pub fn merge(&self, progress: &Progress) -> Result<(Periods, Places)> {
        let output = self.output;
        fs::create_dir_all(output).with_context(|| format!("cannot create {}", output.display()))?;
        let _lock = MergeLock::take(output)?;
        let session = output.join(SESSION_DIRECTORY);
        let options = MergeOptions {
            origins: self.origins.to_vec(),
            ..MergeOptions::new(self.directories.to_vec(), session.clone())
        };
        let mut report = |now: PeriodProgress| {
            let phase = now.current.phase;
            let phase = match now.all {
                0 => phase.to_owned(),
                all => format!("period {} of {all}: {phase}", (now.done + 1).min(all)),
            };
            progress.report(phase, now.current.share);
        };
        let periods = PeriodOptions {
            copied_unix_ns: self.copied_unix_ns,
            has_ended: self.has_ended,
            runner: self.runner.clone(),
            ..PeriodOptions::new(self.length_ns)
        };
        let list = merge_in_periods(&options, &periods, &mut report)?;
        for missed in &list.missed {
            let file = missed.file.as_deref().unwrap_or_default();
            warn(&format!("{file}: {}", missed.what));
        }
        let html = (!self.only_session).then(|| output.join(REPORT));
        if let Some(html) = &html {
            rankscope_report::periods::write_html(&list, &session, html)
                .with_context(|| format!("cannot write {}", html.display()))?;
        }
        let places = Places {
            session,
            trace: None,
            report: html,
        };
        Ok((list, places))
    }
}

/// Returns the length of the periods in a directory, in nanoseconds; `None` if it has no periods.
pub fn length_in(output: &Path) -> Result<Option<i64>> {
    let list = Periods::read(&output.join(SESSION_DIRECTORY))?;
    Ok(list.map(|list| list.length_ns))
}

/// Fails if a session is in periods. A merge of the whole run would replace it.
pub fn refuse_periods(output: &Path) -> Result<()> {
    let session = output.join(SESSION_DIRECTORY);
    let list = session.join(PERIODS_FILE);
    let found = files::find(&list).with_context(|| format!("cannot read {}", list.display()))?;
    if found == Found::Nothing {
        return Ok(());
    }
    let length = match Periods::read(&session) {
        Ok(Some(list)) => list.length(),
        _ => "TIME".to_owned(),
    };
    bail!(
        "{} is in periods; continue it with --every {length}, name another directory with -o, or remove it to merge the \
         whole run",
        session.display()
    )
}
