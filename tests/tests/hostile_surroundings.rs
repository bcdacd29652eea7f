//! Tests recording without space, permissions or descriptors.
//!
//! The recorded job behaves as it does alone. Everything that could not be recorded is counted: recorded and lost
//! operations add up to the true number.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rankscope_ranklog::Operation;
use rankscope_ranklog::collect::{CollectError, Collected, collect};
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::reader::{Ending, RankLog};
use rankscope_ranklog::record::RecordKind;
use rankscope_tests::job::{Finished, Job, for_each_python};
use rankscope_tests::recorded::{self, Recorded};
use rankscope_tests::turn::{self, Turn};
use rankscope_tests::{compile, skip, truth};
use tempfile::TempDir;

/// Number of operations of a counting program. A live area of the usual size holds all of them. None is therefore lost
/// if the recorder thread gets no time on a busy machine.
const MANY: u64 = 100_000;

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Returns a counting program: [`MANY`] operations on a communicator of one member, which sends nothing.
fn counting(program: &Path) -> Job {
    Job::program(program, 1).arg(MANY.to_string()).counted()
}

/// Returns the visible behaviour of a job.
fn seen(finished: &Finished) -> Vec<(i32, String, String)> {
    let ranks = finished.ranks.iter();
    ranks
        .map(|rank| (rank.code(), rank.text(), rank.complaints()))
        .collect()
}

/// Runs a job alone and recorded, which must give the same behaviour.
fn compare(turn: &Turn, into: &Path, job: impl Fn() -> Job) -> Finished {
    let plain = job().run(turn);
    let recorded = job().record_into(into).run(turn);
    assert_eq!(seen(&recorded), seen(&plain));
    assert_eq!(recorded.counts, plain.counts);
    recorded
}

fn only_log(directory: &Path) -> Recorded {
    let mut logs = recorded::read_all(directory);
    assert_eq!(logs.len(), 1);
    logs.remove(0)
}

/// Returns the number of recorded calls, and of those reported as lost.
fn recorded_and_lost(recorded: &Recorded) -> (u64, u64) {
    // The creation of the communicator is a call too. If it is lost, it counts like any other.
    let calls = recorded.of_kind(RecordKind::Call).count() as u64;
    (calls - 1, recorded.lost(RecordKind::Call))
}

fn lost_by(recorded: &Recorded, cause: LossCause) -> u64 {
    let losses = recorded.log.losses.iter();
    losses
        .filter(|loss| loss.cause == cause && loss.kind == RecordKind::Call)
        .map(|loss| loss.count)
        .sum()
}

/// A file system of this size in memory. There is none if this user may not mount.
struct Mounted(TempDir);

impl Mounted {
    fn new(options: &str) -> Option<Mounted> {
        let mounted = Mounted(directory());
        if mounted.mount(&["-t", "tmpfs", "-o", options, "none"]) {
            Some(mounted)
        } else {
            skip("file systems of its own: not allowed to mount");
            None
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn mount(&self, arguments: &[&str]) -> bool {
        let mut command = Command::new("mount");
        command.args(arguments).arg(self.path());
        command.output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).output();
    }
}

/// Runs a counting program without end, and ends it when operations are lost to the disk. Returns its own count and its
/// log.
fn run_until_the_disk_fails(turn: &Turn, into: &Path, job: Job) -> (Finished, Recorded) {
    let job = job
        .env("RANKSCOPE_LIVE_MIB", "1")
        .env("RANKSCOPE_PARTIAL_MS", "1");
    let running = job.counted().record_into(into).start(turn);
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let logs = recorded::files(into);
        let opened = logs.first().and_then(|path| RankLog::open(path).ok());
        if opened.is_some_and(|log| log.losses.iter().any(|loss| loss.cause == LossCause::Disk)) {
            break;
        }
        assert!(Instant::now() < limit, "the disk does not fail");
        std::thread::sleep(Duration::from_millis(5));
    }
    running.rank(0).signal(libc::SIGTERM);
    let finished = running.wait();
    finished.expect_status(128 + libc::SIGTERM);
    assert_eq!(finished.ranks[0].complaints(), "");
    let log = only_log(into);
    (finished, log)
}

#[test]
fn a_full_disk() {
    let turn = turn::take();
    let (Some(program), Some(disk)) = (compile::gloo("gloo_counter.cc"), Mounted::new("size=64k")) else {
        return;
    };
    let job = Job::program(&program, 1);
    let (finished, log) = run_until_the_disk_fails(&turn, disk.path(), job);
    let reported = finished.counts[0];
    assert_eq!(log.log.ending, Ending::LiveArea);
    let (kept, lost) = recorded_and_lost(&log);
    assert!(
        (reported..=reported + 1).contains(&(kept + lost)),
        "{reported} {:?}",
        log.log.losses
    );
    assert!(kept > 0 && lost > 0);

    // The log cannot be completed there either. The error is reported, and the attempt loses nothing.
    let error = collect(&log.log.path);
    assert!(matches!(error, Err(CollectError::Write { .. })), "{error:?}");
    assert_eq!(only_log(disk.path()).records, log.records);
    // With more capacity it can be completed.
    assert!(disk.mount(&["-o", "remount,size=64m"]));
    assert_eq!(collect(&log.log.path).ok(), Some(Collected::Completed));
    let collected = only_log(disk.path());
    assert_eq!(recorded_and_lost(&collected), (kept, lost));
    assert_eq!(collected.log.ending, Ending::Closed);
}

#[test]
fn a_disk_with_less_than_the_minimum_free_space() {
    let turn = turn::take();
    let (Some(program), Some(disk)) = (compile::gloo("gloo_counter.cc"), Mounted::new("size=16m")) else {
        return;
    };
    // With the default limit on free space, which other tests disable.
    let job = || counting(&program).env("RANKSCOPE_MIN_FREE_MIB", "");
    let finished = compare(&turn, disk.path(), job);
    finished.expect_status(0);
    let log = only_log(disk.path());
    assert_eq!(log.of_kind(RecordKind::Call).count(), 0);
    // The creation of the communicator is lost too.
    assert_eq!(lost_by(&log, LossCause::Disk), MANY + 1, "{:?}", log.log.losses);
}

#[test]
fn a_log_that_has_reached_its_limit() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    let into = directory();
    let job = || counting(&program).env("RANKSCOPE_MAX_DISK_MIB", "0");
    let finished = compare(&turn, into.path(), job);
    finished.expect_status(0);
    let log = only_log(into.path());
    let lost = log.lost(RecordKind::Call);
    let kept = log.of_kind(RecordKind::Call).count() as u64;
    assert_eq!(kept + lost, MANY + 1, "{:?}", log.log.losses);
    assert!(lost_by(&log, LossCause::Disk) > 0);
}

#[test]
fn a_read_only_run_directory() {
    let turn = turn::take();
    let (Some(program), Some(disk)) = (compile::gloo("gloo_counter.cc"), Mounted::new("ro")) else {
        return;
    };
    for into in [
        disk.path().to_owned(),
        disk.path().join("made"),
        PathBuf::from("/proc/nothing"),
    ] {
        let finished = compare(&turn, &into, || counting(&program));
        finished.expect_status(0);
        let left = finished.live().read_dir().map_or(0, Iterator::count);
        assert_eq!(left, 0, "live areas of logs that do not exist");
    }
}

#[test]
fn no_place_for_a_live_area() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    // The live area is then memory of the process alone. It is lost at a kill, but complete at any regular end.
    for place in ["/proc", "/nowhere", "/dev/null"] {
        let into = directory();
        let finished = compare(&turn, into.path(), || {
            counting(&program)
                .env("RANKSCOPE_LIVE_DIR", place)
                .env("RANKSCOPE_EXIT_WAIT_MS", "20000")
        });
        finished.expect_status(0);
        let log = only_log(into.path());
        assert_eq!(log.log.properties["live_path"], "none");
        assert_eq!(log.log.ending, Ending::Closed);
        assert_eq!(recorded_and_lost(&log), (MANY, 0), "{place}");
    }
}

#[test]
fn a_tiny_dev_shm() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    if Mounted::new("size=64k").is_none() {
        return;
    }
    let into = directory();
    let finished = compare(&turn, into.path(), || {
        counting(&program).under(&[
            "unshare",
            "-m",
            "sh",
            "-c",
            "mount -t tmpfs -o size=64k none /dev/shm; unset RANKSCOPE_LIVE_DIR; exec \"$@\"",
            "sh",
        ])
    });
    finished.expect_status(0);
    let log = only_log(into.path());
    assert!(!log.log.properties["live_path"].starts_with("/dev/shm"));
    assert_eq!(recorded_and_lost(&log), (MANY, 0));
}

#[test]
fn a_limit_on_the_size_of_files() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    // In blocks of 512 bytes: a live area fits, the log only for a short time.
    let into = directory();
    let job = Job::program(&program, 1).under(&["sh", "-c", "ulimit -f 1024; exec \"$@\"", "sh"]);
    let (finished, log) = run_until_the_disk_fails(&turn, into.path(), job);
    let reported = finished.counts[0];
    let (kept, lost) = recorded_and_lost(&log);
    assert!(
        (reported..=reported + 1).contains(&(kept + lost)),
        "{reported} {:?}",
        log.log.losses
    );
    // With a limit of 0 nothing can be written.
    let into = directory();
    let finished = compare(&turn, into.path(), || {
        Job::program(&program, 1)
            .arg("1000")
            .counted()
            .under(&["sh", "-c", "ulimit -f 0; exec \"$@\"", "sh"])
    });
    assert!(recorded::files(into.path()).is_empty(), "{:?}", seen(&finished));
}

/// Returns the smallest limit under which the job ends normally without recording, by bisection.
fn smallest(turn: &Turn, mut low: u64, mut high: u64, job: impl Fn(u64) -> Job) -> u64 {
    while high - low > 1 {
        let middle = low.midpoint(high);
        if job(middle).run(turn).ranks[0].code() == 0 {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

#[test]
fn few_descriptors() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    let job = |limit: u64| {
        let script = format!("ulimit -n {limit}; exec \"$@\"");
        counting(&program).under(&["sh", "-c", &script, "sh"])
    };
    let least = smallest(&turn, 3, 64, job);
    // Recording works with no more descriptors than the program itself needs.
    let into = directory();
    let finished = compare(&turn, into.path(), || job(least));
    finished.expect_status(0);
    assert_eq!(
        recorded_and_lost(&only_log(into.path())),
        (MANY, 0),
        "ulimit -n {least}"
    );
}

#[test]
fn little_address_space() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    // The limit is in MiB.
    let job = |limit: u64| {
        let script = format!("ulimit -v {}; exec \"$@\"", limit * 1024);
        Job::program(&program, 1)
            .arg("1000")
            .counted()
            .under(&["sh", "-c", &script, "sh"])
    };
    let least = smallest(&turn, 4, 1024, job);
    // From capacity for the library's code alone to capacity for everything that it requests.
    for more in [7, 8, 12, 16, 24, 48, 96, 192] {
        let into = directory();
        let finished = job(least + more).record_into(into.path()).run(&turn);
        assert_eq!(
            finished.ranks[0].code(),
            0,
            "{least} + {more} MiB: {:?}",
            seen(&finished)
        );
        assert_eq!(finished.counts, [1000]);
        for log in recorded::read_all(into.path()) {
            // Memory may not even suffice to close the log. If the live area was memory of the process alone, the log
            // then reports that its end is missing.
            if log.log.ending == Ending::Torn {
                continue;
            }
            let (kept, lost) = recorded_and_lost(&log);
            assert_eq!(kept + lost, 1000, "{least} + {more} MiB");
        }
    }
}

#[test]
fn a_program_that_closes_all_descriptors() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_closefrom.cc") else {
        return;
    };
    let into = directory();
    let job = || Job::program(&program, 1).env("RANKSCOPE_PARTIAL_MS", "1");
    compare(&turn, into.path(), job).expect_status(0);
    assert_eq!(recorded_and_lost(&only_log(into.path())), (40_000, 0));
}

#[test]
fn a_program_that_waits_for_signals() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_sigwait.cc") else {
        return;
    };
    let into = directory();
    let finished = compare(&turn, into.path(), || Job::program(&program, 2));
    finished.expect_status(0);
    for log in recorded::read_ranks(into.path(), &finished.pids) {
        assert_eq!(recorded_and_lost(&log), (20, 0));
    }
}

#[test]
fn many_threads_at_once() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_threads.cc") else {
        return;
    };
    // First a thousand threads at once and a hundred thousand short ones, then more at once than there are lanes.
    for (alive, brief, live_mib) in [(1000, 100_000, "8"), (1000, 2000, "1")] {
        let into = directory();
        let finished = Job::program(&program, 1)
            .arg(alive.to_string())
            .arg(brief.to_string())
            .env("RANKSCOPE_LIVE_MIB", live_mib)
            .record_into(into.path())
            .run(&turn);
        finished.expect_status(0);
        assert_eq!(
            finished.ranks[0].text(),
            format!("{} operations\n", alive + brief)
        );
        let log = only_log(into.path());
        let (kept, lost) = recorded_and_lost(&log);
        assert_eq!(kept + lost, alive + brief, "{:?}", log.log.losses);
        let has_lanes = live_mib == "8";
        assert_eq!(
            lost_by(&log, LossCause::NoLane) == 0,
            has_lanes,
            "{:?}",
            log.log.losses
        );
        println!(
            "{kept} operations of {} kept, {lost} lost and counted",
            alive + brief
        );
    }
}

#[test]
fn a_storm_of_forks_leaves_the_parents_log_whole() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_fork.cc") else {
        return;
    };
    let into = directory();
    let finished = compare(&turn, into.path(), || Job::program(&program, 2).arg("fork-storm"));
    finished.expect_status(0);
    let mut by_process: BTreeMap<u32, Recorded> = BTreeMap::new();
    for log in recorded::read_all(into.path()) {
        assert!(
            by_process.insert(log.log.pid, log).is_none(),
            "two logs of one process"
        );
    }
    for pid in &finished.pids {
        let log = by_process.remove(pid).expect("a rank's log");
        assert_eq!((log.calls().count(), log.lost(RecordKind::Call)), (2, 0));
    }
    // Children end at once: their single operation is recorded, or lost while their recorder starts.
    assert!(by_process.len() <= 40);
    for log in by_process.values() {
        assert!(log.calls().count() as u64 + log.lost(RecordKind::Call) <= 1);
        // The property is missing if the child ended before its log recorded its identity.
        if let Some(parent) = log.log.properties.get("parent_pid") {
            assert!(finished.pids.iter().any(|pid| pid.to_string() == *parent));
        }
    }
}

#[test]
fn workers_that_are_forked_repeatedly() {
    let turn = turn::take();
    for_each_python(|python| {
        let into = directory();
        let finished = compare(&turn, into.path(), || Job::torch(python, "workers.py", 2));
        finished.expect_status(0);
        for (rank, log) in recorded::read_ranks(into.path(), &finished.pids)
            .iter()
            .enumerate()
        {
            log.expect_whole();
            let reported: Vec<(u8, u64)> = finished
                .truth(rank)
                .iter()
                .map(|line| (truth::operation(line) as u8, truth::number(line, "bytes")))
                .collect();
            let mut calls: Vec<_> = log.calls().collect();
            calls.sort_by_key(|call| call.tag);
            let got: Vec<(u8, u64)> = calls.iter().map(|call| (call.operation, call.bytes)).collect();
            assert_eq!(got, reported, "{} rank {rank}", python.name);
        }
    });
}

#[test]
fn every_way_out_keeps_all_operations() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_exit.cc") else {
        return;
    };
    for (how, status) in [
        ("return", 5),
        ("exit", 5),
        ("_exit", 5),
        ("quick_exit", 5),
        ("thread-exit", 5),
        ("exec", 5),
        ("abort", 128 + libc::SIGABRT),
        ("sigterm", 128 + libc::SIGTERM),
    ] {
        let into = directory();
        let finished = Job::program(&program, 2)
            .arg(how)
            .record_into(into.path())
            .run(&turn);
        finished.expect_status(status);
        let logs = recorded::read_all(into.path());
        // The program after exec has a separate log of the same process.
        let lives = if how == "exec" { 2 } else { 1 };
        for pid in &finished.pids {
            let mine: Vec<_> = logs.iter().filter(|log| log.log.pid == *pid).collect();
            assert_eq!(mine.len(), lives, "{how}");
            for log in mine {
                let mut sizes: Vec<u64> = log.calls().map(|call| call.bytes).collect();
                sizes.sort_unstable();
                assert_eq!(sizes, [400, 404, 408], "{how}");
                assert_eq!(log.lost(RecordKind::Call), 0, "{how}");
                let first = log.calls().next().expect("three");
                assert_eq!(first.operation, Operation::AllReduce as u8);
            }
        }
        assert_eq!(logs.len(), 2 * lives, "{how}");
    }
}
