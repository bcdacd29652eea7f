//! Trainings with a fault whose size is known (`tests/programs/gloo_train.cc`), and what rankscope makes of them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rankscope_formats::session::{StepKind, StepRow, Table, TableReader, rank_path};
use serde_json::Value;

use crate::job::Job;
use crate::network::{Link, Network};
use crate::results;
use crate::turn::Turn;

/// What goes over a link of two ranks in a step of the pattern `exchange`, one direction after the other: 32 KiB each.
/// What is reduced is small.
const EXCHANGED_BYTES: f64 = 2.0 * 32.0 * 1024.0;

/// How far a cut may lie from the moment at which the program began the step, as a share of the step: well below the
/// shortest part of one, so that a cut at another operation is another step.
const CUT_SHARE: f64 = 0.02;

/// What a rank's own time looks like beside that of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// All alike.
    None,
    /// One rank is late in every step.
    Persistent,
    /// One rank is late in 3 of every 30 steps.
    Recurrent,
    /// One rank is late in a tenth of the steps, one behind the other.
    Transient,
    /// In each step some rank is late, none in particular.
    Rotating,
    /// Both ranks of a host are late in every step.
    Host,
    /// What two ranks send each other takes longer (routed trainings).
    Link,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 7] = [
        Fault::None,
        Fault::Persistent,
        Fault::Recurrent,
        Fault::Transient,
        Fault::Rotating,
        Fault::Host,
        Fault::Link,
    ];

    /// As the program is told.
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

    /// The rule that should find it, and the class that it should give.
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
    /// Ranks.
    pub ranks: usize,
    /// Ranks per host; each host has a boot id of its own. `None`: all on this one.
    pub per_host: Option<usize>,
    /// Hosts are joined by a router with delays and jitter of its own; a slow link is slow there.
    pub is_routed: bool,
    /// Steps.
    pub steps: usize,
    /// What a step computes, µs.
    pub step_us: u32,
    /// What is wrong.
    pub fault: Fault,
    /// With whom; of a link or a host the first of two ranks.
    pub victim: usize,
    /// What that adds to the victim's own time in the mean step, thousandths of a step.
    pub permille: u32,
    /// Of the random numbers.
    pub seed: u64,
}

/// What a rank says of its own steps, ns on the axis.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// When each step began, and the last one's end.
    pub began_ns: Vec<i64>,
    /// When the last operation of each step was over.
    pub ended_ns: Vec<i64>,
    /// When the last operation of each evaluation was over.
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

/// What happened, and what rankscope says happened.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The report.
    pub report: Value,
    /// What the ranks say.
    pub truth: Vec<Truth>,
    /// Steps as they were cut, per rank: kind and end, ns on the axis.
    pub cuts_ns: Vec<Vec<(StepKind, i64)>>,
}

impl Training {
    /// Runs it, recorded, and asks rankscope.
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
            .map(|rank| Truth::read(&finished.told(&format!("rank{rank}.steps")), origin))
            .collect();
        // Ranks of the session stand in the order of their numbers in a run of one world.
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
    /// One direction between two hosts: some 100 µs, and slower by what the fault says.
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

/// A shell command that gives the rank it starts the boot id of its host, in a mount namespace of its own.
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
    /// The findings, the costliest first.
    pub fn findings(&self) -> &[Value] {
        self.report["findings"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Their kinds.
    pub fn kinds(&self) -> Vec<&str> {
        let kinds = self.findings().iter();
        kinds.filter_map(|finding| finding["kind"].as_str()).collect()
    }

    /// The mean step of the program, by its own clock: from the first one's begin to the last one's end on rank 0,
    /// evaluations included, ns.
    pub fn mean_step_ns(&self) -> f64 {
        let began = &self.truth[0].began_ns;
        let steps = began.len().saturating_sub(1).max(1);
        (began[began.len() - 1] - began[0]) as f64 / steps as f64
    }

    /// Ends of steps and evaluations that are where the program had them and what it had, and all ends, told and true: over
    /// all ranks. Of the first and the last two steps nothing is demanded: whole steps begin where a first one ended.
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
