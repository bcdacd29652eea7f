//! `rankscope report`.

use super::parallel_requests::in_parallel;
use super::print::message as warn;
use super::progress::Progress;
use super::rank_list::RankList;
use super::report_periods::{InPeriods, OfRange};
use super::results::{REPORT, SHARED_REPORT, TRACE};
use super::{Exit, merge, print, refuse_url, session, timeline_picture};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rankscope_analysis::model::declared;
use rankscope_analysis::model::declared::{DeclaredLimits, ScopedValue};
use rankscope_analysis::model::time_range::TimeRange;
use rankscope_analysis::selection;
use rankscope_analysis::selection::SelectionRequest;
use rankscope_analysis::selection::rollup::{By, rollup};
use rankscope_analysis::summary::{named_pauses, scorecard};
use rankscope_analysis::{findings, index};
use rankscope_formats::bench::BenchResults;
use rankscope_formats::files;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{ViewFile, view_path};
use rankscope_formats::session::{Selection, Session, beside_session};
use rankscope_report::Places;
use rankscope_report::heatmap;
use rankscope_report::share::for_sharing;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

const EXAMPLES: &str = "\
Examples:
  rankscope report shared/run1                  print the summary, write shared/run1/report.html
  rankscope report shared/run1 --html out.html  write the page elsewhere
  rankscope report shared/run1 --timeline       add a picture of the timeline, drawn by the viewer
  rankscope report shared/run1 --share          write a page without names of hosts and users, paths and addresses
  rankscope report shared/run1 --json | jq .coverage
  rankscope report shared/run1 --by host        print sums by host; also rank, device, role
  rankscope report shared/run1 --range 10s..12s print only this interval; --ranks 0-3: only these ranks
  rankscope report shared/run1 --peak-busbw inside-host=450 --peak-busbw across-hosts=48 --latency-limit 60us
                                                score bandwidth and latency against the machine's limits
  rankscope report shared/week/session/periods/20261128T170000Z
                                                one period of a long run (merge --every)
  rankscope report shared/run1 --peaks bench/today   against what rankscope bench has measured";

/// Print the summary of a session, or the overview of a run in periods, and write its report.html.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Report {
    /// Run directory that was merged, or session directory. A run in periods gets an overview of all periods. For one of them, name
    /// its directory in session/periods.
    #[arg(value_name = "DIR", required_unless_present = "schema")]
    directory: Option<PathBuf>,

    /// File for the HTML page (default: report.html next to the session).
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Add a picture of the timeline to the page. This needs rankscope-viewer, but no display.
    #[arg(long, conflicts_with = "range")]
    timeline: bool,

    /// Leave out names of hosts and users, paths, and addresses, for a report that leaves the company. The page is
    /// report-shared.html.
    ///
    /// Read the page before you send it. Names of communicators, steps and spans of the program stay. What looks like a secret in
    /// command lines and variables is never recorded.
    #[arg(long, conflicts_with_all = ["timeline", "range"])]
    share: bool,

    /// Print the summary as JSON. Without --html no page is written.
    #[arg(long)]
    json: bool,

    /// Print the JSON Schema of the output of --json, with documentation of all fields. --schema=range describes the
    /// output of --range --json, and --schema=periods that of --json for a run in periods.
    #[arg(
        long,
        value_name = "OF",
        exclusive = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "summary"
    )]
    schema: Option<Printed>,

    /// Highest possible bus bandwidth of the paths, in GB/s (or MB/s, Gbit/s): for all scopes, or for inside-host,
    /// across-hosts or mixed. Without it bandwidth has no score.
    #[arg(long, value_name = "[SCOPE=]GB/s", value_parser = declared::peak)]
    peak_busbw: Vec<ScopedValue>,

    /// Longest acceptable time of a transfer of at most 64 KiB, with its unit (us, ms): for all scopes or for one.
    /// Without it latency has no score.
    #[arg(long, value_name = "[SCOPE=]TIME", value_parser = declared::latency_limit)]
    latency_limit: Vec<ScopedValue>,

    /// Bench of this machine (rankscope bench): its bandwidth and latency are the peak and the limit of ranks in the same
    /// locations. --peak-busbw and --latency-limit take precedence.
    #[arg(long, value_name = "BENCH")]
    peaks: Vec<PathBuf>,

    /// Number of tokens that all ranks together train in a step. Adds figures per token. Without it they appear only if
    /// the program marks `tokens N`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    tokens_per_step: Option<u64>,

    /// Print sums by rank, device or host, or operations by the role of their communicators, instead of the summary.
    #[arg(long, value_name = "WHAT")]
    by: Option<Level>,

    /// Print only this interval since the start of the run, for example 10s..12.5s: breakdown, operations, stalls,
    /// last ranks, counters.
    ///
    /// In a run in periods, only the periods that overlap the interval are read. If it is one, its figures are those of the
    /// interval. If there are several, their overview is printed.
    #[arg(
        long,
        value_name = "FROM..TO",
        allow_hyphen_values = true,
        conflicts_with_all = ["html", "by", "peak_busbw", "latency_limit", "peaks", "tokens_per_step"]
    )]
    range: Option<TimeRange>,

    /// With --range: include only these ranks, for example 0-3,8, and operations on communicators with one of them.
    #[arg(long, value_name = "LIST", requires = "range")]
    ranks: Option<RankList>,
}

/// Documents that have a JSON Schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Printed {
    Summary,
    Range,
    Periods,
}

/// Groups of the sums.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    Rank,
    Device,
    Host,
    Role,
}

impl Level {
    fn by(self) -> By {
        match self {
            Self::Rank => By::Rank,
            Self::Device => By::Device,
            Self::Host => By::Host,
            Self::Role => By::Role,
        }
    }
}

impl Report {
    pub fn run(self) -> Result<Exit> {
        if let Some(printed) = self.schema {
            print::json(&match printed {
                Printed::Summary => rankscope_formats::session::schema(),
                Printed::Range => rankscope_formats::session::selection_schema(),
                Printed::Periods => rankscope_formats::session::periods_schema(),
            })?;
            return Ok(Exit::Fine);
        }
        let mut directory = self.directory.clone().context("name a run directory")?;
        if let Some((session, list)) = session::in_periods(&directory)? {
            let run = InPeriods {
                given: &directory,
                session,
                list,
            };
            if let Some(option) = self.of_one_session() {
                return run.refuse(option);
            }
            let Some(range) = self.range else {
                return run.print(self.html, self.json);
            };
            match run.in_range(range)? {
                OfRange::Session(period) => directory = period,
                OfRange::Several(_) if self.ranks.is_some() => return run.refuse("--ranks"),
                OfRange::Several(several) => return run.print_several(range, &several, self.json),
            }
        }
        let (path, mut session) = session::read(&directory)?;
        if let Some(range) = self.range {
            let ranks = self.ranks.map(|list| list.positions(&session)).transpose()?;
            let ranks = ranks.map(|list| list.into_iter().map(RankIndex).collect::<BTreeSet<_>>());
            let selection = select(&path, &session, range, ranks.as_ref())?;
            if self.json {
                print::json(&selection)?;
            } else {
                let layout = rankscope_report::TextLayout::of_stdout();
                print::text(&rankscope_report::selection_text(&selection, &session, &layout))?;
            }
            return Ok(if selection.adds_up() {
                Exit::Fine
            } else {
                Exit::Inconclusive
            });
        }
        let mut stated = DeclaredLimits::default();
        for bench in &self.peaks {
            refuse_url(bench, "report --peaks")?;
            let results = BenchResults::read(bench)?;
            let library = &results.library.name;
            if !session.operations.iter().any(|class| &class.library == library) {
                bail!(
                    "{} measured {library}, which this run does not use",
                    bench.display()
                );
            }
            stated.extend(DeclaredLimits::of_bench(&results));
        }
        stated.extend(DeclaredLimits {
            peaks: self.peak_busbw,
            latency_limits: self.latency_limit,
        });
        // The session stays as merged. Declared values belong only to this report.
        if !stated.is_empty() {
            findings::state(&mut session, &stated);
            session.scorecard = Some(scorecard::scorecard(&session, &stated));
        }
        if let Some(tokens) = self.tokens_per_step {
            named_pauses::state_tokens(&mut session, tokens);
        }
        let beside = beside_session(&path).to_path_buf();
        let name = if self.share { SHARED_REPORT } else { REPORT };
        let (is_requested, mut is_written) = (self.html.is_some(), true);
        let html = self.html.or_else(|| (!self.json).then(|| beside.join(name)));
        if self.share {
            session = for_sharing(&session).context("cannot leave out names of this site")?;
        }
        if let Some(html) = &html {
            let timeline = self.timeline.then(|| timeline_picture::take(&path)).transpose()?;
            let written = rankscope_report::write_html(&session, &path, html, timeline.as_deref())
                .with_context(|| format!("cannot write {}", html.display()));
            match written {
                // Without permission to write into the bucket, the summary is printed nevertheless.
                Err(error) if !is_requested && files::is_remote(html) => {
                    let error = print::error_line(&error);
                    warn(&format!("{error}; name a file of this machine with --html"));
                    is_written = false;
                }
                other => other?,
            }
        }
        let html = html.filter(|_| is_written);
        if let Some(level) = self.by {
            let sums = rollup(&session, &heatmap::read_traffic(&path)?, level.by());
            if self.json {
                print::json(&sums)?;
            } else {
                print::text(&rankscope_report::rollup_text(
                    &sums,
                    &rankscope_report::TextLayout::of_stdout(),
                ))?;
            }
            return Ok(Exit::Fine);
        }
        let trace = Some(beside.join(TRACE)).filter(|trace| files::may_exist(trace));
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

impl Report {
    /// Returns a given option that needs one session.
    fn of_one_session(&self) -> Option<&'static str> {
        [
            ("--timeline", self.timeline),
            ("--share", self.share),
            ("--by", self.by.is_some()),
            ("--peak-busbw", !self.peak_busbw.is_empty()),
            ("--latency-limit", !self.latency_limit.is_empty()),
            ("--peaks", !self.peaks.is_empty()),
            ("--tokens-per-step", self.tokens_per_step.is_some()),
        ]
        .into_iter()
        .find_map(|(option, is_given)| is_given.then_some(option))
    }
}

/// Computes the summary of an interval of the session in `path`. Missing or outdated parts of the index are made first.
fn select(
    path: &Path,
    session: &Session,
    range: TimeRange,
    ranks: Option<&BTreeSet<RankIndex>>,
) -> Result<Selection> {
    let progress = Progress::new();
    let all = (0..session.ranks.len())
        .map(RankIndex::of)
        .filter(|rank| ranks.is_none_or(|ranks| ranks.contains(rank)));
    index::ensure(path, session, all.map(|rank| rank.0), &mut |done, all| {
        progress.report(
            "indexing the session",
            Some(f64::from(done) / f64::from(all.max(1))),
        );
    })?;
    progress.report("computing the summary", None);
    let request = SelectionRequest {
        window: range.window(session),
        ranks,
        cancelled: &AtomicBool::new(false),
    };
    // An index that cannot be read must not look like a rank without records.
    let unreadable = Mutex::new(None);
    let open = |rank: RankIndex| {
        let path = view_path(path, rank.0);
        let opened = ViewFile::open(&path).context("cannot read the index of a rank");
        let current = opened.and_then(|view| {
            if view.footer().session_written_unix_ns != session.written_unix_ns {
                bail!("{} is of another session; merge the run again", path.display());
            }
            Ok(Arc::new(view))
        });
        current.map_err(|error| keep_first(&unreadable, error)).ok()
    };
    // In an object store, opening one index after the other would take long.
    let opened: Option<Vec<Option<Arc<ViewFile>>>> = files::is_remote(path).then(|| {
        let ranks = (0..session.ranks.len()).map(RankIndex::of);
        let wanted = ranks
            .map(|rank| Some(rank).filter(|rank| request.ranks.is_none_or(|ranks| ranks.contains(rank))));
        in_parallel(wanted.collect(), |rank| rank.and_then(&open))
    });
    let view = |rank: RankIndex| match &opened {
        Some(opened) => opened.get(rank.index()).cloned().flatten(),
        None => open(rank),
    };
    let selected = selection::select(path, session, &view, request)?;
    for view in opened.iter().flatten().flatten() {
        if let Some(failure) = view.failure() {
            bail!("cannot read the index of a rank in {}: {failure}", path.display());
        }
    }
    match unreadable.into_inner() {
        Ok(None) => Ok(selected),
        Ok(Some(error)) => Err(error),
        Err(_) => bail!("a thread ended unexpectedly; please report this"),
    }
}

/// Keeps the first error.
fn keep_first(first: &Mutex<Option<anyhow::Error>>, error: anyhow::Error) {
    if let Ok(mut first) = first.lock() {
        first.get_or_insert(error);
    }
}
