//! A job: the ranks of one of the test programs, and their own reports of what they did.

use std::ffi::{OsStr, OsString};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rankscope_ranklog::collect::collect;
use serde_json::Value;
use tempfile::TempDir;

use crate::counter::{self, Counter};
use crate::network::{DEVICE, Network};
use crate::process::{self, Ended, Process};
use crate::python::Python;
use crate::turn::Turn;
use crate::{compile, recorded, skip};

/// Ranks to be started, one process each.
#[derive(Debug)]
pub struct Job {
    size: usize,
    kind: Kind,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    preload: Preload,
    limit: Duration,
    counted: bool,
    under: Vec<OsString>,
    hosts: Option<(Arc<Network>, Vec<usize>)>,
    scratch: TempDir,
    live: TempDir,
}

#[derive(Debug)]
enum Kind {
    Program(PathBuf),
    Torch(Python, PathBuf),
}

#[derive(Debug)]
enum Preload {
    No,
    Idle,
    Into(PathBuf),
}

impl Job {
    /// Makes ranks of a compiled program of `tests/programs/` ([`compile`]), started as `program RANK SIZE STORE`.
    pub fn program(program: &Path, size: usize) -> Job {
        Job::new(Kind::Program(program.to_owned()), size)
    }

    /// Makes ranks of a Python program of `tests/programs/torch/`.
    pub fn torch(python: &Python, source: &str, size: usize) -> Job {
        let script = compile::programs().join("torch").join(source);
        Job::new(Kind::Torch(python.clone(), script), size)
    }

    fn new(kind: Kind, size: usize) -> Job {
        Job {
            size,
            kind,
            arguments: Vec::new(),
            environment: Vec::new(),
            preload: Preload::No,
            limit: Duration::from_secs(120),
            counted: false,
            under: Vec::new(),
            hosts: None,
            scratch: scratch(&std::env::temp_dir()),
            live: scratch(process::memory()),
        }
    }

    /// Adds an argument for each rank.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Job {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds a variable to each rank's environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Job {
        self.environment
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Preloads the library, which records into this directory. The live areas are in memory, in a directory of this
    /// job alone. They are deleted with [`Finished`]: read or merge the run before that.
    pub fn record_into(mut self, directory: &Path) -> Job {
        self.preload = Preload::Into(directory.to_owned());
        self
    }

    /// Preloads the library without a directory: it must do nothing.
    pub fn preload_idle(mut self) -> Job {
        self.preload = Preload::Idle;
        self
    }

    /// Sets the time limit of the ranks. The default is two minutes.
    pub fn limit(mut self, limit: Duration) -> Job {
        self.limit = limit;
        self
    }

    /// Starts each rank by this command, which must become the rank: `sh -c '…; exec "$@"' sh`.
    pub fn under(mut self, command: &[&str]) -> Job {
        self.under = command.iter().map(OsString::from).collect();
        self
    }

    /// Starts each rank on the host of this network at its index in the list.
    pub fn on_hosts(mut self, network: &Arc<Network>, hosts: &[usize]) -> Job {
        assert_eq!(hosts.len(), self.size, "one host per rank");
        self.hosts = Some((Arc::clone(network), hosts.to_vec()));
        self
    }

    /// Gives each rank a descriptor 3 on which it reports its finished operations: [`Running::counter`].
    pub fn counted(mut self) -> Job {
        self.counted = true;
        self
    }

    /// Starts all ranks.
    pub fn start(self, turn: &Turn) -> Running<'_> {
        let store = self.scratch.path().join("store");
        let truth = self.scratch.path().join("truth");
        for directory in [&store, &truth] {
            std::fs::create_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        }
        let port = free_port();
        let started = Instant::now();
        let mut ranks = Vec::new();
        let mut counters = Vec::new();
        for rank in 0..self.size {
            let mut command = match &self.kind {
                Kind::Program(program) => {
                    let mut command = self.command(program);
                    command
                        .args([rank.to_string(), self.size.to_string()])
                        .arg(&store);
                    command
                }
                Kind::Torch(python, script) => {
                    let mut command = self.command(&python.path);
                    // -B: do not write bytecode into the checkout.
                    command.arg("-B").arg(script);
                    let master = self.address(0);
                    command
                        .env("MASTER_ADDR", master.unwrap_or_else(|| "127.0.0.1".to_owned()))
                        .env("MASTER_PORT", port.to_string());
                    command
                        .env("RANK", rank.to_string())
                        .env("LOCAL_RANK", rank.to_string());
                    command
                        .env("WORLD_SIZE", self.size.to_string())
                        .env("OMP_NUM_THREADS", "1");
                    command
                }
            };
            command.args(&self.arguments).env("TRUTH_DIR", &truth);
            match &self.preload {
                Preload::No => process::clean(&mut command),
                Preload::Idle => process::preload(&mut command, None),
                Preload::Into(directory) => {
                    process::preload(&mut command, Some(directory));
                    command.env("RANKSCOPE_LIVE_DIR", self.live.path());
                }
            }
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
            if let Some((network, hosts)) = &self.hosts {
                network.place(hosts[rank], &mut command);
                command.env("GLOO_SOCKET_IFNAME", DEVICE);
                command.envs(self.address(rank).map(|address| ("RANK_ADDRESS", address)));
            }
            if self.counted {
                counters.push(counter::attach(&mut command));
            }
            ranks.push(Process::start(command));
        }
        let counters = counters.into_iter().map(counter::Attached::listen).collect();
        Running {
            ranks,
            counters,
            limit: self.limit,
            started,
            scratch: self.scratch,
            live: self.live,
            record: match self.preload {
                Preload::Into(directory) => Some(directory),
                Preload::No | Preload::Idle => None,
            },
            _turn: turn,
        }
    }

    /// Returns the address of a rank's host.
    fn address(&self, rank: usize) -> Option<String> {
        let (_, hosts) = self.hosts.as_ref()?;
        Some(Network::address(hosts[rank]).to_string())
    }

    fn command(&self, program: &Path) -> Command {
        let Some((first, others)) = self.under.split_first() else {
            return Command::new(program);
        };
        let mut command = Command::new(first);
        command.args(others).arg(program);
        command
    }

    /// Starts all ranks and waits for them.
    pub fn run(self, turn: &Turn) -> Finished {
        self.start(turn).wait()
    }
}

/// A started job. Dropping the value kills its ranks.
#[derive(Debug)]
pub struct Running<'turn> {
    ranks: Vec<Process>,
    counters: Vec<Counter>,
    limit: Duration,
    started: Instant,
    scratch: TempDir,
    live: TempDir,
    record: Option<PathBuf>,
    _turn: &'turn Turn,
}

impl Running<'_> {
    /// Returns the process of a rank, to be signalled.
    pub fn rank(&self, rank: usize) -> &Process {
        &self.ranks[rank]
    }

    /// Returns the counter of a [`Job::counted`] rank.
    pub fn counter(&self, rank: usize) -> &Counter {
        &self.counters[rank]
    }

    /// Returns the directory that the ranks share (`STORE`).
    pub fn store(&self) -> PathBuf {
        self.scratch.path().join("store")
    }

    /// Waits for all ranks.
    pub fn wait(self) -> Finished {
        let deadline = Instant::now() + self.limit;
        let left = || deadline.saturating_duration_since(Instant::now());
        let pids = self.ranks.iter().map(Process::id).collect();
        let ranks = self.ranks.into_iter().map(|rank| rank.wait(left())).collect();
        let counts = self.counters.into_iter().map(Counter::last).collect();
        Finished {
            ranks,
            pids,
            duration: self.started.elapsed(),
            counts,
            scratch: self.scratch,
            live: self.live,
            record: self.record,
        }
    }
}

/// Remains of a job.
#[derive(Debug)]
pub struct Finished {
    /// Exit status and output of each rank.
    pub ranks: Vec<Ended>,
    /// Process id of each rank.
    pub pids: Vec<u32>,
    /// Time from the start of the first rank to the end of the last one.
    pub duration: Duration,
    /// Last number that each counted rank reported.
    pub counts: Vec<u64>,
    scratch: TempDir,
    live: TempDir,
    record: Option<PathBuf>,
}

impl Drop for Finished {
    /// Completes the logs before the live areas are deleted, as `rankscope run` does. On a busy machine a rank may exit
    /// before its recorder has written everything, and its last records are then only in its live area.
    fn drop(&mut self) {
        // The test may have removed its directory already.
        let directory = self.record.iter().filter(|directory| directory.is_dir());
        for log in directory.flat_map(|directory| recorded::files(directory)) {
            if let Err(error) = collect(&log) {
                eprintln!("{}: {error}", log.display());
            }
        }
    }
}

impl Finished {
    /// Returns the directory of the ranks' live areas. It is deleted with this value.
    pub fn live(&self) -> &Path {
        self.live.path()
    }

    /// Returns the operations that a rank reports about itself (`tests/programs/truth.h`).
    pub fn truth(&self, rank: usize) -> Vec<Value> {
        let path = self.scratch.path().join(format!("truth/rank{rank}.jsonl"));
        let Ok(text) = std::fs::read_to_string(&path) else {
            return Vec::new();
        };
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        text.lines().map(parse).collect()
    }

    /// Returns a file that the ranks wrote into TRUTH_DIR. Empty if they wrote none.
    pub fn reported(&self, name: &str) -> String {
        std::fs::read_to_string(self.scratch.path().join("truth").join(name)).unwrap_or_default()
    }

    /// Asserts the exit status of all ranks.
    ///
    /// # Panics
    /// If any rank ended with a different status. The message has its output.
    pub fn expect_status(&self, code: i32) {
        self.expect_statuses(&vec![code; self.ranks.len()]);
    }

    /// Asserts the exit status of each rank.
    ///
    /// # Panics
    /// If the ranks ended with different statuses. The message has their output.
    pub fn expect_statuses(&self, codes: &[i32]) {
        let got: Vec<i32> = self.ranks.iter().map(Ended::code).collect();
        let reported: Vec<String> = self
            .ranks
            .iter()
            .map(|rank| rank.text() + &rank.complaints())
            .collect();
        assert_eq!(
            got,
            codes,
            "exit statuses; the ranks said:\n{}",
            reported.join("\n")
        );
    }
}

/// Runs a test with every Python that this machine has.
pub fn for_each_python(mut test: impl FnMut(&Python)) {
    let pythons = Python::all();
    if pythons.is_empty() {
        skip("no Python with PyTorch");
    }
    for python in &pythons {
        test(python);
    }
}

fn scratch(place: &Path) -> TempDir {
    tempfile::Builder::new()
        .prefix("rankscope-test-")
        .tempdir_in(place)
        .unwrap_or_else(|error| panic!("a temporary directory in {}: {error}", place.display()))
}

/// Returns a port that is free, and that nobody gets without a request for it.
///
/// It is outside the range that the kernel assigns to unbound connections. A rank that connects to rank 0 before that
/// listens may be assigned the very port that it connects to. It then reaches itself, and rank 0 cannot listen there
/// (seen once in some hundred runs).
fn free_port() -> u16 {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    let given = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first_given: u16 = given
        .split_whitespace()
        .next()
        .and_then(|first| first.parse().ok())
        .unwrap_or(32768);
    const FIRST: u16 = 11000;
    // Some programs also use the next few ports.
    const MORE: u16 = 16;
    let count = first_given.saturating_sub(FIRST + MORE).max(1);
    // Two test programs start at different ports, so that they seldom try the same one.
    let start = (std::process::id() as u16).wrapping_mul(7919);
    for _ in 0..count {
        let step = TRIED.fetch_add(MORE, Ordering::Relaxed);
        let port = FIRST + start.wrapping_add(step) % count;
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port from {FIRST} to {first_given}")
}
