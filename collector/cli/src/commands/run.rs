//! `rankscope run`.

mod batch;
mod outcome;
mod plan;
mod time_left;

use super::size::Size;
use super::{Exit, kernels, merge};
use crate::launch::ending::Ending;
use crate::launch::job::Job;
use crate::launch::live::{self, LiveAreas};
use crate::launch::record::{self, LaunchRecord};
use crate::launch::run_directory::{self, RunDirectory};
use crate::launch::signals::Signals;
use crate::launch::stop::StopWatch;
use crate::launch::{library, nccl, nvtx, preload, program, room};
use anyhow::Result;
use clap::Args;
use rankscope_ranklog::wanted::CONTROL_FILE;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

const EXAMPLES: &str = "\
Examples:
  rankscope run -- torchrun --nproc-per-node 8 train.py
  rankscope run -o shared/run1 -- torchrun --nnodes 2 --node-rank 0 … train.py   on node 0
  rankscope run -o shared/run1 -- torchrun --nnodes 2 --node-rank 1 … train.py   on node 1; the last to end merges
  rankscope run -o shared/run1 -- mpirun -x LD_PRELOAD -x RANKSCOPE_DIR -n 16 ./solver
  rankscope run --kernels=all@30+10 -- torchrun train.py      all kernels of ten seconds
  rankscope run --no-merge -- python train.py && rankscope merge rankscope-*
  rankscope run --repeat 5 -o runs/main -- torchrun train.py  five runs, to compare or to keep
  rankscope run --repeat 5 --against 'torchrun old.py' -o runs/ab -- torchrun train.py
                                                              five of each; old.py is the base";

const MANY_RUNS: &str = "\
Many runs (--repeat):
  Runs are recorded one after the other, into DIR/run-1 to DIR/run-N. DIR must be new or empty.
  With --against two commands take turns, ABBA ABBA: what drifts on the machine reaches both.
    A  the command of --against, the base    in DIR/base/run-1 to DIR/base/run-N
    B  CMD, which is compared with the base  in DIR/new/run-1 to DIR/new/run-N
  One command starts the whole job: torchrun on one node, mpirun, srun.
  All are merged after the last run: a merge in between would disturb the next one.
  No traces are written. Make one of a run that you look at: rankscope export --perfetto RUN
  A run fails if its exit status is not 0 or if nothing was recorded. It is moved to failed-run-N.
  A failed run ends the batch, unless --keep-going is given. The runs before it are merged.
  Ctrl-C ends the run and the batch. Whole runs stay, and a message says how to merge them.

Exit status with --repeat:
  0 all is well; that of the job that ended the batch; 3 if too few runs are whole to compare.";

/// Live area of each process where devices' work is recorded, in MiB.
const LIVE_MIB_WITH_KERNELS: u32 = 32;

/// Run a command and record its communication; merge and print the summary when it has ended.
///
/// The command gets this terminal, its input, its output and its signals as if rankscope were not there, and rankscope
/// ends with its exit status. Everything rankscope says goes to standard error, after the command has ended: also after
/// Ctrl-C, a crash or a kill. A second Ctrl-C stops the merge; the recording stays, and `rankscope merge` goes on
/// with it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{MANY_RUNS}"))]
pub struct Run {
    /// Run directory; made if it is not there. An earlier run's directory is extended, but not with --repeat.
    ///
    /// Without it: RANKSCOPE_DIR if that is set, else a new directory rankscope-DATE-TIME-xxxx below the working
    /// directory. Several nodes of one job share one directory.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Record only; merge later with `rankscope merge DIR`.
    #[arg(long)]
    no_merge: bool,

    /// Size of each process's live area in MiB (default 8, with --kernels 32); more helps against losses with cause no-chunk.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    live_mib: Option<u32>,

    /// Directory for live areas instead of /dev/shm; must be memory or a local disk.
    #[arg(long, value_name = "DIR")]
    live_dir: Option<PathBuf>,

    /// Stop recording a process when its log has this size (default 4GiB).
    #[arg(long, value_name = "SIZE")]
    max_disk: Option<Size>,

    /// Stop recording below this much free space (default 5 % of the disk, but at least 1GiB and at most 64GiB).
    #[arg(long, value_name = "SIZE")]
    min_free: Option<Size>,

    /// Record what NCCL's proxies move to and from each peer, and what they wait for (NCCL 2.27 and later). Several events
    /// for each buffer that goes over the network: for an hour of searching, not for every day.
    #[arg(long)]
    nccl_traffic: bool,

    /// Time NCCL's launches by events where it tells no times itself (before 2.27).
    ///
    /// At most N per second and communicator (default 2000), of more every 2nd, 4th, … Each puts two events on the program's
    /// own stream, never on one that is being captured into a graph. With --kernels they stand in for CUPTI where it
    /// cannot be had, as while another profiler has it; 0: not even then.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "2000",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    nccl_events: Option<u32>,

    /// Record what the devices do, by CUPTI: kernels, copies, graphs, and the calls that launched them.
    ///
    /// `all` (the default of the option), `communication` to keep only NCCL's, `off` to be switched on later by `rankscope
    /// ctl`; with @START+LENGTH only in a window of seconds (all@30+10) or of the program's own numbered marks of steps
    /// (all@step100+20). Another profiler in the job goes before: rankscope waits until it is done, and says so.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          value_parser = kernels::wanted)]
    kernels: Option<String>,

    /// Record the command N times, one run after the other.
    ///
    /// A comparison needs several runs a side: one run cannot say how much two runs of the same program differ.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,

    /// Record this command, too, as often, in turns with CMD: the base that CMD is compared with. A shell runs it (sh -c).
    #[arg(long, value_name = "BASE", requires = "repeat", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    against: Option<String>,

    /// Go on with the next run if one fails.
    #[arg(long, requires = "repeat")]
    keep_going: bool,

    /// Say what is done, also before the command starts.
    #[arg(short, long)]
    verbose: bool,

    /// The command, with its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

impl Run {
    /// The command that is to be run.
    #[cfg(test)]
    pub fn command(&self) -> &[OsString] {
        &self.command
    }

    pub fn run(self) -> Result<Exit> {
        let library = library::find()?;
        if let Some(repeat) = self.repeat {
            return batch::run(&self, repeat, &library);
        }
        let directory = RunDirectory::prepare(self.output.as_deref())?;
        let arguments = shown(&self.command);
        // What was asked of an earlier job in this directory is not asked of this one.
        let _ = std::fs::remove_file(directory.path.join(CONTROL_FILE));
        let mut launch = LaunchRecord::new(&arguments);
        launch.write(&directory.path)?;
        if self.verbose {
            say(&format!(
                "recording into {} with {}",
                directory.path.display(),
                library.display()
            ));
        }
        let job =
            match Job::start(&mut self.prepare(&self.command, &library, &directory.path, &launch.launch)) {
                Ok(job) => job,
                Err(error) => {
                    launch.remove(&directory.path);
                    directory.remove_if_empty();
                    std::process::exit(complain(&self.command[0], &error));
                }
            };
        let ending = job.accompany();
        // From here on nothing keeps us from ending as the job ended.
        let directory_path = directory.path.clone();
        let _watch = StopWatch::start(move |_signal| {
            merge::abandon(&directory_path);
            say_how_to_go_on("stopped; the recording is complete", &directory_path);
            ending.end_likewise()
        });
        // A person may still put us into the background, or want a core of us.
        Signals::none().with(libc::SIGTSTP).with(libc::SIGQUIT).unblock();
        if let Err(error) = self.after(&directory, &mut launch, ending) {
            say(&format!("{error:#}"));
            say_how_to_go_on("the recording is there", &directory.path);
        }
        ending.end_likewise()
    }

    /// The command with everything that makes it record.
    fn prepare(&self, words: &[OsString], library: &Path, directory: &Path, launch: &str) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let reach = program::resolve(&words[0]).map(|file| program::reach(&file));
        // A loader of another C library would try ours, and end the program over it.
        if !matches!(
            reach,
            Some(program::Reach::OtherLibc(_) | program::Reach::OtherMachine)
        ) {
            command.env(
                "LD_PRELOAD",
                preload::appended(std::env::var_os("LD_PRELOAD").as_deref(), library),
            );
            let before = std::env::var_os(nvtx::INJECTION);
            if let Some((ours, next)) = nvtx::injected(before.as_deref(), library) {
                command.env(nvtx::INJECTION, ours);
                if let Some(next) = next {
                    command.env(nvtx::NEXT, next);
                }
            }
            let chosen = std::env::var_os(nccl::PLUGIN).filter(|value| !value.is_empty());
            let chosen = chosen.or_else(nccl::configured);
            if let Some(plugin) = nccl::plugin(chosen.as_deref(), library).or(chosen) {
                command.env(nccl::PLUGIN, plugin);
            }
        }
        command
            .env("RANKSCOPE_DIR", directory)
            .env("RANKSCOPE_LAUNCH", launch);
        if self.nccl_traffic {
            command.env("RANKSCOPE_NCCL_TRAFFIC", "1");
        }
        if let Some(wanted) = self.nccl_events {
            command.env("RANKSCOPE_NCCL_EVENTS", wanted.to_string());
        }
        if let Some(wanted) = &self.kernels {
            command.env("RANKSCOPE_KERNELS", wanted);
        }
        // Devices tell of far more than libraries.
        let default = self.kernels.is_some().then_some(LIVE_MIB_WITH_KERNELS);
        if let Some(mib) = self.live_mib.or(default) {
            command.env("RANKSCOPE_LIVE_MIB", mib.to_string());
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

    fn after(&self, directory: &RunDirectory, launch: &mut LaunchRecord, ending: Ending) -> Result<()> {
        launch.end(ending);
        launch.write(&directory.path)?;
        let others = record::others_recording(&directory.path, &launch.launch);
        let found = live::collect_all(&directory.path, &others)?;
        report_live_areas(&found);
        if let Some(short) = room::warning(&directory.path, self.min_free.map(|size| size.0)) {
            say(&format!("the recording may be cut short: {short}"));
        }
        let logs = run_directory::logs(&directory.path)?.len();
        if logs == directory.earlier_logs {
            launch.remove(&directory.path);
            directory.remove_if_empty();
            say(&why_nothing(&self.command[0]));
            return Ok(());
        }
        if directory.earlier_logs > 0 && others.is_empty() {
            say(&format!(
                "{} logs were in {} before; they are merged too",
                directory.earlier_logs,
                directory.path.display()
            ));
        }
        if !others.is_empty() {
            let hosts: Vec<&str> = others.iter().map(|other| other.launcher.host.as_str()).collect();
            say(&format!(
                "still recording into this directory: {}; the last to end merges",
                hosts.join(", ")
            ));
            say_how_to_go_on("should it not", &directory.path);
            return Ok(());
        }
        if self.no_merge {
            say_how_to_go_on("recorded", &directory.path);
            return Ok(());
        }
        let merged = merge::merge(std::slice::from_ref(&directory.path), &directory.path)?;
        merge::print_to_stderr(&merged);
        if ending != Ending::Status(0) {
            say(&format!("the job ended with {ending}"));
        }
        Ok(())
    }
}

/// Says why the command could not be started, as a shell does; returns the exit status that a shell gives.
fn complain(program: &OsStr, error: &io::Error) -> i32 {
    const NOT_FOUND: i32 = 127;
    const NOT_RUNNABLE: i32 = 126;
    let name = program.to_string_lossy();
    let (status, what) = match (error.kind(), program::resolve(program)) {
        (ErrorKind::NotFound, None) if name.contains('/') => (NOT_FOUND, "no such file".to_owned()),
        (ErrorKind::NotFound, None) => (NOT_FOUND, "command not found (searched in PATH)".to_owned()),
        (ErrorKind::NotFound, Some(file)) => (
            NOT_FOUND,
            format!(
                "{} exists, but the interpreter or loader that it names does not",
                file.display()
            ),
        ),
        (ErrorKind::PermissionDenied, _) if Path::new(program).is_dir() => {
            (NOT_RUNNABLE, "is a directory".to_owned())
        }
        (ErrorKind::PermissionDenied, _) => (NOT_RUNNABLE, "permission denied (not executable?)".to_owned()),
        _ => (NOT_RUNNABLE, error.to_string()),
    };
    say(&format!("cannot run {name}: {what}"));
    status
}

/// Why nothing was recorded.
fn why_nothing(program: &OsStr) -> String {
    let file = program::resolve(program);
    let warning = file.and_then(|file| program::reach(&file).warning(&file));
    let why = warning.unwrap_or_else(|| {
        "no process of this command used a communication library that rankscope intercepts; \
         remote ranks need LD_PRELOAD and RANKSCOPE_DIR forwarded (mpirun -x, srun --export)"
            .to_owned()
    });
    format!("nothing was recorded: {why}")
}

/// A command as people read it.
fn shown(command: &[OsString]) -> Vec<String> {
    let parts = command.iter();
    parts.map(|part| part.to_string_lossy().into_owned()).collect()
}

fn report_live_areas(found: &LiveAreas) {
    for process in &found.running {
        say(&format!(
            "{process} still runs and goes on recording; what it did until now is merged"
        ));
    }
    for failure in &found.failed {
        say(failure);
    }
    if found.completed > 0 {
        tracing::info!(logs = found.completed, "completed from live areas");
    }
}

fn say(what: &str) {
    // A job whose standard error is gone still gets its exit status.
    let _ = writeln!(io::stderr().lock(), "rankscope: {what}");
}

fn say_how_to_go_on(what: &str, directory: &Path) {
    say(&format!("{what}: rankscope merge {}", directory.display()));
}
