//! Tests of the life of a log from its first record until it is read. The real recorder writes it; then it is closed,
//! killed, torn or damaged.

mod common;

use common::only_log;
use rankscope_ranklog::collect::{Collected, collect};
use rankscope_ranklog::definition::{IdentitySource, KIND_COMMUNICATOR, Payload};
use rankscope_ranklog::lanes::LaneSet;
use rankscope_ranklog::reader::{Ending, RankLog};
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_ranklog::recorder::{Options, Recorder};
use rankscope_ranklog::{Library, Operation};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn define_nothing(_: &LaneSet) {}

/// Starts a separate recorder on a thread. It is never freed, as in a real process.
fn start(dir: &Path) -> &'static Recorder {
    let recorder: &'static Recorder = Box::leak(Box::new(Recorder::new()));
    let mut options = Options::new(dir.to_path_buf());
    options.live_bytes = 1 << 20;
    options.min_free_bytes = Some(0);
    std::thread::spawn(move || recorder.run(&options, define_nothing, |_| 0, || {}));
    recorder.wait_until_settled(Duration::from_secs(10));
    recorder
}

fn call(n: u64) -> Record {
    Record {
        operation: Operation::AllReduce as u8,
        enter_ticks: 1000 + 10 * n,
        leave_ticks: 1005 + 10 * n,
        bytes: 4096,
        communicator: 0,
        tag: n as u32,
        ..Record::new(RecordKind::Call)
    }
}

fn write_some(set: &'static LaneSet, count: u64) {
    let payload = Payload::communicator(
        0,
        Library::Gloo,
        IdentitySource::KeyAndBlob,
        0,
        2,
        [7; 16],
        1,
        u32::MAX,
        b"store/0",
    );
    assert!(set.area.define(KIND_COMMUNICATOR, payload.as_bytes()));
    let lane = set
        .acquire(42, *b"worker\0\0\0\0\0\0\0\0\0\0", 1)
        .expect("a lane");
    for n in 0..count {
        while !lane.commit(set, &call(n)) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn tags(log: &RankLog) -> Vec<u32> {
    let (records, threads, problems) = log.all_records();
    assert_eq!(problems, vec![]);
    for held in &records {
        assert_eq!(
            (
                threads[held.thread as usize].id,
                threads[held.thread as usize].name.as_str()
            ),
            (42, "worker")
        );
    }
    records.iter().map(|held| held.record.tag).collect()
}

#[test]
fn a_closed_log_holds_everything_and_leaves_no_live_area() {
    let dir = tempfile::tempdir().expect("a directory");
    let recorder = start(dir.path());
    // Far more records than the live area can hold: chunks are recycled many times.
    write_some(recorder.lanes().expect("recording"), 100_000);
    recorder.finish(Duration::from_secs(10));
    let log = RankLog::open(&only_log(dir.path())).expect("a log");
    assert_eq!(log.ending, Ending::Closed);
    assert_eq!(log.problems, vec![]);
    let lost: u64 = log.losses.iter().map(|loss| loss.count).sum();
    let seen = tags(&log);
    assert_eq!(seen, (0..100_000).collect::<Vec<u32>>());
    // The writer above retries, so every loss is a counted attempt. No other losses may occur.
    assert!(
        log.losses.iter().all(|loss| loss.cause.name() == "no-chunk"),
        "{lost}"
    );
    assert_eq!(log.communicators[&0].name, "store/0");
    assert!(log.properties.contains_key("boot_id"));
    assert!(log.calibrations.len() >= 2);
    assert!(!Path::new(&log.properties["live_path"]).exists());
}

#[test]
fn a_live_area_completes_a_log_and_is_read_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let recorder = start(dir.path());
    let set = recorder.lanes().expect("recording");
    write_some(set, 5_000);
    let lane = set.acquire(43, [0; 16], 1).expect("a lane");
    lane.enter(set, &call(77));
    // The recorder continues in this process. For the log it is as if the process had been killed here.
    let path = only_log(dir.path());
    let running = RankLog::open(&path).expect("a log");
    assert_eq!(running.ending, Ending::Running);
    assert_eq!(tags(&running), (0..5_000).collect::<Vec<u32>>());
    assert_eq!(running.in_flight.len(), 1);
    assert_eq!(running.in_flight[0].record.tag, 77);
    assert_eq!(collect(&path).expect("readable"), Collected::StillRunning);

    // Copies of both files as a dead process would have left them, with a start time that is not this process's.
    let live = PathBuf::from(&running.properties["live_path"]);
    let copy = dir.path().join("copy");
    std::fs::create_dir(&copy).expect("a directory");
    let (copied_log, copied_live) = (copy.join("a.rslog"), copy.join("a.rslive"));
    // The live area is copied first: chunks that are recycled in between are in segments when the segments are copied.
    std::fs::copy(&live, &copied_live).expect("copied");
    std::fs::copy(&path, &copied_log).expect("copied");
    let dead = RankLog::open_with_live(&copied_log, Some(&copied_live)).expect("a log");
    assert_eq!(dead.ending, Ending::LiveArea);
    assert_eq!(tags(&dead), (0..5_000).collect::<Vec<u32>>());
    recorder.finish(Duration::from_secs(10));
    assert_eq!(
        tags(&RankLog::open(&path).expect("a log")),
        (0..5_000).collect::<Vec<u32>>()
    );
}

#[test]
fn a_log_cut_at_any_byte_gives_a_prefix_and_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let recorder = start(dir.path());
    write_some(recorder.lanes().expect("recording"), 300);
    recorder.finish(Duration::from_secs(10));
    let path = only_log(dir.path());
    let bytes = std::fs::read(&path).expect("the log");
    let whole = tags(&RankLog::open(&path).expect("a log"));
    let cut = dir.path().join("cut.rslog");
    for end in 0..bytes.len() {
        std::fs::write(&cut, &bytes[..end]).expect("written");
        match RankLog::open_with_live(&cut, None) {
            Err(error) => assert!(end < 32, "refused at {end}: {error}"),
            Ok(log) => {
                let (records, _, problems) = log.all_records();
                assert_eq!(problems, vec![]);
                let seen: Vec<u32> = records.iter().map(|held| held.record.tag).collect();
                assert_eq!(seen, whole[..seen.len()]);
                assert_eq!(log.ending, Ending::Torn);
            }
        }
    }
}

#[test]
fn any_flipped_byte_is_noticed_or_harmless() {
    let dir = tempfile::tempdir().expect("a directory");
    let recorder = start(dir.path());
    write_some(recorder.lanes().expect("recording"), 300);
    recorder.finish(Duration::from_secs(10));
    let path = only_log(dir.path());
    let bytes = std::fs::read(&path).expect("the log");
    let whole = tags(&RankLog::open(&path).expect("a log"));
    let bad = dir.path().join("bad.rslog");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        std::fs::write(&bad, &damaged).expect("written");
        let Ok(log) = RankLog::open_with_live(&bad, None) else {
            assert!(at < 32);
            continue;
        };
        let (records, _, problems) = log.all_records();
        let seen: Vec<u32> = records.iter().map(|held| held.record.tag).collect();
        assert!(seen.iter().all(|tag| whole.contains(tag)));
        assert!(
            !log.problems.is_empty() || !problems.is_empty(),
            "byte {at} of {} went unnoticed",
            bytes.len()
        );
    }
}

#[test]
fn a_call_in_progress_of_a_running_process_is_never_a_mixture_of_two_calls() {
    let dir = tempfile::tempdir().expect("a directory");
    let recorder = start(dir.path());
    let set = recorder.lanes().expect("recording");
    write_some(set, 1);
    let log = only_log(dir.path());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lane = set.acquire(43, [0; 16], 1).expect("a lane");
            for n in 1.. {
                let call = Record {
                    enter_ticks: n,
                    bytes: n,
                    object: n,
                    aux: n,
                    ..Record::new(RecordKind::Call)
                };
                lane.enter(set, &call);
                // Some calls last for several copies, and most change during a copy.
                for _ in 0..if n % 1_000 == 0 { 20_000 } else { 0 } {
                    std::hint::spin_loop();
                }
                lane.leave(set);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut seen = Vec::new();
        for _ in 0..3_000 {
            let opened = RankLog::open(&log).expect("a log");
            seen.extend(opened.in_flight.iter().map(|call| call.record));
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(seen.len() > 20, "{}", seen.len());
        for call in &seen {
            let n = call.enter_ticks;
            assert_eq!((call.bytes, call.object, call.aux), (n, n, n));
        }
        assert!(seen.is_sorted_by_key(|call| call.enter_ticks));
    });
    recorder.finish(Duration::from_secs(10));
}

/// Nobody writes records that are accepted after the end.
#[test]
fn a_pause_ends_with_resume_and_the_end_does_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let recorder = start(dir.path());
    recorder.pause();
    assert!(recorder.lanes().is_none());
    recorder.resume();
    assert!(recorder.lanes().is_some());
    recorder.finish(Duration::from_secs(10));
    recorder.resume();
    assert!(recorder.lanes().is_none());
    recorder.pause();
    recorder.resume();
    assert!(recorder.lanes().is_none());
}
