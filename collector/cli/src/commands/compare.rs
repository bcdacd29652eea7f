//! `rankscope compare`.

use super::print::message as warn;
use super::progress::Progress;
use super::{Exit, print, session, worst_steps};
use crate::launch::run_directory;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rankscope_compare::baseline;
use rankscope_compare::baseline::KeyFilter;
use rankscope_compare::gate::Gate;
use rankscope_compare::settings;
use rankscope_compare::settings::{Inconclusive, Settings};
use rankscope_compare::{Run, comparable, metrics};
use rankscope_formats::comparison::{Comparison, StoredBatch, comparison_schema};
use rankscope_formats::files;
use rankscope_formats::session::find_session;
use rankscope_formats::whole_file;
use rankscope_report::TextLayout;
use rankscope_report::compare::{
    Listed, comparison_junit, comparison_markdown, comparison_page, comparison_text,
    comparison_workflow_commands,
};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  rankscope compare base/ -- new/                         compare all runs of two directories
  rankscope compare a1 a2 a3 -- b1 b2 b3                  three runs per side
  rankscope compare base/ -- new/ --fail-on 'step_time>+2%' --fail-on 'busbw[all-reduce *]<-10%'
  rankscope compare base/ -- new/ --markdown comment.md --html page.html --junit gate.xml
  rankscope compare --baseline git:baselines --branch main -- new/
                                                          compare with the last five entries of a baseline
  rankscope run --repeat 5 --against 'python old.py' -o cmp -- python new.py   record in turns, then compare

Exit status: 0 no declared limit exceeded, 1 a regression, 2 wrong usage or unreadable input, 3 inconclusive.";

/// Compare runs: whether a change made training or communication worse, where, and with which certainty.
///
/// Each side is one or several runs: run directories that were merged, session directories, or directories of these.
/// Only declared limits fail a comparison (--fail-on; by default step_time>+2%, exposed_wait>+2%step,
/// exposed_transfer>+2%step). A limit passes if a change beyond it can be excluded. It fails if the change is proven to
/// be beyond it. Otherwise it is inconclusive.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "rankscope compare [OPTIONS] BASE… -- NEW… [OPTIONS]")]
pub struct Compare {
    /// Base runs.
    #[arg(value_name = "BASE", required_unless_present_any = ["baseline", "metrics", "schema"])]
    base: Vec<PathBuf>,

    /// New runs, which are judged. The arguments after `--` become values of this option.
    #[arg(long, value_name = "NEW", num_args = 1.., hide = true)]
    new: Vec<PathBuf>,

    /// Compare with the last entries of this baseline: a directory, or git:BRANCH.
    #[arg(
        long,
        value_name = "STORE",
        help_heading = "Baseline",
        conflicts_with = "base"
    )]
    baseline: Option<String>,

    /// Maximum number of entries to use from the baseline.
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Baseline", value_parser = clap::value_parser!(u32).range(1..))]
    last: u32,

    /// Branch of the baseline entries (default: any).
    #[arg(long, value_name = "NAME", help_heading = "Baseline")]
    branch: Option<String>,

    /// Machine of the baseline entries (default: the machine of the new runs).
    #[arg(long, value_name = "NAME", help_heading = "Baseline")]
    machine: Option<String>,

    /// Job of the baseline entries (default: the job of the new runs).
    #[arg(long, value_name = "NAME", help_heading = "Baseline")]
    job: Option<String>,

    /// Fail if a change beyond this limit is proven: METRIC>+AMOUNT, or METRIC<-AMOUNT if more is better. The amount is
    /// a share of the metric (%), a share of the step time (%step), or a value in the metric's unit. METRIC[SUBJECT]
    /// takes * for any text.
    #[arg(long, value_name = "LIMIT")]
    fail_on: Vec<Gate>,

    /// Exit status of a result that noise leaves open: 3 (say), 0 (pass) or 1 (fail). A limit without data, or without
    /// comparable runs, never passes.
    #[arg(long, value_name = "HOW")]
    inconclusive: Option<How>,

    /// Compare although the runs differ in this; repeatable.
    #[arg(long, value_name = "WHAT", value_parser = clap::builder::PossibleValuesParser::new(comparable::NAMES))]
    accept: Vec<String>,

    /// Highest probability, in percent, that any limit fails although nothing changed (default 1).
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    alpha: Option<f64>,

    /// Changes within this many percent count as unchanged (default 5).
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    unchanged_within: Option<f64>,

    /// Settings file (default: rankscope.toml in this directory or its parents).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Baseline or runs that supply only the noise between runs; for one run per side.
    #[arg(long, value_name = "STORE|RUN", help_heading = "Baseline")]
    noise_from: Vec<String>,

    /// Print the result as JSON.
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Write a comment for a pull request; - writes it to standard output instead of the text.
    #[arg(long, value_name = "FILE", help_heading = "Output", conflicts_with = "json")]
    markdown: Option<PathBuf>,

    /// Write an HTML page with charts: distributions, the change by part, the longest steps of both sides.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,

    /// Write the limits as test cases for CI, as JUnit XML.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    junit: Option<PathBuf>,

    /// Print annotations for a GitHub workflow, and add the comment to its step summary.
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    github: bool,

    /// List all metrics and all ranks.
    #[arg(long, help_heading = "Output")]
    all: bool,

    /// List all metrics and exit.
    #[arg(long, exclusive = true)]
    metrics: bool,

    /// Print the JSON Schema of the output of --json and exit.
    #[arg(long, exclusive = true)]
    schema: bool,
}

/// Name prefix of the failed runs of a batch (`rankscope run --repeat`).
const FAILED: &str = "failed-run-";

/// Turns the `--` of `rankscope compare` into the option --new, so that options may follow the new runs.
pub fn with_sides(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    if arguments.get(1).is_some_and(|command| command == "compare")
        && let Some(between) = arguments.iter_mut().find(|argument| *argument == "--")
    {
        *between = "--new".into();
    }
    arguments
}

/// Treatment of an inconclusive result.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum How {
    Say,
    Pass,
    Fail,
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .trim_end_matches('%')
        .trim()
        .parse()
        .map_err(|_| format!("'{text}' is not a number"))?;
    let is_share = number > 0.0 && number < 50.0;
    is_share
        .then_some(number / 100.0)
        .ok_or_else(|| format!("'{text}' is not above 0 and below 50"))
}

impl Compare {
    pub fn run(self) -> Result<Exit> {
        if self.schema {
            print::json(&comparison_schema())?;
            return Ok(Exit::Fine);
        }
        if self.metrics {
            print::text(&list())?;
            return Ok(Exit::Fine);
        }
        if self.new.is_empty() {
            bail!("name the new runs after --: rankscope compare BASE… -- NEW…");
        }
        let settings = self.settings()?;
        let progress = Progress::new();
        let new = read_all(&self.new, &progress)?;
        let (base, label) = match &self.baseline {
            Some(store) => {
                let stored = self.stored(store, &new)?;
                (stored.batches.into_iter().flatten().collect(), Some(stored.label))
            }
            None => (read_all(&self.base, &progress)?, None),
        };
        let mut noise = Vec::new();
        for source in &self.noise_from {
            noise.extend(self.noise(source, &new, &progress)?);
        }
        let mut comparison = rankscope_compare::compare(&base, &new, &noise, &settings)?;
        comparison.base.label = label;
        drop(progress);
        // The verdict does not depend on the reader of the text, who may close the pipe (`| head`).
        match self.write(&comparison) {
            Err(error) if !print::is_broken_pipe(&error) => Err(error),
            _ => Ok(exit(&comparison)),
        }
    }

    /// Writes all requested outputs.
    fn write(&self, comparison: &Comparison) -> Result<()> {
        let file = |path: &Path, text: &str| {
            whole_file::write(path, text.as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))
        };
        if let Some(path) = &self.html {
            let pictures = worst_steps::pictures(comparison);
            file(path, &comparison_page(comparison, &pictures))?;
        }
        if let Some(path) = &self.junit {
            file(path, &comparison_junit(comparison)?)?;
        }
        let markdown = || comparison_markdown(comparison);
        let is_for_stdout = self.markdown.as_deref() == Some(Path::new("-"));
        if let Some(path) = self.markdown.as_deref().filter(|_| !is_for_stdout) {
            file(path, &markdown())?;
        }
        if self.github {
            if let Some(summary) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) {
                let path = Path::new(&summary);
                let mut file = std::fs::OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(path)
                    .with_context(|| format!("cannot open {}", path.display()))?;
                file.write_all(markdown().as_bytes())
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
            print::text(&comparison_workflow_commands(comparison))?;
        }
        if self.json {
            print::json(comparison)
        } else if is_for_stdout {
            print::text(&markdown())
        } else {
            let listed = if self.all { Listed::All } else { Listed::Notable };
            print::text(&comparison_text(comparison, listed, &TextLayout::of_stdout()))
        }
    }

    /// Reads the settings from the file. Options of the command line override them.
    fn settings(&self) -> Result<Settings> {
        let mut settings = Settings::default();
        let found = match &self.config {
            Some(file) => Some(file.clone()),
            None => {
                settings::find(&std::env::current_dir().context("cannot determine the working directory")?)
            }
        };
        if let Some(file) = found {
            settings.read(&file)?;
        }
        if !self.fail_on.is_empty() {
            settings.gates.clone_from(&self.fail_on);
        }
        if let Some(alpha) = self.alpha {
            settings.family_alpha = alpha;
        }
        if let Some(margin) = self.unchanged_within {
            settings.margin = margin;
        }
        settings.accepted.extend(self.accept.iter().cloned());
        match self.inconclusive {
            Some(How::Say) => settings.inconclusive = Inconclusive::Say,
            Some(How::Pass) => settings.inconclusive = Inconclusive::Pass,
            Some(How::Fail) => settings.inconclusive = Inconclusive::Fail,
            None => {}
        }
        Ok(settings)
    }
}

/// Returns the exit status of a comparison.
pub fn exit(comparison: &Comparison) -> Exit {
    match comparison.exit_status {
        0 => Exit::Fine,
        1 => Exit::Regression,
        _ => Exit::Inconclusive,
    }
}

/// Compares runs with the settings of the current project.
pub fn of_runs(base: &[PathBuf], new: &[PathBuf]) -> Result<Comparison> {
    let mut settings = Settings::default();
    if let Some(file) =
        settings::find(&std::env::current_dir().context("cannot determine the working directory")?)
    {
        settings.read(&file)?;
    }
    let progress = Progress::new();
    let (base, new) = (read_all(base, &progress)?, read_all(new, &progress)?);
    Ok(rankscope_compare::compare(&base, &new, &[], &settings)?)
}

/// Runs of a baseline.
struct Stored {
    /// Runs by entry.
    batches: Vec<Vec<Run>>,
    /// Branch, machine and commit of the newest entry.
    label: String,
}

impl Compare {
    /// Reads the last entries of a baseline. By default they belong to the machine and job of these runs.
    fn stored(&self, store: &str, like: &[Run]) -> Result<Stored> {
        let first = like.first().map(|run| &run.summary);
        let filter = KeyFilter {
            branch: self.branch.clone(),
            machine: self
                .machine
                .clone()
                .or_else(|| first.and_then(baseline::machine::machine)),
            job: self.job.clone(),
        };
        let found = baseline::open(store, None)?.batches(&filter, Some(self.last as usize))?;
        for problem in &found.problems {
            // Every omission is reported.
            warn(&format!("left out of the baseline: {problem}"));
        }
        let jobs: BTreeSet<&str> = found
            .entries
            .iter()
            .map(|(_, batch)| batch.job.as_str())
            .collect();
        if jobs.len() > 1 {
            let jobs: Vec<&str> = jobs.into_iter().collect();
            bail!(
                "{store} has entries of several jobs; name one with --job: {}",
                jobs.join(", ")
            );
        }
        let Some((_, newest)) = found.entries.last() else {
            let machine = filter.machine.as_deref().unwrap_or("any machine");
            bail!(
                "{store} has no entry for {machine}; rankscope baseline list --store {store} lists its entries"
            );
        };
        let commit = newest
            .commit
            .as_deref()
            .map_or_else(String::new, |commit| format!(", commit {commit:.12}"));
        let label = format!("branch {}, machine {}{commit}", newest.branch, newest.machine);
        let branches: BTreeSet<&str> = found
            .entries
            .iter()
            .map(|(_, batch)| batch.branch.as_str())
            .collect();
        if branches.len() > 1 {
            let branches: Vec<&str> = branches.into_iter().collect();
            bail!(
                "{store} has entries of several branches; name one with --branch: {}",
                branches.join(", ")
            );
        }
        let runs = |(entry, batch): (u32, StoredBatch)| {
            let runs = batch.runs.into_iter();
            runs.map(|run| Run::of_baseline(run, entry)).collect()
        };
        Ok(Stored {
            batches: (0..)
                .zip(found.entries.into_iter().map(|(_, batch)| batch))
                .map(runs)
                .collect(),
            label,
        })
    }

    /// Returns batches of runs that supply the noise between runs.
    fn noise(&self, source: &str, like: &[Run], progress: &Progress) -> Result<Vec<Vec<Run>>> {
        let is_store = baseline::store::is_git(source) || Path::new(source).join(baseline::ENTRIES).is_dir();
        if is_store {
            return Ok(self.stored(source, like)?.batches);
        }
        Ok(vec![read_all(&[PathBuf::from(source)], progress)?])
    }
}

/// Reads all runs in these paths.
fn read_all(paths: &[PathBuf], progress: &Progress) -> Result<Vec<Run>> {
    let mut sessions = Vec::new();
    for path in paths {
        sessions.extend(runs_in(path)?);
    }
    let mut out = Vec::new();
    for (at, (shown, directory)) in sessions.iter().enumerate() {
        progress.report("reading runs", Some(at as f64 / sessions.len() as f64));
        let summarised = rankscope_compare::summarise::summarise(directory, &shown.display().to_string())
            .with_context(|| format!("cannot compare {}", shown.display()))?;
        out.push(Run::of_session(summarised));
    }
    Ok(out)
}

/// Returns the run at `path`, or the runs in this directory of runs, by name. Each has the path as typed and the
/// session's path.
fn runs_in(path: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let cannot_open = |path: &Path| format!("cannot open {}", path.display());
    if let Some(directory) = find_session(path).with_context(|| cannot_open(path))? {
        return Ok(vec![(path.to_path_buf(), directory)]);
    }
    let mut found: Vec<(PathBuf, PathBuf)> = Vec::new();
    if let Some((session, list)) = session::in_periods(path)? {
        bail!(list.one_is_needed(path, &session));
    }
    let entries = files::list(path).with_context(|| format!("cannot read {}", path.display()))?;
    for run in entries
        .iter()
        .filter(|entry| entry.is_directory)
        .map(|entry| path.join(&entry.name))
    {
        let name = run
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        if name.starts_with(FAILED) {
            warn(&format!("left out: {} failed", run.display()));
            continue;
        }
        // A run that cannot be read must not be missing silently.
        match find_session(&run).with_context(|| cannot_open(&run))? {
            Some(directory) => found.push((run, directory)),
            None if let Some((session, list)) = session::in_periods(&run)? => {
                warn(&format!("left out: {}", list.one_is_needed(&run, &session)));
            }
            // A run without a session must not be missing silently, either.
            None if files::list(&run).is_ok_and(|files| {
                files
                    .iter()
                    .any(|file| run_directory::is_log(Path::new(&file.name)))
            }) =>
            {
                let run = run.display();
                warn(&format!("left out: {run} was not merged (rankscope merge {run})"));
            }
            None => {}
        }
    }
    if found.is_empty() {
        session::locate(path)?;
    }
    found.sort();
    Ok(found)
}

/// Returns the list of all metrics as text.
fn list() -> String {
    let mut out = String::new();
    for metric in metrics::ALL {
        let name = metric
            .subject
            .map_or_else(|| metric.name.to_owned(), |of| format!("{}[{of}]", metric.name));
        out.push_str(&format!(
            "{name:36} {:8} {} is better; {}\n",
            metric.unit.name(),
            metric.better.name(),
            metric.meaning
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        compare: Compare,
    }

    #[test]
    fn options_are_allowed_anywhere() {
        for line in [
            "rankscope compare a b -- c d --fail-on step_time>+1% --json",
            "rankscope compare --fail-on step_time>+1% --json a b -- c d",
            "rankscope compare a b --json -- c d --fail-on step_time>+1%",
        ] {
            let arguments = with_sides(line.split(' ').map(OsString::from));
            let line = Line::try_parse_from(arguments.into_iter().skip(1))
                .expect("well formed")
                .compare;
            assert_eq!(line.base, ["a", "b"].map(PathBuf::from));
            assert_eq!(line.new, ["c", "d"].map(PathBuf::from));
            assert!(line.json && line.fail_on.len() == 1);
        }
        let other = with_sides(["rankscope", "run", "--", "x"].map(OsString::from).into_iter());
        assert_eq!(other[2], "--");
    }
}
