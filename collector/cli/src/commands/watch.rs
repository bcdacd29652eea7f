//! `rankscope watch`, and what `rankscope run --hang-timeout` starts beside a job.

use super::status::shown;
use super::{Exit, duration, print};
use crate::launch::end_job::{self, JobProcess};
use crate::launch::hang_watcher::ENDED_THE_JOB;
use crate::launch::{launcher_input, record};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use rankscope_formats::status::{HANG_FILE_PREFIX, ProcessState, Status};
use rankscope_formats::whole_file;
use rankscope_hang::judge::JudgeOptions;
use rankscope_hang::stacks;
use rankscope_hang::watch::{Found, LogLooks, Watch as Watcher};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  rankscope watch shared/run1                         report hangs of a job that runs, until it ends
  rankscope watch shared/run1 --hang-timeout 5m --exit-on-hang && echo finished
  rankscope watch shared/run1 --hang-command 'mail -s hang me@example.org'
  rankscope run --hang-timeout 60s -- torchrun train.py   the same beside a job that is started now

Exit status: 0 the job has ended, 1 it hangs (with --exit-on-hang), 2 wrong usage or unreadable input, 3 no rank was \
seen.";

/// Time limit of `--hang-command`.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// Maximum number of processes that are listed when they end.
const MAX_ENDS: usize = 4;
/// A job without any process for this long has ended. Between two attempts, an elastic launcher needs some seconds.
const ENDED_AFTER: Duration = Duration::from_secs(30);

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

/// Returns the options of `rankscope watch` for a launch.
pub fn arguments(hang_timeout: Duration, options: &HangOptions, on_hang: OnHang) -> Vec<OsString> {
    let mut out: Vec<OsString> = vec!["--hang-timeout".into(), in_ms(hang_timeout)];
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
    out
}

fn in_ms(time: Duration) -> OsString {
    format!("{}ms", time.as_millis()).into()
}

impl Watch {
    pub fn run(self) -> Result<Exit> {
        lower_priority();
        let job = self.job_pid.map(JobProcess::open);
        let mut options = JudgeOptions::of_timeout(self.hang_timeout);
        if let Some(busy) = self.options.busy_timeout {
            options.busy_timeout_ns = JudgeOptions::of_timeout(busy).timeout_ns;
        }
        let mut watcher = Watcher::new(
            LogLooks::new(vec![self.directory.clone()], options),
            self.hang_timeout,
        );
        let mut has_seen = false;
        let mut last_seen = Instant::now();
        let mut commands: Vec<(Child, Instant)> = Vec::new();
        loop {
            let (found, pause) = watcher.tick(Instant::now());
            match found {
                Found::Nothing => {}
                Found::GoesOn => print::message("the job goes on"),
                Found::Ended(ranks) => {
                    let more = ranks.len().saturating_sub(MAX_ENDS);
                    let mut shown = ranks[..ranks.len() - more].join("; ");
                    if more > 0 {
                        shown.push_str(&format!("; and {more} more"));
                    }
                    print::message(&format!("ended first: {shown}"));
                }
                Found::Hang(mut status) => {
                    if self.options.stacks {
                        stacks::add(&mut status);
                    }
                    let file = self.report(&status);
                    commands.extend(self.start_command(&status, file.as_deref()));
                    if let (true, Some(job), Some(launch)) = (self.kill, &job, &self.beside) {
                        print::message("ending the job, because it hangs (--on-hang kill)");
                        end_job::end(job, watcher.looks().running(), launch);
                        wait_for(commands);
                        std::process::exit(ENDED_THE_JOB);
                    }
                    if self.exit_on_hang {
                        wait_for(commands);
                        return Ok(Exit::Regression);
                    }
                }
            }
            commands.retain_mut(|(command, started)| {
                let is_late = started.elapsed() > COMMAND_LIMIT;
                if is_late {
                    let _ = command.kill();
                }
                !is_late && matches!(command.try_wait(), Ok(None))
            });
            if self.beside.is_some() {
                if launcher_input::has_ended(pause) {
                    wait_for(commands);
                    return Ok(Exit::Fine);
                }
                continue;
            }
            if !watcher.looks().running().is_empty() {
                (has_seen, last_seen) = (true, Instant::now());
            }
            let is_recording = || {
                record::read_all(&self.directory)
                    .iter()
                    .any(record::LaunchRecord::is_recording)
            };
            if last_seen.elapsed() > ENDED_AFTER && !is_recording() {
                wait_for(commands);
                return Ok(if has_seen { Exit::Fine } else { Exit::Inconclusive });
            }
            thread::sleep(pause);
        }
    }

    /// Prints a hang and stores it. Returns the file.
    fn report(&self, status: &Status) -> Option<PathBuf> {
        let stored = store(&self.directory, status);
        let mut text = format!("rankscope: the job hangs. {}", shown(status));
        match &stored {
            Ok(path) => text.push_str(&format!("\nStored as {}\n", path.display())),
            Err(error) => text.push_str(&format!("\nThe report could not be stored: {error:#}\n")),
        }
        // One write, so that lines of the job do not come in between.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        stored.ok()
    }

    /// Starts the user's command with the report on its input.
    fn start_command(&self, status: &Status, file: Option<&Path>) -> Option<(Child, Instant)> {
        let command = self.options.hang_command.as_ref()?;
        let started = Command::new("sh")
            .arg("-c")
            .arg(command)
            .env("RANKSCOPE_HANG_FILE", file.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        match started {
            Ok(mut child) => {
                if let Some(mut input) = child.stdin.take() {
                    let json = serde_json::to_vec_pretty(status).unwrap_or_default();
                    // The command may not read its input.
                    thread::spawn(move || {
                        let _ = input.write_all(&json);
                    });
                }
                Some((child, Instant::now()))
            }
            Err(error) => {
                print::message(&format!(
                    "the command of --hang-command could not be started: {error}"
                ));
                None
            }
        }
    }
}

/// Stores a report in the run directory.
fn store(directory: &Path, status: &Status) -> Result<PathBuf> {
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
    let path = directory.join(format!("{HANG_FILE_PREFIX}{seconds}-{host}.json"));
    let json = serde_json::to_vec_pretty(status)?;
    whole_file::write(&path, &json).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Waits for the user's commands, at most their time limit.
fn wait_for(commands: Vec<(Child, Instant)>) {
    for (mut command, started) in commands {
        while matches!(command.try_wait(), Ok(None)) {
            if started.elapsed() > COMMAND_LIMIT {
                let _ = command.kill();
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Gives this process the lowest priority.
fn lower_priority() {
    // SAFETY: the call only changes the priority of this process.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}
