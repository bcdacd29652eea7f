//! `rankscope watch`, and what `rankscope run --hang-timeout` starts beside a job.

use super::notify::{self, Notifier};
use super::status::shown;
use super::{Exit, dump, duration, print};
use crate::launch::companion::{Behind, run_behind_the_job};
use crate::launch::end_job::{self, ENDED_THE_JOB, JobProcess};
use crate::launch::job_end::{Ended, JobEnd};
use crate::launch::launcher_input;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rankscope_formats::status::{HANG_FILE_PREFIX, ProcessState, Status};
use rankscope_formats::whole_file;
use rankscope_hang::judge::JudgeOptions;
use rankscope_hang::stacks;
use rankscope_hang::watch::{Found, LogLooks, Watch as Watcher};
use rankscope_live::top::reading::{TopReader, is_empty, next_read};
use rankscope_live::warnings::{Change, Warnings};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  rankscope watch shared/run1                         report hangs of a job that runs, until it ends
  rankscope watch shared/run1 --hang-timeout 5m --exit-on-hang && echo finished
  rankscope watch shared/run1 --hang-command 'mail -s hang me@example.org'
  rankscope watch shared/run1 --warnings --dump-on hang,warning
                                                      in flight mode, write the last part on a hang or a warning
  rankscope watch shared/run1 --warnings --webhook https://hooks.example.org/services/T0/B0
  rankscope run --hang-timeout 60s -- torchrun train.py   the same beside a job that is started now

Exit status: 0 the job has ended, 1 it hangs (with --exit-on-hang), 2 wrong usage or unreadable input, 3 no rank was \
seen.";

/// Prefix of the file that reports how a failed job ended: which rank ended first, and which operation its peers were in. Merges
/// do not read it, because the job did not hang.
const END_FILE_PREFIX: &str = "end-";

/// Maximum number of processes that are listed when they end.
const MAX_ENDS: usize = 4;

/// Maximum number of parts that are written for hangs and warnings of one job. More could fill the disk.
const MAX_DUMPS: usize = 10;

/// Length of the part of the run in which findings are warnings, without `--warning-window`.
const WARNING_WINDOW: Duration = Duration::from_secs(30);

/// Number of readings per length of such a part.
const READINGS_PER_WINDOW: u32 = 3;

/// What to do on a hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnHang {
    /// Report it.
    Report,
    /// Report it and end the job.
    Kill,
}

/// Options on hangs that `run` and `watch` share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct HangOptions {
    /// Time that a wait for a rank that works may last (default: ten times --hang-timeout). Such a rank evaluates, compiles,
    /// or writes a checkpoint.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub busy_timeout: Option<Duration>,

    /// Shell command to run on a hang. It gets the report as JSON on its input, and the file in RANKSCOPE_HANG_FILE.
    #[arg(long, value_name = "COMMAND")]
    pub hang_command: Option<String>,

    /// Add the stacks of the ranks that the others wait for, read by py-spy or gdb.
    #[arg(long)]
    pub stacks: bool,
}

/// Options on reports that `run` and `watch` share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct ReportOptions {
    /// Report findings of the last seconds while the job runs: each once when it lasts, and once when it is gone.
    #[arg(long)]
    pub warnings: bool,

    /// Length of the part of the run in which a finding is a warning (default 30s). It is reported when it has lasted that long.
    #[arg(long, value_name = "TIME", requires = "warnings", value_parser = duration::parse)]
    pub warning_window: Option<Duration>,

    /// Shell command to run when a warning is raised or cleared. It gets the event as JSON on its input.
    #[arg(long, value_name = "COMMAND", requires = "warnings")]
    pub warning_command: Option<String>,

    /// Post each hang and warning to this URL as JSON. Its field `text` has the message, as chat services expect it.
    #[arg(long, value_name = "URL", value_parser = notify::webhook)]
    pub webhook: Option<String>,
}

/// Event on which the last part of a recording in flight mode is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DumpOn {
    /// The job hangs.
    Hang,
    /// A warning is raised (--warnings).
    Warning,
    /// This process receives SIGUSR1.
    Usr1,
    /// This process receives SIGUSR2.
    Usr2,
}

impl DumpOn {
    /// Returns the signal of the event.
    pub fn signal(self) -> Option<i32> {
        match self {
            Self::Usr1 => Some(libc::SIGUSR1),
            Self::Usr2 => Some(libc::SIGUSR2),
            Self::Hang | Self::Warning => None,
        }
    }
}

/// Watch a running job, and report when it hangs: which rank is missing, in which operation, and what it does instead.
///
/// It reads the run directory and the memory of the recorders. It sends no signal, and does not disturb the job. Each hang is
/// reported once, and stored as hang-TIME.json in the run directory.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Watch {
    /// Run directory of the job.
    #[arg(value_name = "RUN")]
    directory: PathBuf,

    /// Time after which a wait is a hang.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    hang_timeout: Duration,

    #[command(flatten)]
    options: HangOptions,

    #[command(flatten)]
    reports: ReportOptions,

    /// Do not look for hangs.
    #[arg(long, conflicts_with = "exit_on_hang")]
    no_hangs: bool,

    /// On these events, write the last part of a recording in flight mode beside the run directory, and merge it.
    #[arg(long, value_name = "EVENT", value_delimiter = ',')]
    dump_on: Vec<DumpOn>,

    /// Exit with status 1 on a hang.
    #[arg(long)]
    exit_on_hang: bool,

    /// Launch of `rankscope run` beside which this process watches. The end of the input ends it.
    #[arg(long, hide = true)]
    beside: Option<String>,

    /// First process of that launch. On a hang, it is ended if this is given with --kill.
    #[arg(long, hide = true)]
    job_pid: Option<u32>,

    /// End the launch on a hang.
    #[arg(long, hide = true)]
    kill: bool,
}

/// Returns the options of `rankscope watch` for a launch. Without a timeout, it does not look for hangs.
pub fn arguments(
    hang_timeout: Option<Duration>,
    options: &HangOptions,
    on_hang: OnHang,
    reports: &ReportOptions,
) -> Vec<OsString> {
    let mut out: Vec<OsString> = vec!["watch".into()];
    match hang_timeout {
        Some(timeout) => out.extend(["--hang-timeout".into(), in_ms(timeout)]),
        None => out.push("--no-hangs".into()),
    }
    if let Some(busy) = options.busy_timeout {
        out.extend(["--busy-timeout".into(), in_ms(busy)]);
    }
    if let Some(command) = &options.hang_command {
        out.extend(["--hang-command".into(), command.into()]);
    }
    if options.stacks {
        out.push("--stacks".into());
    }
    if on_hang == OnHang::Kill {
        out.push("--kill".into());
    }
    if reports.warnings {
        out.push("--warnings".into());
    }
    if let Some(window) = reports.warning_window {
        out.extend(["--warning-window".into(), in_ms(window)]);
    }
    if let Some(command) = &reports.warning_command {
        out.extend(["--warning-command".into(), command.into()]);
    }
    if let Some(url) = &reports.webhook {
        out.extend(["--webhook".into(), url.into()]);
    }
    out
}

fn in_ms(time: Duration) -> OsString {
    format!("{}ms", time.as_millis()).into()
}

/// Prints how the first processes of a job ended.
fn report_ends(ranks: &[String]) {
    let more = ranks.len().saturating_sub(MAX_ENDS);
    let mut shown = ranks[..ranks.len() - more].join("; ");
    if more > 0 {
        shown.push_str(&format!("; and {more} more"));
    }
    print::message(&format!("ended first: {shown}"));
}

impl Watch {
    pub fn run(self) -> Result<Exit> {
        if self.dump_on.contains(&DumpOn::Warning) && !self.reports.warnings {
            bail!("--dump-on warning needs --warnings");
        }
        if self.dump_on.contains(&DumpOn::Hang) && self.no_hangs {
            bail!("--dump-on hang contradicts --no-hangs");
        }
        run_behind_the_job(Behind::Soon);
        let job = self.job_pid.map(JobProcess::open);
        let mut options = JudgeOptions::of_timeout(self.hang_timeout);
        if let Some(busy) = self.options.busy_timeout {
            options.busy_timeout_ns = JudgeOptions::of_timeout(busy).timeout_ns;
        }
        let mut watcher = Watcher::new(
            LogLooks::new(vec![self.directory.clone()], options),
            self.hang_timeout,
        );
        let mut end = JobEnd::new(vec![self.directory.clone()], self.beside.is_some());
        let mut notifier = Notifier::new(self.reports.webhook.as_deref());
        let changes = self.reports.warnings.then(|| self.read_warnings());
        let requested = Arc::new(AtomicBool::new(false));
        for signal in self.dump_on.iter().filter_map(|event| event.signal()) {
            signal_hook::flag::register(signal, Arc::clone(&requested)).context("cannot handle signals")?;
        }
        let mut dumps = 0;
        loop {
            let (found, pause) = watcher.tick(Instant::now());
            match found {
                _ if self.no_hangs => {}
                Found::Nothing => {}
                Found::GoesOn => {
                    print::message("the job goes on");
                    notifier.post(&self.event("goes-on", "the job goes on", &Value::Null));
                }
                Found::Ended(ranks) => report_ends(&ranks),
                Found::Hang(mut status) => {
                    if self.options.stacks {
                        stacks::add(&mut status);
                    }
                    self.report(&status, &mut notifier);
                    if self.dump_on.contains(&DumpOn::Hang) {
                        self.dump_unless_many(&mut dumps);
                    }
                    if let (true, Some(job), Some(launch)) = (self.kill, &job, &self.beside) {
                        print::message("ending the job, because it hangs (--on-hang kill)");
                        end_job::end(job, watcher.looks().running(), launch);
                        notifier.finish();
                        std::process::exit(ENDED_THE_JOB);
                    }
                    if self.exit_on_hang {
                        notifier.finish();
                        return Ok(Exit::Regression);
                    }
                }
            }
            for change in changes.iter().flat_map(Receiver::try_iter) {
                self.report_warning(&change, &mut notifier);
                if matches!(change, Change::Raised(_)) && self.dump_on.contains(&DumpOn::Warning) {
                    self.dump_unless_many(&mut dumps);
                }
            }
            if requested.swap(false, Ordering::Relaxed) {
                self.dump();
            }
            notifier.tidy();
            if let Some(ended) = end.wait(pause, !watcher.looks().running().is_empty()) {
                // If a user or a scheduler ended the job, the errors of its ranks are expected.
                let was_asked = self.beside.is_some() && launcher_input::was_asked_to_end();
                if !self.no_hangs && !was_asked {
                    self.report_the_end(&mut watcher);
                }
                notifier.finish();
                return Ok(match ended {
                    Ended::AfterRanks => Exit::Fine,
                    Ended::WithoutRanks => Exit::Inconclusive,
                });
            }
        }
    }

    /// Reports how a job ended if some of its ranks failed, and which operations they were in.
    fn report_the_end(&self, watcher: &mut Watcher<LogLooks>) {
        let (found, last) = watcher.finish();
        if let Found::Ended(ranks) = found {
            report_ends(&ranks);
        }
        let Some(status) = last else { return };
        print::message(&format!("when it ended: {}", status.sentence));
        match store(&self.directory, END_FILE_PREFIX, &status) {
            Ok(path) => print::message(&format!("stored as {}", path.display())),
            Err(error) => {
                let error = print::error_line(&error);
                print::message(&format!("the report could not be stored: {error}"));
            }
        }
    }

    /// Writes the last part of the recording for an event that can occur again and again.
    fn dump_unless_many(&self, dumps: &mut usize) {
        *dumps += 1;
        if *dumps <= MAX_DUMPS {
            self.dump();
        }
        if *dumps == MAX_DUMPS {
            print::message(&format!(
                "{MAX_DUMPS} parts of the run are written; later hangs and warnings write none. Use `rankscope dump` to write more"
            ));
        }
    }

    /// Writes the last part of the recording. It merges a run, which is work for a thread that gets a processor last.
    fn dump(&self) {
        let written = thread::scope(|scope| {
            let thread = scope.spawn(|| {
                run_behind_the_job(Behind::Last);
                dump::dump(&self.directory)
            });
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        });
        match written {
            Ok(merged) => {
                let session = merged.places.session;
                let run = session.parent().unwrap_or(&session);
                print::message(&format!(
                    "the last part of the run is written: rankscope report {}",
                    run.display()
                ));
            }
            Err(error) => print::message(&format!(
                "the last part of the run could not be written: {}",
                print::error_line(&error)
            )),
        }
    }

    /// Reads the findings of the last seconds on another thread: a reading of thousands of ranks takes seconds.
    fn read_warnings(&self) -> Receiver<Change> {
        let (sender, changes) = channel();
        let directory = self.directory.clone();
        let window = self.reports.warning_window.unwrap_or(WARNING_WINDOW);
        thread::spawn(move || {
            run_behind_the_job(Behind::Last);
            read_warnings(directory, window, &sender);
        });
        changes
    }

    /// Reports a warning that was raised or cleared.
    fn report_warning(&self, change: &Change, notifier: &mut Notifier) {
        let (name, warning, text) = match change {
            Change::Raised(warning) => ("warning", warning, format!("warning: {}", warning.title)),
            Change::Cleared(warning) => {
                let subject = warning.subject.as_ref();
                let subject = subject.map_or(String::new(), |subject| format!(", {subject}"));
                let text = format!("no longer: {}{subject}", warning.kind);
                ("warning-cleared", warning, text)
            }
        };
        print::message(&text);
        let event = self.event(name, &text, &json!({ "warning": warning }));
        if let Some(command) = &self.reports.warning_command {
            notifier.run("--warning-command", command, &[], &event);
        }
        notifier.post(&event);
    }

    /// Returns an event for a webhook. `details` are further fields.
    fn event(&self, name: &str, text: &str, details: &Value) -> Value {
        let mut event = json!({
            "event": name,
            "text": format!("rankscope, {}: {text}", self.directory.display()),
            "directory": self.directory.display().to_string(),
        });
        if let (Some(event), Some(details)) = (event.as_object_mut(), details.as_object()) {
            event.extend(details.clone());
        }
        event
    }

    /// Prints a hang, stores it, and passes it to the user's command and webhook.
    fn report(&self, status: &Status, notifier: &mut Notifier) {
        let stored = store(&self.directory, HANG_FILE_PREFIX, status);
        let mut text = format!("rankscope: the job hangs. {}", shown(status));
        match &stored {
            Ok(path) => text.push_str(&format!("\nStored as {}\n", path.display())),
            Err(error) => {
                let error = print::error_line(error);
                text.push_str(&format!("\nThe report could not be stored: {error}\n"));
            }
        }
        // One write, so that lines of the job do not come in between.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        let document = serde_json::to_value(status).unwrap_or_default();
        if let Some(command) = &self.options.hang_command {
            let file = stored.ok().map_or_else(OsString::new, PathBuf::into_os_string);
            notifier.run(
                "--hang-command",
                command,
                &[("RANKSCOPE_HANG_FILE", file)],
                &document,
            );
        }
        let text = format!("the job hangs. {}", status.sentence);
        notifier.post(&self.event("hang", &text, &json!({ "status": document })));
    }
}

/// Reads windows until the receiver ends.
fn read_warnings(directory: PathBuf, window: Duration, changes: &Sender<Change>) {
    let window_ns = i64::try_from(window.as_nanos()).unwrap_or(i64::MAX);
    let mut reader = TopReader::new(vec![directory], window_ns, None);
    let mut warnings = Warnings::new(window);
    let interval = window / READINGS_PER_WINDOW;
    loop {
        let started = Instant::now();
        // Before the first record there is nothing to read.
        if let Ok(document) = reader.read()
            && !is_empty(&document)
        {
            for change in warnings.update(&document.warnings, started) {
                if changes.send(change).is_err() {
                    return;
                }
            }
        }
        let cost = started.elapsed();
        thread::sleep(next_read(interval, cost).saturating_sub(cost));
    }
}

/// Stores a report in the run directory.
fn store(directory: &Path, prefix: &str, status: &Status) -> Result<PathBuf> {
    let seconds = status.taken_unix_ns / 1_000_000_000;
    let host = status
        .ranks
        .iter()
        .find(|rank| !matches!(rank.process, ProcessState::Remote | ProcessState::Unknown));
    // Each host of a job stores its own report.
    let host: String = host
        .map_or("", |rank| rank.host.as_str())
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '_'
            }
        })
        .collect();
    let path = directory.join(format!("{prefix}{seconds}-{host}.json"));
    let json = serde_json::to_vec_pretty(status)?;
    whole_file::write(&path, &json).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
