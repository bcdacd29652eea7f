//! Flight mode: bounded memory, no record on disk, and the last part without a gap.

mod common;

use common::only_log;
use rankscope_ranklog::Operation;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::collect::copy;
use rankscope_ranklog::lanes::{Lane, LaneSet};
use rankscope_ranklog::reader::{Ending, RankLog};
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_ranklog::recorder::{FlightOptions, Options, Recorder};
use std::path::Path;
use std::time::Duration;

fn start(dir: &Path, live_bytes: u64, keep: Option<Duration>) -> &'static Recorder {
    let recorder: &'static Recorder = Box::leak(Box::new(Recorder::new()));
    let mut options = Options::new(dir.to_path_buf());
    options.live_bytes = live_bytes;
    options.flight = Some(FlightOptions { keep });
    std::thread::spawn(move || recorder.run(&options, |_| {}, |_| 0, || {}));
    recorder.wait_until_settled(Duration::from_secs(10));
    recorder
}

fn commit(set: &LaneSet, lane: &Lane, number: u64) {
    let now = ticks();
    let record = Record {
        operation: Operation::AllReduce as u8,
        enter_ticks: now,
        leave_ticks: now,
        bytes: number,
        ..Record::new(RecordKind::Call)
    };
    while !lane.commit(set, &record) {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Commits this many records.
fn commit_many(set: &'static LaneSet, count: u64) {
    let lane = set
        .acquire(42, *b"worker\0\0\0\0\0\0\0\0\0\0", ticks())
        .expect("a lane");
    for number in 0..count {
        commit(set, lane, number);
    }
}

/// Checks that the log has all records of the lane from some number to the last one, and returns how many.
fn check_tail(log: &RankLog, last: u64) -> u64 {
    let from = log.flight_from_ticks.expect("flight mode");
    let (records, _, problems) = log.all_records();
    assert_eq!(problems, vec![]);
    let calls = records
        .iter()
        .filter(|held| held.record.kind == RecordKind::Call as u8);
    let kept: Vec<u64> = calls
        .filter(|held| held.record.leave_ticks >= from)
        .map(|held| held.record.bytes)
        .collect();
    let first = *kept.first().expect("records");
    assert!(
        kept.iter().copied().eq(first..=last),
        "{first} to {:?} of {last}",
        kept.last()
    );
    kept.len() as u64
}

#[test]
fn the_last_part_is_whole_and_nothing_else_is_on_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let recorder = start(dir.path(), 1 << 20, None);
    commit_many(recorder.lanes().expect("recording"), 200_000);
    // The recorder's thread may still have chunks to drop.
    std::thread::sleep(Duration::from_millis(200));
    let path = only_log(dir.path());
    let log = RankLog::open(&path).expect("a log");
    assert_eq!((log.ending, log.problems.len()), (Ending::Running, 0));
    assert!(log.flight_from_ticks > Some(0), "records were dropped");
    let kept = check_tail(&log, 199_999);
    // A megabyte has about a hundred chunks of 127 records, of which at least half are kept.
    assert!((5_000..20_000).contains(&kept), "{kept}");
    let on_disk = std::fs::metadata(&path).expect("a file").len();
    assert!(on_disk < 16 << 10, "names and identities: {on_disk} bytes");

    // A copy of the running process is a whole log. Collecting it leaves the live area to its process.
    let other = tempfile::tempdir().expect("a directory");
    let copied = copy(&path, other.path())
        .expect("copied")
        .expect("its memory is here");
    let copied_log = RankLog::open(&copied).expect("a log");
    assert_eq!((copied_log.ending, copied_log.was_copied), (Ending::Closed, true));
    assert_eq!(check_tail(&copied_log, 199_999), kept);
    rankscope_ranklog::collect::collect(&copied).expect("nothing to do");
    assert!(Path::new(&log.properties["live_path"]).exists());

    recorder.finish(Duration::from_secs(10));
    let closed = RankLog::open(&path).expect("a log");
    assert_eq!((closed.ending, closed.was_copied), (Ending::Closed, false));
    assert_eq!(check_tail(&closed, 199_999), kept);
    assert!(closed.calibrations.len() >= 2);
    assert!(!Path::new(&log.properties["live_path"]).exists());
}

#[test]
fn records_older_than_the_time_are_dropped_although_there_is_room() {
    let dir = tempfile::tempdir().expect("a directory");
    let recorder = start(dir.path(), 4 << 20, Some(Duration::from_secs(1)));
    let set = recorder.lanes().expect("recording");
    let lane = set.acquire(42, [0; 16], ticks()).expect("a lane");
    for number in 0..3_000 {
        commit(set, lane, number);
        std::thread::sleep(Duration::from_millis(1));
    }
    recorder.finish(Duration::from_secs(10));
    let log = RankLog::open(&only_log(dir.path())).expect("a log");
    let kept = check_tail(&log, 2_999);
    assert!(kept < 1_500, "{kept} records of one second");
}

#[test]
fn a_job_that_stops_keeps_what_preceded_the_stop() {
    let dir = tempfile::tempdir().expect("a directory");
    let recorder = start(dir.path(), 4 << 20, Some(Duration::from_secs(1)));
    commit_many(recorder.lanes().expect("recording"), 2_000);
    std::thread::sleep(Duration::from_millis(2_500));
    recorder.finish(Duration::from_secs(10));
    let log = RankLog::open(&only_log(dir.path())).expect("a log");
    assert_eq!(check_tail(&log, 1_999), 2_000);
}

#[test]
fn a_short_run_is_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let recorder = start(dir.path(), 1 << 20, None);
    commit_many(recorder.lanes().expect("recording"), 500);
    recorder.finish(Duration::from_secs(10));
    let log = RankLog::open(&only_log(dir.path())).expect("a log");
    assert_eq!(log.flight_from_ticks, Some(0));
    assert_eq!(check_tail(&log, 499), 500);
}

/// Resident memory of this process, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("a line");
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok())
        .expect("a number")
}

/// Prints memory and bytes on disk after each tenth of a billion records.
#[test]
#[ignore = "minutes: cargo test --release -p rankscope-ranklog --test flight -- --ignored --nocapture"]
fn a_billion_records_take_flat_memory_and_no_disk() {
    const TENTH: u64 = 100_000_000;
    let dir = tempfile::tempdir().expect("a directory");
    let recorder = start(dir.path(), 64 << 20, None);
    let set = recorder.lanes().expect("recording");
    let lane = set.acquire(42, [0; 16], ticks()).expect("a lane");
    let path = only_log(dir.path());
    let on_disk = || std::fs::metadata(&path).expect("a file").len();
    let mut found = Vec::new();
    for tenth in 0..10 {
        for number in 0..TENTH {
            commit(set, lane, tenth * TENTH + number);
        }
        found.push((resident_kib(), on_disk()));
        println!(
            "{} records: {:?} KiB resident, bytes on disk",
            (tenth + 1) * TENTH,
            found.last()
        );
    }
    let lost: u64 = set.area.losses().iter().map(|loss| loss.count).sum();
    let log = RankLog::open(&path).expect("a log");
    let kept = check_tail(&log, 10 * TENTH - 1);
    println!("the last {kept} records are whole; {lost} attempts found no free chunk and were repeated");
    let (first, last) = (found[0], found[9]);
    assert!(last.0 < first.0 + 4096 && last.1 == first.1, "{found:?}");
}
