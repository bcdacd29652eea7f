//! Merges on several machines: `rankscope scheduler`, `rankscope executor`, and the option `--cluster` of `rankscope merge`.

use super::Exit;
use super::companion::Companion;
use super::print::message as warn;
use anyhow::Result;
use clap::Args;
use rankscope_analysis::merge::unit_runner::UnitRunner;
use rankscope_analysis::merge::units::parts;
use std::ffi::OsString;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  openssl rand -hex 32 > token                                         once, on storage that all machines read
  rankscope scheduler --token-file token
  rankscope executor 127.0.0.1:50050 --token-file token
  rankscope merge --cluster 127.0.0.1:50050 --token-file token shared/run1
  rankscope-cluster executor --help                                    all options";

/// The processes of a cluster. They are a separate program because it takes longer to build than all of rankscope.
pub const CLUSTER: Companion = Companion {
    program: "rankscope-cluster",
    where_from: "Merges on several machines need a separate program: build it with `make cluster`, and put it next to \
        rankscope or on the PATH",
};

/// Interval at which progress is counted.
const INTERVAL: Duration = Duration::from_millis(200);
/// Maximum age of a directory's list in the cache of NFS, by default 60 s.
const VISIBLE_AFTER: Duration = Duration::from_secs(65);
/// Time after which a merge warns that no executor has begun a unit.
const WARN_AFTER: Duration = Duration::from_secs(15);

/// Distribute the units of merges on several machines.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Scheduler {
    /// Options of `rankscope-cluster scheduler`.
    #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Scheduler {
    pub fn run(self) -> Result<Exit> {
        start("scheduler", self.arguments)
    }
}

/// Run units of merges on this machine, for a scheduler.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Executor {
    /// The scheduler as HOST:PORT, and options of `rankscope-cluster executor`.
    #[arg(
        required = true,
        value_name = "OPTION",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

impl Executor {
    pub fn run(self) -> Result<Exit> {
        start("executor", self.arguments)
    }
}

fn start(command: &str, mut arguments: Vec<OsString>) -> Result<Exit> {
    arguments.insert(0, command.into());
    match CLUSTER.start(&arguments)? {}
}

/// The cluster that runs the units of a merge.
#[derive(Clone, Debug, Default, Args)]
pub struct Cluster {
    /// Scheduler of a cluster that reads the logs and writes the tables; or `in-process`, which runs the same plan here. Run
    /// directories, sessions and --scratch must have the same paths on all machines.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["last", "last_records"])]
    cluster: Option<String>,

    /// File with the token of the cluster (default: the variable RANKSCOPE_CLUSTER_TOKEN).
    #[arg(long, value_name = "FILE", requires = "cluster")]
    token_file: Option<PathBuf>,

    /// Certificate of the authority that signed the certificates of the cluster (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["cluster", "tls_cert", "tls_key"])]
    tls_ca: Option<PathBuf>,

    /// Certificate of this process (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    tls_cert: Option<PathBuf>,

    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    tls_key: Option<PathBuf>,
}

impl Cluster {
    /// Returns the runner of units, if a cluster is named.
    pub fn runner(self) -> Option<Arc<dyn UnitRunner>> {
        self.cluster
            .is_some()
            .then(|| Arc::new(self) as Arc<dyn UnitRunner>)
    }

    fn command(&self, scheduler: &str, directory: &Path, units: &Range<u32>) -> Command {
        let mut command = Command::new(CLUSTER.path());
        command
            .arg("submit")
            .arg(scheduler)
            .arg(directory)
            .arg(units.start.to_string())
            .arg(units.end.to_string());
        let files = [
            ("--token-file", &self.token_file),
            ("--tls-ca", &self.tls_ca),
            ("--tls-cert", &self.tls_cert),
            ("--tls-key", &self.tls_key),
        ];
        for (option, file) in files {
            if let Some(file) = file {
                command.arg(option).arg(file);
            }
        }
        // It ends with its standard input, so it does not survive this process.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }
}

impl UnitRunner for Cluster {
    fn run(&self, directory: &Path, units: Range<u32>, progress: &mut dyn FnMut()) -> Result<(), String> {
        let scheduler = self.cluster.as_deref().unwrap_or_default();
        let child = self.command(scheduler, directory, &units).spawn();
        let mut child = child.map_err(|error| {
            format!(
                "cannot start {}: {error}. {}",
                CLUSTER.path().display(),
                CLUSTER.where_from
            )
        })?;
        let mut messages = child.stderr.take();
        let reading = thread::spawn(move || {
            let mut text = String::new();
            // What was read until an error is shown.
            let _ = messages
                .as_mut()
                .map(|messages| messages.read_to_string(&mut text));
            text
        });
        let start = Instant::now();
        let mut may_warn = true;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => thread::sleep(INTERVAL),
                Err(error) => return Err(error.to_string()),
            }
            progress();
            if may_warn && start.elapsed() > WARN_AFTER {
                may_warn = false;
                if !parts::has_begun(directory, &units) {
                    warn(&format!(
                        "no executor has begun a unit yet; start one: rankscope executor {scheduler}"
                    ));
                }
            }
        };
        let text = reading.join().unwrap_or_default();
        if status.success() {
            return Ok(());
        }
        let text = text.trim();
        let text = text.strip_prefix("rankscope merge --cluster: ").unwrap_or(text);
        match text.is_empty() {
            true => Err(format!("rankscope-cluster ended with {status}")),
            false => Err(text.to_owned()),
        }
    }

    fn visible_after(&self) -> Duration {
        VISIBLE_AFTER
    }
}
