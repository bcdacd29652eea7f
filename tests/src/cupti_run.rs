//! A training-like job with devices (`tests/programs/cupti_job.cc`) on the test doubles of CUPTI, the driver and NCCL:
//! started with what a test asks for, and read beside what the doubles say that they did.

use std::collections::BTreeMap;
use std::path::Path;

use rankscope_formats::session::{TableReader, rank_path};
use rankscope_ranklog::activity::{Activity, Work};
use rankscope_ranklog::clock::Calibration;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::RecordKind;
use serde_json::Value;
use tempfile::TempDir;

use crate::job::{Finished, Job};
use crate::recorded::{self, Recorded};
use crate::turn::Turn;
use crate::{compile, process, results};

/// Ranks of every job.
pub const RANKS: usize = 2;
/// Works of a step: a copy, 20 kernels, a set, five nodes of a graph, and two launches of NCCL.
pub const WORKS: u64 = 29;
/// Stamps are rounded, and the double converts by a line between two readings.
pub const STAMPS_NS: i64 = 2_000;
/// The newest version of the double.
pub const NEWEST: u32 = 130_500;

/// What is left of a job.
pub struct Run {
    /// What was recorded.
    pub directory: TempDir,
    /// What the double of the driver says.
    pub truth: TempDir,
    /// How the ranks ended.
    pub finished: Finished,
}

/// What the double of the driver says of a work.
#[derive(Clone, Debug)]
pub struct Truth {
    /// kernel, copy or set
    pub kind: String,
    /// Of a kernel.
    pub name: String,
    /// By CLOCK_MONOTONIC_RAW.
    pub start_ns: i64,
    /// By CLOCK_MONOTONIC_RAW.
    pub stop_ns: i64,
    /// Of a copy or a set.
    pub bytes: u64,
    /// 0: it is of no graph.
    pub graph_node: u64,
}

/// Time that the recorder or the driver took for itself: as the double says, or as the log does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taken {
    /// By the clock that was registered: ours, in ticks.
    pub start_ticks: u64,
    /// By that clock.
    pub end_ticks: u64,
    /// System id of the thread, 0 if the record tells of none.
    pub thread: u32,
    /// A number of `CUpti_ActivityOverheadKind`.
    pub what: u32,
}

/// What a test asks of a job.
pub struct Settings<'a> {
    /// Of the double of CUPTI.
    pub version: u32,
    /// Each of two milliseconds and a half.
    pub steps: u64,
    /// `RANKSCOPE_KERNELS`
    pub kernels: Option<&'a str>,
    /// More of the environment.
    pub more: &'a [(&'a str, &'a str)],
}

impl Default for Settings<'_> {
    fn default() -> Self {
        Self {
            version: NEWEST,
            steps: 60,
            kernels: Some("all"),
            more: &[],
        }
    }
}

/// A job that was not started; nothing (and a skip) where it cannot be compiled. The doubles of the driver tell the truth
/// into the one directory, those of NCCL meet in the other.
pub fn job(settings: &Settings<'_>, truth: &Path, meet: &Path) -> Option<Job> {
    let program = compile::nccl_loading("cupti_job.cc")?;
    let (library, name) = compile::cupti_double(settings.version)?;
    let mut job = Job::program(&program, RANKS)
        .arg(settings.steps.to_string())
        .env("LD_LIBRARY_PATH", library)
        .env("CUPTI_JOB_LIBRARY", name)
        .env("CUDA_DOUBLE_TRUTH", truth)
        .env("NCCL_DOUBLE_MEET", meet)
        .env("RANKSCOPE_LIVE_MIB", "16");
    if let Some(kernels) = settings.kernels {
        job = job.env("RANKSCOPE_KERNELS", kernels);
    }
    for (name, value) in settings.more {
        job = job.env(name, value);
    }
    Some(job)
}

/// Records a job from its begin to its end.
pub fn run(turn: &Turn, settings: &Settings<'_>) -> Option<Run> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let truth = tempfile::tempdir().expect("a temporary directory");
    let meet = tempfile::tempdir_in(process::memory()).expect("a temporary directory");
    let job = job(settings, truth.path(), meet.path())?;
    let finished = job.record_into(directory.path()).run(turn);
    Some(Run {
        directory,
        truth,
        finished,
    })
}

impl Run {
    /// # Panics
    /// If a rank ended otherwise than by 0.
    pub fn expect_well(&self) -> &Self {
        self.finished.expect_status(0);
        self
    }

    /// The logs of the ranks.
    pub fn logs(&self) -> Vec<Recorded> {
        recorded::read_ranks(self.directory.path(), &self.finished.pids)
    }

    /// What the double of the driver says of a rank.
    pub fn truth(&self, rank: usize) -> Vec<Truth> {
        truth_of(self.truth.path(), self.finished.pids[rank])
    }

    /// What the double of CUPTI took of a rank, in order; nothing where it was not asked to tell.
    pub fn true_overheads(&self, rank: usize) -> Vec<Taken> {
        let name = format!("{}.overheads.jsonl", self.finished.pids[rank]);
        let text = std::fs::read_to_string(self.truth.path().join(name)).unwrap_or_default();
        let of_line = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let number = |name: &str| line[name].as_u64().expect("a number");
            Taken {
                start_ticks: number("start"),
                end_ticks: number("end"),
                thread: number("thread") as u32,
                what: number("what") as u32,
            }
        };
        let mut overheads: Vec<Taken> = text.lines().map(of_line).collect();
        overheads.sort();
        overheads
    }

    /// The last line of a rank that has this field.
    pub fn said(&self, rank: usize, field: &str) -> Value {
        let text = self.finished.ranks[rank].text();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let said = lines.rev().find(|line| line.get(field).is_some());
        said.unwrap_or_else(|| panic!("rank {rank} said nothing of {field}: {text}"))
    }

    /// Merges the run, and reports it.
    pub fn session(&self) -> Value {
        results::merge(self.directory.path());
        results::report(self.directory.path())
    }

    /// A table of the merged session.
    pub fn rows<T: rankscope_formats::session::Table>(&self, rank: usize) -> Vec<T> {
        let session = self.directory.path().join("session");
        TableReader::read_all(&rank_path::<T>(&session, rank as u32)).expect("a table")
    }
}

/// What the double of the driver says of a process.
pub fn truth_of(directory: &Path, pid: u32) -> Vec<Truth> {
    let path = directory.join(format!("{pid}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let number = |name: &str| line[name].as_i64().unwrap_or_default();
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            Truth {
                kind: text("kind"),
                name: text("name"),
                start_ns: number("start_ns"),
                stop_ns: number("stop_ns"),
                bytes: number("bytes") as u64,
                graph_node: number("graph_node") as u64,
            }
        })
        .collect()
}

/// Ticks as CLOCK_MONOTONIC_RAW, by the log's own calibrations.
pub fn raw_ns(calibrations: &[Calibration], ticks: u64) -> i64 {
    let (first, last) = (calibrations[0], calibrations[calibrations.len() - 1]);
    let after = calibrations.partition_point(|known| known.ticks <= ticks);
    let (one, other) = if calibrations.len() < 2 {
        (first, last)
    } else {
        let at = after.clamp(1, calibrations.len() - 1);
        (calibrations[at - 1], calibrations[at])
    };
    let rate = (other.monotonic_raw_ns - one.monotonic_raw_ns) as f64 / (other.ticks - one.ticks) as f64;
    one.monotonic_raw_ns + ((ticks as i64 - one.ticks as i64) as f64 * rate) as i64
}

/// What the log says of devices.
pub fn activities(log: &Recorded) -> Vec<Activity> {
    log.of_kind(RecordKind::Activity)
        .map(|record| Activity::of(record).expect("a known kind"))
        .collect()
}

/// What the log says that recorder and driver took for themselves, in order.
pub fn overheads(log: &Recorded) -> Vec<Taken> {
    let told = |activity: &Activity| match *activity {
        Activity::Overhead {
            start_ticks,
            end_ticks,
            thread,
            what,
        } => Some(Taken {
            start_ticks,
            end_ticks,
            thread,
            what,
        }),
        _ => None,
    };
    let mut overheads: Vec<Taken> = activities(log).iter().filter_map(told).collect();
    overheads.sort();
    overheads
}

/// Compares what recorder and driver took with the truth, to the tick.
pub fn expect_true_overheads(log: &Recorded, truth: &[Taken]) {
    // Of a stamp the bits are cut off that say less than reading the counter takes.
    let quantum: u64 = log.log.properties["clock.quantum_ticks"]
        .parse()
        .expect("a number");
    let cut = (1 << quantum.max(1).ilog2()) - 1;
    let rounded = truth.iter().map(|one| Taken {
        start_ticks: one.start_ticks & !cut,
        end_ticks: one.end_ticks & !cut,
        ..*one
    });
    let mut rounded: Vec<Taken> = rounded.collect();
    rounded.sort();
    assert_eq!(overheads(log), rounded);
}

/// What all works have.
pub fn work_of(activity: &Activity) -> Option<&Work> {
    match activity {
        Activity::Kernel { work, .. }
        | Activity::Copy { work, .. }
        | Activity::Set { work, .. }
        | Activity::Graph { work, .. } => Some(work),
        _ => None,
    }
}

/// Works in the log.
pub fn works(log: &Recorded) -> u64 {
    activities(log).iter().filter_map(work_of).count() as u64
}

/// Records of devices' work that are known to be missing.
pub fn lost(log: &Recorded) -> BTreeMap<LossCause, u64> {
    log.log
        .losses
        .iter()
        .filter(|loss| loss.kind == RecordKind::Activity)
        .map(|loss| (loss.cause, loss.count))
        .collect()
}

/// Works as both sides tell of them, in order: (begin, end, name or kind, bytes, graph node).
pub type Told = (i64, i64, String, u64, u64);

/// Works as the log tells of them.
pub fn told(log: &Recorded) -> Vec<Told> {
    let calibrations = &log.log.calibrations;
    let mut out: Vec<Told> = activities(log)
        .iter()
        .filter_map(|activity| {
            let work = work_of(activity)?;
            let (name, bytes) = match activity {
                Activity::Kernel { name, .. } => (log.log.texts[&(*name as u32)].clone(), 0),
                Activity::Copy { bytes, .. } => ("copy".to_owned(), *bytes),
                Activity::Set { bytes, .. } => ("set".to_owned(), *bytes),
                _ => ("graph".to_owned(), 0),
            };
            let ns = |ticks| raw_ns(calibrations, ticks);
            Some((
                ns(work.start_ticks),
                ns(work.end_ticks),
                name,
                bytes,
                work.graph_node,
            ))
        })
        .collect();
    out.sort();
    out
}

/// Works as the double of the driver tells of them.
pub fn true_works(truth: &[Truth]) -> Vec<Told> {
    let mut out: Vec<Told> = truth
        .iter()
        .map(|work| {
            let name = if work.kind == "kernel" {
                work.name.clone()
            } else {
                work.kind.clone()
            };
            let bytes = if work.kind == "kernel" { 0 } else { work.bytes };
            (work.start_ns, work.stop_ns, name, bytes, work.graph_node)
        })
        .collect();
    out.sort();
    out
}

/// Compares what was recorded with the truth, work by work.
pub fn expect_true(log: &Recorded, truth: &[Truth]) {
    let by_name = |works: Vec<Told>| {
        let mut named: BTreeMap<(String, u64, u64), Vec<(i64, i64)>> = BTreeMap::new();
        for (start, end, name, bytes, node) in works {
            named.entry((name, bytes, node)).or_default().push((start, end));
        }
        named
    };
    let (recorded, truth) = (by_name(told(log)), by_name(true_works(truth)));
    assert_eq!(
        recorded.keys().collect::<Vec<_>>(),
        truth.keys().collect::<Vec<_>>(),
        "the same names"
    );
    for (name, times) in &recorded {
        let of_truth = &truth[name];
        assert_eq!(times.len(), of_truth.len(), "{name:?}");
        for (one, other) in times.iter().zip(of_truth) {
            let off = (one.0 - other.0).abs().max((one.1 - other.1).abs());
            assert!(off < STAMPS_NS, "{name:?}: {one:?} and {other:?}, {off} ns apart");
        }
    }
}
