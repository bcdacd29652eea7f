//! Trainings with a fault of known size (`tests/programs/gloo_train.cc`), and rankscope's results for them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rankscope_formats::session::{StepKind, StepRow, Table, TableReader, rank_path};
use serde_json::Value;

use crate::job::Job;
use crate::network::{Link, Network};
use crate::results;
use crate::turn::Turn;

/// Bytes that a link of two ranks carries in a step of the pattern `exchange`: 32 KiB in each direction, one after the
/// other. The reduced bytes are few.
const EXCHANGED_BYTES: f64 = 2.0 * 32.0 * 1024.0;

/// Largest distance of a cut from the start of the program's step, as a share of the step. It is well below the
/// shortest part of a step, so a cut at another operation counts as a different step.
const CUT_SHARE: f64 = 0.02;

/// Pattern of a rank's own time compared with that of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// All ranks are equal.
    None,
    /// One rank is late in every step.
    Persistent,
    /// One rank is late in 3 of every 30 steps.
    Recurrent,
    /// One rank is late in a tenth of the steps, all of them consecutive.
    Transient,
    /// A random rank is late in each step.
    Rotating,
    /// Both ranks of a host are late in every step.
    Host,
    /// Messages between two ranks take longer (routed trainings).
    Link,
}

impl Fault {
    /// All faults.
    pub const ALL: [Fault; 7] = [
        Fault::None,
        Fault::Persistent,
        Fault::Recurrent,
        Fault::Transient,
        Fault::Rotating,
        Fault::Host,
        Fault::Link,
    ];

    /// Returns the name of the fault in the program's arguments.
    pub fn word(self) -> &'static str {
        match self {
            Fault::None => "none",
            Fault::Persistent => "persistent",
            Fault::Recurrent => "recurrent",
            Fault::Transient => "transient",
            Fault::Rotating => "rotating",
            Fault::Host => "host",
            Fault::Link => "link",
        }
    }

    /// Returns the rule that should find the fault, and the class that it should give.
    pub fn finding(self) -> Option<(&'static str, Option<&'static str>)> {
        match self {
            Fault::None => None,
            Fault::Persistent => Some(("late-rank", Some("persistent"))),
            Fault::Recurrent => Some(("late-rank", Some("recurrent"))),
            Fault::Transient => Some(("late-rank", Some("transient"))),
            Fault::Rotating => Some(("rotating-lateness", Some("rotating"))),
            Fault::Host => Some(("slow-host", None)),
            Fault::Link => Some(("slow-link", None)),
        }
    }
}

/// One training.
#[derive(Clone, Debug)]
pub struct Training {
    /// `ddp`, `fsdp`, `accumulate`, `evaluate`, `pipeline` or `exchange`.
    pub pattern: &'static str,
    /// Number of ranks.
    pub ranks: usize,
    /// Ranks per host. Each host has a different boot id. `None`: all ranks are on this host.
    pub per_host: Option<usize>,
    /// Whether a router with delays and jitter joins the hosts. A slow link is slow in the router.
    pub is_routed: bool,
    /// Number of steps.
    pub steps: usize,
    /// Computing time of a step, in microseconds.
    pub step_us: u32,
    /// Fault.
    pub fault: Fault,
    /// Affected rank. For a link or a host, the first of the two ranks.
    pub victim: usize,
    /// Time that the fault adds to the victim's own time in the mean step, in thousandths of a step.
    pub permille: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// A rank's own report of its steps, in nanoseconds on the axis.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Start of each step, and the end of the last one.
    pub began_ns: Vec<i64>,
    /// End of the last operation of each step.
    pub ended_ns: Vec<i64>,
    /// End of the last operation of each evaluation.
    pub evaluated_ns: Vec<i64>,
}

impl Truth {
    fn read(text: &str, origin_unix_ns: i64) -> Truth {
        let mut truth = Truth::default();
        for line in text.lines() {
            let (what, at) = line.split_once(' ').expect("a word and a moment");
            let list = match what {
                "began" => &mut truth.began_ns,
                "ended" => &mut truth.ended_ns,
                _ => &mut truth.evaluated_ns,
            };
            list.push(at.parse::<i64>().expect("nanoseconds") - origin_unix_ns);
        }
        truth
    }
}

/// The truth about a training, and rankscope's results for it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The report.
    pub report: Value,
    /// Reports of the ranks.
    pub truth: Vec<Truth>,
    /// Steps as rankscope cut them, per rank: kind and end, in nanoseconds on the axis.
    pub cuts_ns: Vec<Vec<(StepKind, i64)>>,
}

impl Training {
    /// Runs and records the training, then merges and reports it.
    ///
    /// # Panics
    /// If the training or the merge fails, or this machine cannot route.
    pub fn run(&self, turn: &Turn, program: &Path) -> Outcome {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut job = Job::program(program, self.ranks);
        for argument in [
            self.pattern.to_owned(),
            self.steps.to_string(),
            self.step_us.to_string(),
            self.fault.word().to_owned(),
            self.victim.to_string(),
            self.permille.to_string(),
            self.seed.to_string(),
        ] {
            job = job.arg(argument);
        }
        let hosts = tempfile::tempdir().expect("a temporary directory");
        if let Some(per_host) = self.per_host {
            let own_host = own_host_by_rank(hosts.path(), self.ranks, per_host);
            job = job.under(&["unshare", "--mount", "sh", "-c", &own_host, "sh"]);
        }
        // The router must live as long as the job.
        let mut network = None;
        if self.is_routed {
            let per_host = self.per_host.unwrap_or(1);
            let hosts: Vec<usize> = (0..self.ranks).map(|rank| rank / per_host).collect();
            let made = Network::new(hosts[self.ranks - 1] + 1, self.seed, |from, to| {
                self.link(hosts[self.victim], from, to)
            });
            let made = network.insert(Arc::new(made.expect("network namespaces")));
            job = job.on_hosts(made, &hosts);
        }
        let finished = job.record_into(directory.path()).run(turn);
        drop(network);
        finished.expect_status(0);
        results::merge(directory.path());
        let report = results::report(directory.path());
        let origin = report["axis"]["origin_unix_ns"].as_i64().expect("an origin");
        let truth = (0..self.ranks)
            .map(|rank| Truth::read(&finished.reported(&format!("rank{rank}.steps")), origin))
            .collect();
        // In a run of one world, the ranks of the session are ordered by their numbers.
        let session = directory.path().join("session");
        let cuts_ns = (0..self.ranks)
            .map(|rank| {
                let path = rank_path::<StepRow>(&session, rank as u32);
                let rows = if path.exists() {
                    TableReader::<StepRow>::read_all(&path)
                } else {
                    Ok(Vec::new())
                };
                let rows = rows.unwrap_or_else(|error| panic!("{}: {error}", StepRow::NAME));
                rows.iter().map(|row| (row.kind, row.end_ns)).collect()
            })
            .collect();
        Outcome {
            report,
            truth,
            cuts_ns,
        }
    }
}

impl Training {
    /// Returns one direction between two hosts: some 100 µs, or slower with the fault.
    fn link(&self, victim: usize, from: usize, to: usize) -> Link {
        let is_slow =
            self.fault == Fault::Link && [from, to].contains(&victim) && [from, to].contains(&(victim + 1));
        let more_s = f64::from(self.permille) / 1e3 * f64::from(self.step_us) / 1e6;
        Link {
            least_delay: Duration::from_micros(60 + 20 * ((3 * from + to) % 4) as u64),
            mean_jitter: Duration::from_micros(20),
            bytes_per_second: is_slow.then(|| (EXCHANGED_BYTES / more_s) as u64),
        }
    }
}

/// Returns a shell command that gives the rank that it starts the boot id of its host, in a separate mount namespace.
fn own_host_by_rank(directory: &Path, ranks: usize, per_host: usize) -> String {
    for host in 0..ranks.div_ceil(per_host) {
        let id = format!("{host:08x}-0000-4000-8000-{host:012x}\n");
        std::fs::write(directory.join(host.to_string()), id).expect("a file of this test");
    }
    format!(
        "mount --bind {}/$(($2 / {per_host})) /proc/sys/kernel/random/boot_id && exec \"$@\"",
        directory.display()
    )
}

impl Outcome {
    /// Returns the findings, the costliest first.
    pub fn findings(&self) -> &[Value] {
        self.report["findings"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns their kinds.
    pub fn kinds(&self) -> Vec<&str> {
        let kinds = self.findings().iter();
        kinds.filter_map(|finding| finding["kind"].as_str()).collect()
    }

    /// Returns the program's mean step by its own clock, in nanoseconds: from the start of the first step to the end of
    /// the last one on rank 0. Evaluations are included.
    pub fn mean_step_ns(&self) -> f64 {
        let began = &self.truth[0].began_ns;
        let steps = began.len().saturating_sub(1).max(1);
        (began[began.len() - 1] - began[0]) as f64 / steps as f64
    }

    /// Counts, over all ranks, the ends of steps and evaluations with the program's place and kind. Also counts all
    /// ends, found and true. The first and the last two steps are ignored, because whole steps start where a first one
    /// ended.
    pub fn cuts(&self) -> (usize, usize) {
        let near = (self.mean_step_ns() * CUT_SHARE) as i64;
        let (mut equal, mut all) = (0, 0);
        for (truth, cuts) in self.truth.iter().zip(&self.cuts_ns) {
            let ended = &truth.ended_ns;
            let (Some(&first), Some(&last)) = (ended.get(1), ended.get(ended.len().saturating_sub(3))) else {
                continue;
            };
            let inside = |at: i64| (first - near..=last + near).contains(&at);
            let trained = ended.iter().map(|&at| (StepKind::Train, at));
            let evaluated = truth.evaluated_ns.iter().map(|&at| (StepKind::Evaluate, at));
            let ends: Vec<(StepKind, i64)> = trained.chain(evaluated).filter(|&(_, at)| inside(at)).collect();
            let is_same = |one: (StepKind, i64), other: (StepKind, i64)| {
                one.0 == other.0 && (one.1 - other.1).abs() <= near
            };
            let found = ends
                .iter()
                .filter(|&&end| cuts.iter().any(|&cut| is_same(cut, end)));
            equal += found.count();
            let too_many = cuts
                .iter()
                .filter(|&&cut| inside(cut.1) && !ends.iter().any(|&end| is_same(cut, end)));
            all += ends.len() + too_many.count();
        }
        (equal, all)
    }
}
