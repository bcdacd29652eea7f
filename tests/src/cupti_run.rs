//! Runs of a training-like job with devices (`tests/programs/cupti_job.cc`) on the test doubles of CUPTI, the driver
//! and NCCL.
//!
//! A test chooses the settings, and compares the recording with the truth that the doubles report.

use std::collections::BTreeMap;
use std::path::Path;

use rankscope_formats::session::{TableReader, rank_path};
use rankscope_ranklog::activity::{Activity, Coverage, Work};
use rankscope_ranklog::clock::Calibration;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::record::RecordKind;
use serde_json::Value;
use tempfile::TempDir;

use crate::job::{Finished, Job};
use crate::recorded::{self, Recorded};
use crate::turn::Turn;
use crate::{compile, process, results};

/// Number of ranks of every job.
pub const RANKS: usize = 2;
/// Number of works in a step: a copy, 20 kernels, a set, five nodes of a graph, and two launches of NCCL.
pub const WORKS: u64 = 29;
/// Largest error of a timestamp. Timestamps are rounded, and the double converts them linearly between two readings.
pub const STAMPS_NS: i64 = 2_000;
/// Newest version of the double.
pub const NEWEST: u32 = 130_500;

/// Remains of a job.
pub struct Run {
    /// Run directory.
    pub directory: TempDir,
    /// Directory with the truth that the driver's double wrote.
    pub truth: TempDir,
    /// Exit statuses and outputs of the ranks.
    pub finished: Finished,
}

/// A work as the driver's double reports it.
#[derive(Clone, Debug)]
pub struct Truth {
    /// `kernel`, `copy` or `set`.
    pub kind: String,
    /// Name of a kernel.
    pub name: String,
    /// Start by CLOCK_MONOTONIC_RAW.
    pub start_ns: i64,
    /// End by CLOCK_MONOTONIC_RAW.
    pub stop_ns: i64,
    /// Bytes of a copy or a set.
    pub bytes: u64,
    /// Node of a graph. 0: the work is in no graph.
    pub graph_node: u64,
}

/// Time that the recorder or the driver used for itself, from the double or from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taken {
    /// Start in ticks of the clock that rankscope registered.
    pub start_ticks: u64,
    /// End by that clock.
    pub end_ticks: u64,
    /// System id of the thread, 0 if the record names none.
    pub thread: u32,
    /// A number of `CUpti_ActivityOverheadKind`.
    pub what: u32,
}

/// Settings of a job.
pub struct Settings<'a> {
    /// Version of CUPTI's double.
    pub version: u32,
    /// Number of steps, of 2.5 ms each.
    pub steps: u64,
    /// Value of `RANKSCOPE_KERNELS`.
    pub kernels: Option<&'a str>,
    /// Further environment variables.
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

/// Prepares a job. Skips and returns `None` if it cannot be compiled. The driver's doubles write the truth into
/// `truth`, and the ranks' doubles of NCCL meet in `meet`.
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

/// Records a job from start to end.
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
    /// Asserts that all ranks exited with 0.
    ///
    /// # Panics
    /// If a rank ended with any other status.
    pub fn expect_well(&self) -> &Self {
        self.finished.expect_status(0);
        self
    }

    /// Returns the logs of the ranks.
    pub fn logs(&self) -> Vec<Recorded> {
        recorded::read_ranks(self.directory.path(), &self.finished.pids)
    }

    /// Returns the works of a rank as the driver's double reports them.
    pub fn truth(&self, rank: usize) -> Vec<Truth> {
        truth_of(self.truth.path(), self.finished.pids[rank])
    }

    /// Returns the overheads of CUPTI's double on a rank, in order. Empty if overheads were not requested.
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

    /// Returns the last line of a rank that has this field.
    pub fn printed(&self, rank: usize, field: &str) -> Value {
        let text = self.finished.ranks[rank].text();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let printed = lines.rev().find(|line| line.get(field).is_some());
        printed.unwrap_or_else(|| panic!("rank {rank} printed no {field}: {text}"))
    }

    /// Merges the run and returns its report.
    pub fn session(&self) -> Value {
        results::merge(self.directory.path());
        results::report(self.directory.path())
    }

    /// Returns a table of the merged session.
    pub fn rows<T: rankscope_formats::session::Table>(&self, rank: usize) -> Vec<T> {
        let session = self.directory.path().join("session");
        TableReader::read_all(&rank_path::<T>(&session, rank as u32)).expect("a table")
    }
}

/// Returns the works of a process as the driver's double reports them.
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

/// Converts ticks to CLOCK_MONOTONIC_RAW, by the log's own calibrations.
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

/// Returns the log's records about devices.
pub fn activities(log: &Recorded) -> Vec<Activity> {
    log.of_kind(RecordKind::Activity)
        .map(|record| Activity::of(record).expect("a known kind"))
        .collect()
}

/// Returns the overheads of recorder and driver in the log, in order.
pub fn overheads(log: &Recorded) -> Vec<Taken> {
    let reported = |activity: &Activity| match *activity {
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
    let mut overheads: Vec<Taken> = activities(log).iter().filter_map(reported).collect();
    overheads.sort();
    overheads
}

/// Compares the recorded overheads with the truth, to the tick.
pub fn expect_true_overheads(log: &Recorded, truth: &[Taken]) {
    // The recorder truncates bits of a timestamp that are below the time of a counter reading.
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

/// Returns the common fields of all works.
pub fn work_of(activity: &Activity) -> Option<&Work> {
    match activity {
        Activity::Kernel { work, .. }
        | Activity::Copy { work, .. }
        | Activity::Set { work, .. }
        | Activity::Graph { work, .. } => Some(work),
        _ => None,
    }
}

/// Returns what the recording covered, one entry per change.
pub fn covered(log: &Recorded) -> Vec<Coverage> {
    let mut changes: Vec<Coverage> = activities(log)
        .iter()
        .filter_map(|activity| match activity {
            Activity::Covered { coverage, .. } => Some(*coverage),
            _ => None,
        })
        .collect();
    changes.dedup();
    changes
}

/// Returns the intervals, in ticks, in which all activity was recorded. Adjacent records of coverage are one interval.
pub fn recorded_intervals(log: &Recorded) -> Vec<(u64, u64)> {
    let mut intervals: Vec<(u64, u64)> = Vec::new();
    for activity in activities(log) {
        let Activity::Covered {
            start_ticks,
            end_ticks,
            coverage: Coverage::All,
            ..
        } = activity
        else {
            continue;
        };
        match intervals.last_mut() {
            Some(last) if last.1 == start_ticks => last.1 = end_ticks,
            _ => intervals.push((start_ticks, end_ticks)),
        }
    }
    intervals
}

/// Counts the works in the log.
pub fn works(log: &Recorded) -> u64 {
    activities(log).iter().filter_map(work_of).count() as u64
}

/// Returns the numbers of device records that are reported as missing.
pub fn lost(log: &Recorded) -> BTreeMap<LossCause, u64> {
    log.log
        .losses
        .iter()
        .filter(|loss| loss.kind == RecordKind::Activity)
        .map(|loss| (loss.cause, loss.count))
        .collect()
}

/// Works in order, as from either source: (start, end, name or kind, bytes, graph node).
pub type Told = (i64, i64, String, u64, u64);

/// Returns the works in the log.
pub fn reported(log: &Recorded) -> Vec<Told> {
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

/// Returns the works of the driver's double.
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

/// Compares the recording with the truth, work by work.
pub fn expect_true(log: &Recorded, truth: &[Truth]) {
    let by_name = |works: Vec<Told>| {
        let mut named: BTreeMap<(String, u64, u64), Vec<(i64, i64)>> = BTreeMap::new();
        for (start, end, name, bytes, node) in works {
            named.entry((name, bytes, node)).or_default().push((start, end));
        }
        named
    };
    let (recorded, truth) = (by_name(reported(log)), by_name(true_works(truth)));
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
