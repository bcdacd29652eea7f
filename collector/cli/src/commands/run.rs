//! `rankscope run`.

mod batch;
mod outcome;
mod plan;
mod time_left;

use super::flight::Flight;
use super::print::message as print_message;
use super::serve::{self, MetricsOptions};
use super::size::Size;
use super::watch::{self, DumpOn, HangOptions, OnHang, ReportOptions};
use super::{Exit, duration, kernels, merge, merge_periods, print};
use crate::launch::companion::Companion;
use crate::launch::end_job::ENDED_THE_JOB;
use crate::launch::ending::Ending;
use crate::launch::flight_job;
use crate::launch::gpu_sampler::GpuSampler;
use crate::launch::job::{Accompanied, Job};
use crate::launch::live::{self, LiveAreas};
use crate::launch::record::{self, LaunchRecord};
use crate::launch::run_directory::{self, RunDirectory};
use crate::launch::signals::Signals;
use crate::launch::stop::StopWatch;
use crate::launch::{environment, free_space, library, unrecorded_libraries};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use rankscope_doctor::program;
use rankscope_ranklog::activity_request::CONTROL_FILE;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  rankscope run -- torchrun --nproc-per-node 8 train.py
  rankscope run -o shared/run1 -- torchrun --nnodes 2 --node-rank 0 … train.py   on node 0
  rankscope run -o shared/run1 -- torchrun --nnodes 2 --node-rank 1 … train.py   on node 1; the last node merges
  rankscope run -o shared/run1 -- mpirun -x LD_PRELOAD -x RANKSCOPE_DIR -n 16 ./solver
  rankscope run --kernels=all@30+10 -- torchrun train.py      record all kernels of ten seconds
  rankscope run --hang-timeout 60s -- torchrun train.py       report a hang while it lasts, with the rank to blame
  rankscope run --flight 30s --hang-timeout 60s -- torchrun train.py
                                                              keep the last seconds in memory, for a failure or a hang
  rankscope run --warnings --metrics 127.0.0.1:9400 -- torchrun train.py
                                                              report late ranks while it runs; metrics for Prometheus
  rankscope run --no-merge -- python train.py && rankscope merge rankscope-*
  rankscope run --repeat 5 -o runs/main -- torchrun train.py  record five runs, for comparisons
  rankscope run --repeat 5 --against 'torchrun old.py' -o runs/ab -- torchrun train.py
                                                              record five runs of each; old.py is the base";

const MANY_RUNS: &str = "\
Many runs (--repeat):
  Runs are recorded one after the other in DIR/run-1 to DIR/run-N. DIR must be new or empty.
  With --against two commands alternate, ABBA ABBA, so that a drift of the machine affects both.
    A  the command of --against, the base    in DIR/base/run-1 to DIR/base/run-N
    B  CMD, which is compared with the base  in DIR/new/run-1 to DIR/new/run-N
  The command must start the whole job: torchrun on one node, mpirun, srun.
  All runs are merged after the last one: a merge in between would disturb the next run.
  No traces are written. To write the trace of one run: rankscope export --perfetto RUN
  A run fails if its exit status is not 0 or if nothing was recorded. It is moved to failed-run-N.
  A failed run ends the batch, unless --keep-going is given. The runs before it are still merged.
  Ctrl-C ends the run and the batch. Complete runs stay, and a message says how to merge them.

Exit status with --repeat:
  0 success; the status of the job that ended the batch; 3 if too few runs are complete for a comparison.";

/// Default size of the live area of each process that records device activity, in MiB.
const LIVE_MIB_WITH_KERNELS: u32 = 32;

/// Run a command and record its communication. After the command has ended, merge the logs and print the summary.
///
/// The command gets this terminal, its input, its output and its signals as without rankscope. The exit status of
/// rankscope is that of the command. rankscope prints to standard error, and only after the command has ended. It also
/// merges after Ctrl-C, a crash or a kill. A second Ctrl-C stops the merge. The recording stays, and `rankscope merge`
/// completes it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{MANY_RUNS}"))]
pub struct Run {
    /// Run directory; created if it does not exist. The directory of an earlier run is extended, except with --repeat.
    ///
    /// The default is RANKSCOPE_DIR if it is set, else a new directory rankscope-DATE-TIME-xxxx below the working
    /// directory. Several nodes of one job share one directory.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Record only; merge later with `rankscope merge DIR`.
    #[arg(long)]
    no_merge: bool,

    /// Size of the live area of each process in MiB (default 8, with --kernels 32). A larger area reduces losses with
    /// cause no-chunk.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    live_mib: Option<u32>,

    /// Directory for live areas instead of /dev/shm; must be in memory or on a local disk.
    #[arg(long, value_name = "DIR")]
    live_dir: Option<PathBuf>,

    /// Stop recording a process when its log reaches this size (default 4GiB).
    #[arg(long, value_name = "SIZE")]
    max_disk: Option<Size>,

    /// Stop recording below this much free space (default 5 % of the disk, but at least 1GiB and at most 64GiB).
    #[arg(long, value_name = "SIZE")]
    min_free: Option<Size>,

    /// Record the transfers of NCCL's proxies to and from each peer, and their waits (NCCL 2.27 and later). This
    /// records several events per network buffer. Use it for an hour of investigation, not permanently.
    #[arg(long)]
    nccl_traffic: bool,

    /// Time NCCL's launches with CUDA events if NCCL reports no times (before 2.27).
    ///
    /// At most N per second and communicator are timed (default 2000). Above this rate only every 2nd, 4th, … is timed.
    /// Each puts two events on the program's own stream, but never during capture into a graph. With --kernels the
    /// events replace CUPTI if it is not available, for example because another profiler uses it. 0 disables this, too.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "2000",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    nccl_events: Option<u32>,

    /// Record device activity with CUPTI: kernels, copies, graphs, and the calls that launched them.
    ///
    /// `all` is the default value. `communication` keeps only NCCL's activity. `off` starts without recording;
    /// `rankscope ctl` can start it later. With @START+LENGTH only a window is recorded: of seconds (all@30+10), or of
    /// the program's own numbered step marks (all@step100+20). Another profiler in the job has priority: rankscope
    /// waits until it is done, and reports it.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          value_parser = kernels::parse)]
    kernels: Option<String>,

    /// Sample memory, processor time, network traffic and GPUs at this interval (default 1), or not at all (`off`).
    ///
    /// The recorder's own thread reads memory, time and traffic from /proc and /sys. The rank with local rank 0 samples its host.
    /// This process reads the state of the GPUs from NVML. Each sample is a row of the table counters.
    #[arg(long, value_name = "SECONDS", value_parser = interval_or_off)]
    counters: Option<String>,

    /// Flight mode: keep only the last part of the recording, in memory, for example 30s or 64MiB per process.
    ///
    /// While the job runs, only properties of its processes and communicators are written. If the job fails, is killed or hangs, the last part
    /// becomes an ordinary run. If it succeeds, nothing remains. `rankscope dump` writes the last part at any time.
    #[arg(long, value_name = "TIME|SIZE", conflicts_with_all = ["live_mib", "repeat", "no_merge"])]
    flight: Option<Flight>,

    /// In flight mode, also write the last part of the recording on these events, while the job goes on.
    ///
    /// With --hang-timeout, a hang always writes it. A signal must be sent to this process, and is not forwarded to the job.
    #[arg(long, value_name = "EVENT", value_delimiter = ',', requires = "flight")]
    dump_on: Vec<DumpOn>,

    /// Report when the job hangs: when ranks have waited this long for a rank that will not come. A process beside the job
    /// watches it.
    ///
    /// Each hang is printed once and stored as hang-TIME.json in the run directory. A wait that this job has shown before, and
    /// a wait for a rank that works, may last longer.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "repeat")]
    hang_timeout: Option<Duration>,

    /// On a hang only report, or also end the job. Then the exit status is 86.
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "report",
        requires = "hang_timeout"
    )]
    on_hang: OnHang,

    #[command(flatten)]
    hang: HangOptions,

    #[command(flatten)]
    reports: ReportOptions,

    #[command(flatten)]
    metrics: MetricsOptions,

    /// Record the command N times, one run after the other.
    ///
    /// A comparison needs several runs per side: one run cannot show how much two runs of the same program differ.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,

    /// Also record this command, equally often and alternating with CMD. It is the base that CMD is compared with. A
    /// shell runs it (sh -c).
    #[arg(long, value_name = "BASE", requires = "repeat", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    against: Option<String>,

    /// Continue with the next run if one fails.
    #[arg(long, requires = "repeat")]
    keep_going: bool,

    /// Print each action, also before the command starts.
    #[arg(short, long)]
    verbose: bool,

    /// Command with its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Maximum time in which the process that watches may end by itself. It may be in the middle of a reading.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// The same if it may end the job: commands and webhooks have this long to report it.
const LAST_WAIT_AFTER_KILL: Duration = Duration::from_secs(90);

/// Variable of the library with the interval of samples.
const COUNTERS: &str = "RANKSCOPE_COUNTERS";

/// Longest interval of samples, in seconds.
const MAX_INTERVAL_S: u64 = 3600;

/// Checks the value of `--counters`.
fn interval_or_off(value: &str) -> Result<String, String> {
    let is_interval = value
        .parse::<u32>()
        .is_ok_and(|seconds| (1..=MAX_INTERVAL_S).contains(&u64::from(seconds)));
    if is_interval || value == "off" {
        Ok(value.to_owned())
    } else {
        Err("it is a number of seconds from 1 to 3600, or off".to_owned())
    }
}

impl Run {
    /// Returns the command to run.
    #[cfg(test)]
    pub fn command(&self) -> &[OsString] {
        &self.command
    }

    /// Returns the interval of samples; `None` for none.
    fn counter_interval(&self) -> Option<Duration> {
        let given = self.counters.clone().or_else(|| env::var(COUNTERS).ok());
        let seconds: u64 = match given.as_deref().map(str::trim) {
            Some("off" | "0") => return None,
            // The recorder ignores a value that it does not understand, too.
            Some(given) => given.parse().unwrap_or(1),
            None => 1,
        };
        Some(Duration::from_secs(seconds.clamp(1, MAX_INTERVAL_S)))
    }

    pub fn run(self) -> Result<Exit> {
        if self.hang_timeout.is_none() && self.hang != HangOptions::default() {
            bail!("--busy-timeout, --hang-command and --stacks need --hang-timeout");
        }
        if self.hang_timeout.is_none() && !self.reports.warnings && self.reports.webhook.is_some() {
            bail!("--webhook needs --hang-timeout or --warnings");
        }
        if self.dump_on.contains(&DumpOn::Warning) && !self.reports.warnings {
            bail!("--dump-on warning needs --warnings");
        }
        if self.dump_on.contains(&DumpOn::Hang) && self.hang_timeout.is_none() {
            bail!("--dump-on hang needs --hang-timeout");
        }
        // A usage error must not appear only after the job has begun.
        self.metrics.check()?;
        let library = library::find()?;
        if let Some(repeat) = self.repeat {
            return batch::run(&self, repeat, &library);
        }
        let directory = RunDirectory::prepare(self.output.as_deref())?;
        let arguments = shown(&self.command);
        // A request to an earlier job in this directory must not affect this job.
        let _ = std::fs::remove_file(directory.path.join(CONTROL_FILE));
        let mut launch = LaunchRecord::new(&arguments);
        launch.write(&directory.path)?;
        if self.verbose {
            print_message(&format!(
                "recording into {} with {}",
                directory.path.display(),
                library.display()
            ));
        }
        let mut job =
            match Job::start(&mut self.prepare(&self.command, &library, &directory.path, &launch.launch)) {
                Ok(job) => job,
                Err(error) => {
                    launch.remove(&directory.path);
                    directory.remove_if_empty();
                    std::process::exit(report_start_error(&self.command[0], &error));
                }
            };
        // Samples of GPUs are a file that grows.
        let interval = self.counter_interval().filter(|_| self.flight.is_none());
        let sampler = GpuSampler::start(&directory.path, interval);
        let watcher = self.start_watcher(&directory.path, &launch.launch, job.pid());
        let server = self.start_server(&directory.path);
        let search = unrecorded_libraries::Search::start(job.pid(), &directory.path, directory.earlier_logs);
        for signal in self.dump_on.iter().filter_map(|event| event.signal()) {
            job.divert(signal, watcher.as_ref().map(Companion::pid));
        }
        let Accompanied { ending, asked_to_end } = job.accompany_and_note();
        drop(sampler);
        drop(server);
        let reasons = search
            .map(unrecorded_libraries::Search::finish)
            .unwrap_or_default();
        // After it has ended the job, it waits for its reports.
        let limit = match self.on_hang {
            OnHang::Kill => LAST_WAIT_AFTER_KILL,
            OnHang::Report => LAST_WAIT,
        };
        let status = watcher.and_then(|watcher| watcher.finish(limit, asked_to_end.is_some()));
        let was_ended = status == Some(ENDED_THE_JOB);
        // From here on no failure changes the exit status of the job.
        let directory_path = directory.path.clone();
        let _watch = StopWatch::start(move |_signal| {
            merge::abandon(&directory_path);
            print_next_step(
                "interrupted; the recording is complete, to merge it",
                &directory_path,
            );
            end_as(ending, was_ended)
        });
        // The user may still stop this process or request a core dump of it.
        Signals::none().with(libc::SIGTSTP).with(libc::SIGQUIT).unblock();
        if let Err(error) = self.after(&directory, &mut launch, ending, &reasons) {
            print_message(&print::error_line(&error));
            print_next_step("the recording is intact, to merge it", &directory.path);
        }
        end_as(ending, was_ended)
    }

    /// Starts the process that watches for hangs and warnings, if it was requested.
    fn start_watcher(&self, directory: &Path, launch: &str, job_pid: i32) -> Option<Companion> {
        if self.hang_timeout.is_none() && !self.reports.warnings && self.dump_on.is_empty() {
            return None;
        }
        let mut arguments = watch::arguments(self.hang_timeout, &self.hang, self.on_hang, &self.reports);
        let mut dump_on = self.dump_on.clone();
        // A job that is ended leaves its last part anyway.
        if self.flight.is_some() && self.hang_timeout.is_some() && self.on_hang == OnHang::Report {
            dump_on.push(DumpOn::Hang);
        }
        for event in dump_on.iter().filter_map(ValueEnum::to_possible_value) {
            arguments.extend(["--dump-on".into(), event.get_name().into()]);
        }
        arguments.extend(["--beside".into(), launch.into()]);
        arguments.extend(["--job-pid".into(), job_pid.to_string().into()]);
        arguments.push(directory.into());
        Companion::start(&arguments)
            .inspect_err(|error| print_message(&format!("the job is not watched: {error}")))
            .ok()
    }

    /// Starts the process that serves metrics, if it was requested.
    fn start_server(&self, directory: &Path) -> Option<Companion> {
        let arguments = serve::arguments(&self.metrics, directory)?;
        Companion::start(&arguments)
            .inspect_err(|error| print_message(&format!("there are no metrics: {error}")))
            .ok()
    }

    /// Builds the command with everything that makes it record.
    fn prepare(&self, words: &[OsString], library: &Path, directory: &Path, launch: &str) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let reach = program::resolve(&words[0]).map(|file| program::reach(&file));
        // The loader of another C library would try to load the library and terminate the program on failure.
        if !matches!(
            reach,
            Some(program::Reach::OtherLibc(_) | program::Reach::OtherMachine)
        ) {
            environment::load(&mut command, library);
        }
        environment::record_into(&mut command, directory, launch);
        if self.nccl_traffic {
            command.env("RANKSCOPE_NCCL_TRAFFIC", "1");
        }
        if let Some(records) = self.nccl_events {
            command.env("RANKSCOPE_NCCL_EVENTS", records.to_string());
        }
        if let Some(request) = &self.kernels {
            command.env("RANKSCOPE_KERNELS", request);
        }
        if let Some(interval) = &self.counters {
            command.env(COUNTERS, interval);
        }
        // Devices produce far more records than libraries.
        let default = self.kernels.is_some().then_some(LIVE_MIB_WITH_KERNELS);
        let of_flight = self.flight.map(Flight::live_mib);
        if let Some(mib) = of_flight.or(self.live_mib.or(default).map(u64::from)) {
            command.env("RANKSCOPE_LIVE_MIB", mib.to_string());
        }
        if let Some(flight) = self.flight {
            command.env("RANKSCOPE_FLIGHT", flight.variable());
        }
        if let Some(dir) = &self.live_dir {
            command.env(
                "RANKSCOPE_LIVE_DIR",
                std::path::absolute(dir).unwrap_or_else(|_| dir.clone()),
            );
        }
        if let Some(size) = self.max_disk {
            command.env("RANKSCOPE_MAX_DISK_MIB", size.mebibytes().to_string());
        }
        if let Some(size) = self.min_free {
            command.env("RANKSCOPE_MIN_FREE_MIB", size.mebibytes().to_string());
        }
        command
    }

    fn after(
        &self,
        directory: &RunDirectory,
        launch: &mut LaunchRecord,
        ending: Ending,
        reasons: &[&str],
    ) -> Result<()> {
        launch.end(ending);
        launch.write(&directory.path)?;
        let others = record::others_recording(&directory.path, &launch.launch);
        let found = live::collect_all(&directory.path, &others)?;
        report_live_areas(&found);
        if let Some(short) = free_space::warning(&directory.path, self.min_free.map(|size| size.0)) {
            print_message(&format!("the recording may stop early: {short}"));
        }
        let logs = run_directory::logs(&directory.path)?.len();
        if logs == directory.earlier_logs {
            launch.remove(&directory.path);
            directory.remove_if_empty();
            print_message(&why_nothing(&self.command[0], reasons));
            return Ok(());
        }
        // A hang from which the job recovered was written when it was found.
        if self.flight.is_some() && others.is_empty() && flight_job::has_succeeded(&directory.path)? {
            flight_job::discard(&directory.path)?;
            launch.remove(&directory.path);
            directory.remove_if_empty();
            print_message("the job succeeded, so nothing is kept (--flight)");
            return Ok(());
        }
        if directory.earlier_logs > 0 && others.is_empty() {
            print_message(&format!(
                "{} logs were already in {}; they are merged, too",
                directory.earlier_logs,
                directory.path.display()
            ));
        }
        if !others.is_empty() {
            let hosts: Vec<&str> = others.iter().map(|other| other.launcher.host.as_str()).collect();
            print_message(&format!(
                "still recording into this directory: {}; the last launch to finish merges",
                hosts.join(", ")
            ));
            print_next_step("if it does not", &directory.path);
            return Ok(());
        }
        if self.no_merge {
            print_next_step("recorded", &directory.path);
            return Ok(());
        }
        // Someone merges the run in periods while it records.
        if let Some(length_ns) = merge_periods::length_in(&directory.path)? {
            merge_periods::continue_to_stderr(&directory.path, length_ns)?;
        } else {
            let merged = merge::merge(std::slice::from_ref(&directory.path), &directory.path)?;
            merge::print_to_stderr(&merged);
        }
        if ending != Ending::Status(0) {
            print_message(&format!("the job ended with {ending}"));
        }
        Ok(())
    }
}

/// Ends this process as the job ended, or with the status for a job that was ended because it hung.
fn end_as(ending: Ending, was_ended: bool) -> ! {
    if was_ended {
        std::process::exit(ENDED_THE_JOB);
    }
    ending.end_likewise()
}

/// Prints why the command could not be started, as a shell does. Returns the exit status that a shell would return.
fn report_start_error(program: &OsStr, error: &io::Error) -> i32 {
    const NOT_FOUND: i32 = 127;
    const NOT_RUNNABLE: i32 = 126;
    let name = program.to_string_lossy();
    let (status, what) = match (error.kind(), program::resolve(program)) {
        (ErrorKind::NotFound, None) if name.contains('/') => (NOT_FOUND, "no such file".to_owned()),
        (ErrorKind::NotFound, None) => (NOT_FOUND, "command not found (searched in PATH)".to_owned()),
        (ErrorKind::NotFound, Some(file)) => (
            NOT_FOUND,
            format!(
                "{} exists, but its interpreter or loader does not",
                file.display()
            ),
        ),
        (ErrorKind::PermissionDenied, _) if Path::new(program).is_dir() => {
            (NOT_RUNNABLE, "is a directory".to_owned())
        }
        (ErrorKind::PermissionDenied, _) => (NOT_RUNNABLE, "permission denied (not executable?)".to_owned()),
        _ => (NOT_RUNNABLE, error.to_string()),
    };
    print_message(&format!("cannot run {name}: {what}"));
    status
}

/// Returns the reason why nothing was recorded. `reasons`: what the libraries of the job's processes explain.
fn why_nothing(program: &OsStr, reasons: &[&str]) -> String {
    let file = program::resolve(program);
    let warning = file.and_then(|file| program::reach(&file).warning(&file));
    let libraries =
        (!reasons.is_empty()).then(|| format!("a process of this command {}", reasons.join("; one ")));
    let why = warning.or(libraries).unwrap_or_else(|| {
        "no process of this command used a communication library that rankscope intercepts; remote ranks need \
         LD_PRELOAD and RANKSCOPE_DIR forwarded (mpirun -x, srun --export)"
            .to_owned()
    });
    format!("nothing was recorded: {why}")
}

/// Returns a command in readable form.
fn shown(command: &[OsString]) -> Vec<String> {
    let parts = command.iter();
    parts.map(|part| part.to_string_lossy().into_owned()).collect()
}

/// Prints which live areas were not collected.
pub fn report_live_areas(found: &LiveAreas) {
    for process in &found.running {
        print_message(&format!(
            "{process} still runs and records; the session has its records so far"
        ));
    }
    for failure in &found.failed {
        print_message(failure);
    }
    if found.completed > 0 {
        tracing::info!(logs = found.completed, "completed from live areas");
    }
}

fn print_next_step(what: &str, directory: &Path) {
    print_message(&format!("{what}: rankscope merge {}", directory.display()));
}
