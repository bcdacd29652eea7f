//! `rankscope merge`.

use super::cluster::Cluster;
use super::merge_periods::{self, InPeriods, refuse_periods};
use super::print::message as warn;
use super::progress::Progress;
use super::results::{REPORT, TRACE};
use super::staged::{self, Staged};
use super::staged_periods::PeriodsInStore;
use super::{Exit, export, print, refuse_url};
use crate::launch::ending::Ending;
use crate::launch::lock::{LOCK, MergeLock};
use crate::launch::stop::StopWatch;
use crate::launch::{live, record, run_directory};
use anyhow::{Context, Result, bail};
use clap::Args;
use rankscope_analysis::findings;
use rankscope_analysis::index;
use rankscope_analysis::ingest::part::Last;
use rankscope_analysis::merge::unit_runner::UnitRunner;
use rankscope_analysis::model::time_range::time_ns;
use rankscope_analysis::{MergeOptions, merge_by, merge_last};
use rankscope_formats::files::is_remote;
use rankscope_formats::session::{SESSION_DIRECTORY, Session};
use rankscope_formats::whole_file;
use rankscope_report::export::perfetto;
use rankscope_report::export::perfetto::PerfettoOptions;
use rankscope_report::{Places, TextLayout};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of a session that is being written. It is renamed once it is complete.
const UNFINISHED: &str = "session.unfinished";

const EXAMPLES: &str = "\
Examples:
  rankscope merge shared/run1                       after a recording without `rankscope run`, or an interrupted merge
  rankscope merge node0/run node1/run -o merged     nodes without a shared file system
  rankscope merge shared/run1 -o now --only-session --last 5s
                                                    the last five seconds of a run that still records
  rankscope merge shared/run1 --every 1h            a run of days: merges what is new, hour by hour
  rankscope merge s3://bucket/run1                  a run in an object store, and its results
  rankscope merge --cluster head:50050 shared/run1  on several machines (see `rankscope executor`)
  rankscope merge shared/run1 --json | jq .findings";

/// Merge the logs of all ranks into one session, a trace and a report, and print the summary.
///
/// Merging again gives the same result. The logs do not change, and the new session replaces the old one.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Merge {
    /// Run directories, on this machine or in an object store (s3://, gs://, az://).
    #[arg(required = true, value_name = "DIR|URL")]
    directories: Vec<PathBuf>,

    /// Directory to write to, on this machine or in an object store. The default for a single run directory is that directory.
    #[arg(short, long, value_name = "DIR|URL")]
    output: Option<PathBuf>,

    /// Directory for copies of logs from object stores. The default is the system's directory for temporary files. With --every, the
    /// copies stay there, and the next merge copies only what is new.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Make only the session and its index, without trace and report. Use this for a run that still records.
    #[arg(long)]
    only_session: bool,

    /// Merge only the last part of the run, for example 5s or 500ms. Records that cross its start are left out and
    /// counted. The rest of the logs is not read.
    #[arg(long, value_name = "TIME", value_parser = length_ns, requires = "only_session")]
    last: Option<i64>,

    /// Merge only the last N records (approximate, over all ranks).
    #[arg(long, value_name = "RECORDS", requires = "only_session")]
    last_records: Option<u64>,

    /// Merge a long run in periods of this length, for example 1h. Each period is a session of its own, and is written once.
    /// Merging again adds only what is new. Periods start at multiples of their length, in UTC.
    #[arg(long, value_name = "TIME", value_parser = merge_periods::length_ns, conflicts_with_all = ["last", "last_records"])]
    every: Option<i64>,

    #[command(flatten)]
    cluster: Cluster,

    /// Print the summary of the session as JSON.
    #[arg(long)]
    json: bool,
}

fn length_ns(text: &str) -> Result<i64, String> {
    let length = time_ns(text).filter(|&ns| ns > 0);
    length.ok_or_else(|| format!("'{text}' is not a duration; write it as 5s or 500ms"))
}

impl Merge {
    pub fn run(self) -> Result<Exit> {
        let output = match (&self.output, self.directories.as_slice()) {
            (Some(output), _) => output.clone(),
            (None, [only]) => only.clone(),
            (None, _) => bail!("several run directories need an output directory: -o DIR"),
        };
        let last = Last {
            time_ns: self.last,
            records: self.last_records,
        };
        // A partial merge is for a run that still records. It must not wait for the end of the run or touch existing
        // files.
        if last == Last::default() {
            self.collect()?;
        }
        if let Some(scratch) = &self.scratch {
            refuse_url(scratch, "merge --scratch")?;
        }
        let is_local = !self
            .directories
            .iter()
            .chain([&output])
            .any(|path| is_remote(path));
        let mut staged = match (is_local, self.every, &self.scratch) {
            (true, ..) => None,
            (false, Some(_), Some(scratch)) => Some(Staged::keep(scratch, &self.directories, &output)?),
            (false, ..) => Some(Staged::create(self.scratch.as_deref())?),
        };
        let abandoned = output.clone();
        let scratch = staged.as_ref().and_then(Staged::temporary);
        let kept = staged.as_ref().map_or_else(Vec::new, Staged::locked);
        let _watch = StopWatch::start(move |signal| {
            abandon(&abandoned);
            kept.iter().for_each(|directory| abandon(directory));
            if let Some(scratch) = &scratch {
                staged::remove(scratch);
            }
            warn("interrupted; the recording is intact, merge again to complete it");
            Ending::Signal(signal).end_likewise()
        });
        let progress = Progress::new();
        if staged.is_some() && self.every.is_none() {
            refuse_periods(&output)?;
        }
        if let Some(length_ns) = self.every {
            return self.merge_every(length_ns, &output, staged, progress);
        }
        if let Some(staged) = &mut staged {
            staged.fetch(&self.directories, &output, &progress)?;
        }
        let runner = self.cluster.runner();
        let input = match &staged {
            Some(staged) => Input {
                directories: &staged.directories,
                origins: &staged.origins,
                output: &staged.output,
                runner: runner.as_ref(),
            },
            None => Input {
                directories: &self.directories,
                origins: &[],
                output: &output,
                runner: runner.as_ref(),
            },
        };
        let mut merged = if self.only_session {
            merge_session(input, last, &progress)?.0
        } else {
            merge_input(input, &progress)?
        };
        if let Some(staged) = &staged {
            staged.deliver(&mut merged.places, self.only_session, &progress)?;
        }
        drop(progress);
        merged.print(self.json)?;
        Ok(merged.exit())
    }

    /// Merges in periods, on this machine or from and to an object store.
    fn merge_every(
        self,
        length_ns: i64,
        output: &Path,
        mut staged: Option<Staged>,
        progress: Progress,
    ) -> Result<Exit> {
        // Before the logs: an error appears at once, and the logs are not older than the periods.
        let in_store = match is_remote(output) {
            true => Some(PeriodsInStore::read(output, length_ns)?),
            false => None,
        };
        if let Some(staged) = &mut staged {
            staged.fetch(&self.directories, output, &progress)?;
        }
        let (directories, origins, output) = match &staged {
            Some(staged) => (
                staged.directories.as_slice(),
                staged.origins.as_slice(),
                staged.output.as_path(),
            ),
            None => (self.directories.as_slice(), [].as_slice(), output),
        };
        let in_periods = InPeriods {
            directories,
            origins,
            output,
            length_ns,
            copied_unix_ns: staged.as_ref().and_then(|staged| staged.newest_unix_ns),
            has_ended: false,
            runner: self.cluster.runner(),
            only_session: self.only_session,
            json: self.json,
        };
        let staged = match in_store {
            Some(in_store) => Some(in_store.stage(output, &progress)?),
            None => None,
        };
        let (list, mut places) = in_periods.merge(&progress)?;
        if let Some(staged) = staged {
            staged.deliver(&list, &mut places, &progress)?;
        }
        drop(progress);
        in_periods.print(&list, &places)
    }

    /// Moves the records of dead processes from their live areas to their logs. Warns about processes that still run.
    fn collect(&self) -> Result<()> {
        for directory in self.directories.iter().filter(|directory| !is_remote(directory)) {
            let recording: Vec<_> = record::read_all(directory)
                .into_iter()
                .filter(record::LaunchRecord::is_recording)
                .collect();
            for launch in &recording {
                warn(&format!(
                    "{} still records into {} ({}); the session has its records so far",
                    launch.launcher.host,
                    directory.display(),
                    launch.command_line
                ));
            }
            let found = live::collect_all(directory, &recording)?;
            for process in &found.running {
                warn(&format!(
                    "{process} still runs; the session has its records so far"
                ));
            }
            for log in &found.missing {
                warn(&format!(
                    "{} is incomplete and its live area is not on this machine: its last seconds are missing unless \
                     you merge on the machine that recorded it",
                    log.display()
                ));
            }
            for failure in &found.failed {
                warn(failure);
            }
        }
        Ok(())
    }
}

/// Result of a merge.
pub struct Merged {
    /// Summary of the session.
    pub session: Session,
    /// Paths of the session, the trace and the report.
    pub places: Places,
}

impl Merged {
    /// Prints the summary, as JSON or as text.
    pub fn print(&self, json: bool) -> Result<()> {
        if json {
            let document = rankscope_report::document::document(&self.session, &self.places.session)?;
            return print::json(&document);
        }
        print::text(&rankscope_report::summary_text(
            &self.session,
            &self.places,
            &TextLayout::of_stdout(),
        ))
    }

    /// Returns the exit status. Contradictory figures allow no conclusion.
    pub fn exit(&self) -> Exit {
        if findings::contradictory(&self.session).is_empty() {
            Exit::Fine
        } else {
            Exit::Inconclusive
        }
    }
}

/// Input and output of a merge, on this machine.
#[derive(Clone, Copy)]
struct Input<'a> {
    directories: &'a [PathBuf],
    /// Copied directories, and the URLs from which they came.
    origins: &'a [(PathBuf, PathBuf)],
    output: &'a Path,
    /// Runs units, if other processes read the logs.
    runner: Option<&'a Arc<dyn UnitRunner>>,
}

impl<'a> Input<'a> {
    fn local(directories: &'a [PathBuf], output: &'a Path) -> Self {
        Self {
            directories,
            origins: &[],
            output,
            runner: None,
        }
    }
}

/// Merges run directories into `output`: session, trace, report.
pub fn merge(directories: &[PathBuf], output: &Path) -> Result<Merged> {
    merge_input(Input::local(directories, output), &Progress::new())
}

fn merge_input(input: Input<'_>, progress: &Progress) -> Result<Merged> {
    let output = input.output;
    let (Merged { session, mut places }, _lock) = merge_session(input, Last::default(), progress)?;
    write_report(&session, output, &mut places)?;
    // A missing trace does not invalidate the session.
    match write_trace(&places.session, &session, output, progress) {
        Ok(trace) => places.trace = Some(trace),
        Err(error) => {
            // An older trace would show another session.
            let _ = fs::remove_file(output.join(TRACE));
            warn(&format!("no trace was written: {}", print::error_line(&error)));
        }
    }
    Ok(Merged { session, places })
}

/// Merges without a trace. Compared runs are numerous, and hardly any of their traces would be opened.
pub fn merge_without_trace(directories: &[PathBuf], output: &Path) -> Result<Merged> {
    let progress = Progress::new();
    let (Merged { session, mut places }, _lock) =
        merge_session(Input::local(directories, output), Last::default(), &progress)?;
    write_report(&session, output, &mut places)?;
    Ok(Merged { session, places })
}

fn write_report(session: &Session, output: &Path, places: &mut Places) -> Result<()> {
    let html = output.join(REPORT);
    rankscope_report::write_html(session, &places.session, &html, None)
        .with_context(|| format!("cannot write {}", html.display()))?;
    places.report = Some(html);
    Ok(())
}

/// Merges run directories, or their last part, into the session in `output`, with the viewer's index. No other process
/// can merge there until the returned lock is dropped.
fn merge_session(input: Input<'_>, last: Last, progress: &Progress) -> Result<(Merged, MergeLock)> {
    let Input {
        directories,
        origins,
        output,
        runner,
    } = input;
    let mut logs = Vec::new();
    for directory in directories {
        logs.extend(run_directory::logs(directory)?);
    }
    if logs.is_empty() {
        let shown: Vec<String> = directories
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        bail!("no rank logs (*.rslog) in {}", shown.join(", "));
    }
    fs::create_dir_all(output).with_context(|| format!("cannot create {}", output.display()))?;
    let lock = MergeLock::take(output)?;
    refuse_periods(output)?;
    let unfinished = output.join(UNFINISHED);
    remove_directory(&unfinished)?;
    let options = MergeOptions {
        directories: directories.to_vec(),
        output: unfinished.clone(),
        threads: None,
        most_pending: None,
        origins: origins.to_vec(),
    };
    let mut report = |now: rankscope_analysis::Progress| progress.report(now.phase, now.share);
    let session = match runner {
        Some(runner) => merge_by(runner.clone(), &options, &mut report)?,
        None => merge_last(&options, last, &mut report)?,
    };
    let finished = output.join(SESSION_DIRECTORY);
    remove_directory(&finished)?;
    fs::rename(&unfinished, &finished)
        .with_context(|| format!("cannot rename {} to {}", unfinished.display(), finished.display()))?;
    let places = Places {
        session: finished,
        ..Places::default()
    };
    // With an index the viewer opens at once. The viewer makes missing parts itself.
    let ranks = 0..session.ranks.len() as u32;
    let indexed = index::ensure(&places.session, &session, ranks, &mut |done, all| {
        progress.report(
            "indexing for the viewer",
            Some(f64::from(done) / f64::from(all.max(1))),
        );
    });
    if let Err(error) = indexed {
        warn(&format!("{error}; the viewer will try again"));
    }
    Ok((Merged { session, places }, lock))
}

fn write_trace(directory: &Path, session: &Session, output: &Path, progress: &Progress) -> Result<PathBuf> {
    let options = PerfettoOptions::whole(output.join(TRACE));
    let exported = perfetto::export(directory, session, &options, &mut |share| {
        progress.report("writing the trace", Some(share));
    })?;
    if let Some(cut) = export::cut_off(exported.cut_off_ns) {
        warn(&cut);
    }
    Ok(options.output)
}

/// Prints the summary to standard error, where it cannot be confused with the job's output.
pub fn print_to_stderr(merged: &Merged) {
    let text = rankscope_report::summary_text(&merged.session, &merged.places, &TextLayout::of_stderr());
    let mut stderr = io::stderr().lock();
    // A failed write is ignored: nobody reads the output any more.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Removes the incomplete output of an interrupted merge of this directory. The recording is not touched.
pub fn abandon(output: &Path) {
    if MergeLock::is_own(output) {
        let _ = fs::remove_dir_all(output.join(UNFINISHED));
        let _ = whole_file::remove_leftovers(&output.join(TRACE));
        let _ = fs::remove_file(output.join(LOCK));
    }
}

fn remove_directory(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
