//! Recording of a real job on several hosts, and its conversion to hosts with different clocks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rankscope_ranklog::Operation;
use rankscope_ranklog::collect::collect;
use rankscope_ranklog::reader::RankLog;
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_tests::job::Job;
use rankscope_tests::network::{Link, Network};
use rankscope_tests::recorded;
use rankscope_tests::turn::Turn;
use tempfile::TempDir;

use crate::random::Random;
use rankscope_fixtures::reclock::{TestClock, reclock};

/// True start of jobs, in nanoseconds. Clocks are ahead and behind, and must not show negative times.
pub const BEGIN_NS: i64 = 100_000_000_000;

/// Logs of a job, by rank, with timestamps of one clock.
pub struct Recording {
    /// Logs by rank, in a separate directory.
    pub logs: Vec<PathBuf>,
    /// Host of each rank.
    pub hosts: Vec<usize>,
    /// Links that the packets took, by source and destination.
    pub links: Vec<Vec<Link>>,
    /// First tick of all logs, and nanoseconds per tick.
    tick: (u64, f64),
    /// True start and end, in nanoseconds.
    pub span_ns: (i64, i64),
    _directory: TempDir,
}

/// Returns links between this many hosts: 30 to 150 µs and 10 to 60 µs of jitter, different in each direction. The
/// router's own work and the time until one of two cores runs it are added.
pub fn uneven_links(hosts: usize, random: &mut Random) -> Vec<Vec<Link>> {
    let mut link = || Link {
        least_delay: Duration::from_nanos(random.between(30_000, 150_000) as u64),
        mean_jitter: Duration::from_nanos(random.between(10_000, 60_000) as u64),
        bytes_per_second: None,
    };
    (0..hosts).map(|_| (0..hosts).map(|_| link()).collect()).collect()
}

/// Runs and records a job whose ranks are on these hosts. Skips and returns `None` if this machine has no namespaces.
pub fn record(turn: &Turn, seed: u64, links: &[Vec<Link>], hosts: &[usize], job: Job) -> Option<Recording> {
    let network = Network::new(links.len(), seed, |from, to| links[from][to])?;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let finished = job
        .on_hosts(&Arc::new(network), hosts)
        .record_into(directory.path())
        .run(turn);
    finished.expect_status(0);
    // On a busy machine the library may leave the closing of a log to the collector.
    for path in recorded::files(directory.path()) {
        collect(&path).unwrap_or_else(|error| panic!("{error}"));
    }
    let of_pid = |&pid: &u32| {
        let mut all = recorded::files(directory.path()).into_iter();
        all.find(|path| RankLog::open(path).is_ok_and(|log| log.pid == pid))
            .unwrap_or_else(|| panic!("process {pid} left no log"))
    };
    let logs: Vec<PathBuf> = finished.pids.iter().map(of_pid).collect();
    let mut calibrations: Vec<(u64, i64)> = logs
        .iter()
        .flat_map(|path| RankLog::open(path).expect("opened before").calibrations)
        .map(|entry| (entry.ticks, entry.monotonic_raw_ns))
        .collect();
    calibrations.sort_unstable();
    let (first, last) = (calibrations[0], calibrations[calibrations.len() - 1]);
    let ns_per_tick = (last.1 - first.1) as f64 / (last.0 - first.0) as f64;
    let mut recording = Recording {
        logs,
        hosts: hosts.to_vec(),
        links: links.to_vec(),
        tick: (first.0, ns_per_tick),
        span_ns: (0, 0),
        _directory: directory,
    };
    recording.span_ns = (recording.true_ns(first.0), recording.true_ns(last.0));
    Some(recording)
}

impl Recording {
    /// Returns the true time at which the first rank calls the collective of this tag, in nanoseconds.
    pub fn called_ns(&self, tag: u32) -> i64 {
        let records = self.logs.iter().flat_map(|path| recorded::read(path).records);
        let calls = records.map(|of| of.record).filter(|record| {
            record.kind == RecordKind::Call as u8
                && record.operation == Operation::AllReduce as u8
                && record.tag == tag
        });
        let first = calls.map(|record| record.enter_ticks).min();
        self.true_ns(first.unwrap_or_else(|| panic!("nobody called {tag}")))
    }

    /// Returns the true time of a timestamp, before any sleep is inserted.
    fn true_ns(&self, ticks: u64) -> i64 {
        let since = ticks as i128 - i128::from(self.tick.0);
        BEGIN_NS + (since as f64 * self.tick.1).round() as i64
    }

    /// Writes the logs as hosts with these clocks would have written them. `pause` inserts a pause of the job: start
    /// and length.
    pub fn under_clocks(
        &self,
        to: &Path,
        clocks: &[TestClock],
        pause: Option<(i64, i64)>,
        mut change: impl FnMut(usize, &mut Record),
    ) {
        std::fs::create_dir_all(to).expect("a directory");
        let true_ns = |ticks: u64| {
            let at = self.true_ns(ticks);
            pause.map_or(at, |(from, length)| if at < from { at } else { at + length })
        };
        for (rank, path) in self.logs.iter().enumerate() {
            let host = self.hosts[rank];
            reclock(
                path,
                &to.join(format!("rank-{rank}.rslog")),
                &format!("host-{host}"),
                &clocks[host],
                &true_ns,
                &mut |record| change(rank, record),
            )
            .expect("rewritten");
        }
    }

    /// Writes the logs unchanged: as those of one host with the true clock.
    pub fn under_one_clock(&self, to: &Path) {
        std::fs::create_dir_all(to).expect("a directory");
        for (rank, path) in self.logs.iter().enumerate() {
            reclock(
                path,
                &to.join(format!("rank-{rank}.rslog")),
                "host-0",
                &TestClock::default(),
                &|ticks| self.true_ns(ticks),
                &mut |_| {},
            )
            .expect("rewritten");
        }
    }
}

/// Returns clocks up to 10 s apart. Their drift is up to 100 ppm and wanders slowly, and their wall clocks are wrong by
/// seconds.
pub fn any_clocks(hosts: usize, random: &mut Random) -> Vec<TestClock> {
    let mut clock = || {
        let swing_s = random.between(30, 400) as f64;
        TestClock {
            offset_ns: random.between(-10_000_000_000, 10_000_000_000),
            drift_ppb: random.between(-99_000, 99_000),
            // The drift changes by at most two fifths of the model's limit for a pair.
            swing_ppb: (20.0 * swing_s / std::f64::consts::TAU) as i64,
            swing_s,
            wall_ns: random.between(-10_000_000_000, 10_000_000_000),
            ..TestClock::default()
        }
    };
    (0..hosts).map(|_| clock()).collect()
}
