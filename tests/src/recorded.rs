//! Rank logs of a run directory, read without the collector.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rankscope_ranklog::Operation;
use rankscope_ranklog::definition::Communicator;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::reader::{Ending, RankLog, Thread, ThreadRecord};
use rankscope_ranklog::record::{FLAG_ANY_PEER, FLAG_BYTES_UNKNOWN, FLAG_FAILED, Record, RecordKind};

/// The log of one process.
pub struct Recorded {
    /// The log without its records.
    pub log: RankLog,
    /// Its records, in the order in which they were emitted.
    pub records: Vec<ThreadRecord>,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Problems in the file and in its records.
    pub problems: Vec<String>,
}

/// Returns the segment files of a run directory, by name.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = directory
        .read_dir()
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rslog"))
        .collect();
    files.sort();
    files
}

/// Reads one log, with its problems.
pub fn read(path: &Path) -> Recorded {
    Recorded::of(RankLog::open(path).unwrap_or_else(|error| panic!("{error}")))
}

/// Reads every log of a run directory, and the live areas as long as they exist.
///
/// # Panics
/// If one cannot be opened or has a problem.
pub fn read_all(directory: &Path) -> Vec<Recorded> {
    let all: Vec<Recorded> = files(directory).iter().map(|path| read(path)).collect();
    for recorded in &all {
        recorded.expect_no_problem();
    }
    all
}

/// Reads the logs of these processes, in this order.
///
/// # Panics
/// If a process has none or several, or there are others.
pub fn read_ranks(directory: &Path, pids: &[u32]) -> Vec<Recorded> {
    let mut all = read_all(directory);
    let ranks: Vec<Recorded> = pids
        .iter()
        .map(|&pid| {
            let at = all.iter().position(|recorded| recorded.log.pid == pid);
            all.swap_remove(at.unwrap_or_else(|| panic!("process {pid} left no log")))
        })
        .collect();
    let others: Vec<_> = all.iter().map(|recorded| &recorded.log.path).collect();
    assert!(others.is_empty(), "more logs than ranks: {others:?}");
    ranks
}

impl Recorded {
    /// Reads the records of an open log.
    pub fn of(log: RankLog) -> Recorded {
        let (records, threads, problems) = log.all_records();
        let problems = log.problems.iter().chain(&problems).map(ToString::to_string);
        Recorded {
            problems: problems.collect(),
            log,
            records,
            threads,
        }
    }

    /// Asserts that the file has no problems.
    ///
    /// # Panics
    /// If it has any.
    pub fn expect_no_problem(&self) {
        assert!(
            self.problems.is_empty(),
            "{}: {:#?}",
            self.log.path.display(),
            self.problems
        );
    }

    /// Asserts that the log is closed and complete. Missing evidence is allowed, because it is sampled by design.
    ///
    /// # Panics
    /// If anything else is missing, or the log was not closed.
    pub fn expect_whole(&self) {
        let losses: Vec<_> = self
            .log
            .losses
            .iter()
            .filter(|loss| loss.cause != LossCause::EvidenceBound)
            .collect();
        assert!(losses.is_empty(), "{}: {losses:?}", self.log.path.display());
        // On a busy machine the collector may have to close the log. The live area then exists, and was read.
        let ending = self.log.ending;
        assert!(
            matches!(ending, Ending::Closed | Ending::LiveArea),
            "{}: {ending:?}",
            self.log.path.display()
        );
    }

    /// Returns the records of a kind.
    pub fn of_kind(&self, kind: RecordKind) -> impl Iterator<Item = &Record> {
        self.records
            .iter()
            .map(|held| &held.record)
            .filter(move |record| record.kind == kind as u8)
    }

    /// Returns the library's own operations: whole calls, without the creation of communicators.
    pub fn calls(&self) -> impl Iterator<Item = &Record> {
        self.of_kind(RecordKind::Call)
            .filter(|record| record.operation != Operation::Connect as u8)
    }

    /// Counts the records of a kind that are reported as missing, with any cause.
    pub fn lost(&self, kind: RecordKind) -> u64 {
        let losses = self.log.losses.iter().filter(|loss| loss.kind == kind);
        losses.map(|loss| loss.count).sum()
    }

    /// Returns the messages of a log in the order of their posts: (operation, slot, bytes, peer). Each is joined with
    /// the wait that completed it.
    ///
    /// # Panics
    /// If a post has no wait, a wait has no post, or one of them failed.
    pub fn messages(&self) -> Vec<(Operation, u64, u64, i32)> {
        let by_entry = |kind| {
            let mut records: Vec<&Record> = self.of_kind(kind).collect();
            records.sort_by_key(|record| record.enter_ticks);
            records
        };
        let mut completions = by_entry(RecordKind::Complete);
        let messages = by_entry(RecordKind::Post).into_iter().map(|post| {
            let at = completions.iter().position(|complete| {
                complete.object == post.object
                    && complete.operation == post.operation
                    && complete.enter_ticks >= post.leave_ticks
            });
            let complete = completions.remove(at.unwrap_or_else(|| panic!("never completed: {post:?}")));
            let flags = post.flags | complete.flags;
            assert_eq!(
                flags & (FLAG_FAILED | FLAG_BYTES_UNKNOWN),
                0,
                "{post:?} {complete:?}"
            );
            let peer = if post.flags & FLAG_ANY_PEER == 0 {
                post.peer
            } else {
                complete.peer
            };
            let operation = Operation::from_u8(post.operation).unwrap_or(Operation::Unknown);
            (operation, post.aux, post.bytes, peer)
        });
        let messages = messages.collect();
        assert!(
            completions.is_empty(),
            "waited for, never posted: {completions:?}"
        );
        messages
    }

    /// Returns nanoseconds per tick from the calibrations. A process that lives less than a second may have only one of
    /// them.
    pub fn ns_per_tick(&self) -> Option<f64> {
        let (first, last) = (self.log.calibrations.first()?, self.log.calibrations.last()?);
        let ticks = last.ticks - first.ticks;
        (ticks > 0).then(|| (last.monotonic_raw_ns - first.monotonic_raw_ns) as f64 / ticks as f64)
    }

    /// Asserts plausible durations.
    ///
    /// # Panics
    /// If a call took longer than the job, or has a leave before its enter.
    pub fn expect_durations_below(&self, limit: Duration) {
        // No counter is faster than 10 GHz.
        let ns_per_tick = self.ns_per_tick().unwrap_or(0.1);
        for held in &self.records {
            let Record {
                enter_ticks,
                leave_ticks,
                ..
            } = held.record;
            let ticks = leave_ticks.checked_sub(enter_ticks);
            assert!(
                ticks.is_some_and(|ticks| ticks as f64 * ns_per_tick <= limit.as_nanos() as f64),
                "{}: {:?} in a job of {limit:?}",
                self.log.path.display(),
                held.record
            );
        }
    }

    /// Returns the communicator of a record.
    ///
    /// # Panics
    /// If it has none, or the log does not define it.
    pub fn communicator(&self, record: &Record) -> &Communicator {
        self.log
            .communicators
            .get(&record.communicator)
            .unwrap_or_else(|| panic!("{}: no communicator: {record:?}", self.log.path.display()))
    }
}

/// Returns the name of a record's operation, as in tables.
pub fn operation(record: &Record) -> &'static str {
    Operation::from_u8(record.operation).map_or("none", Operation::name)
}
