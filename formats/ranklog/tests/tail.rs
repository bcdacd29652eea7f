//! Tests that the last part of a log is read exactly as in the whole log: the same records in the same order, wherever
//! it starts.

mod common;

use common::only_log;
use rankscope_ranklog::clock::Counter;
use rankscope_ranklog::lanes::LaneSet;
use rankscope_ranklog::log_index::LogIndex;
use rankscope_ranklog::mark::{MarkKind, SYSTEM_COUNTER};
use rankscope_ranklog::reader::{RankLog, ThreadRecord};
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_ranklog::recorder::{Options, Recorder};
use rankscope_ranklog::writer::LogWriter;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

fn left_at(leave_ticks: u64, tag: u32) -> Record {
    Record {
        enter_ticks: leave_ticks - 5,
        leave_ticks,
        tag,
        ..Record::new(RecordKind::Call)
    }
}

/// Writes ten frames of two lanes. Some records are left after the watermark of their frame, and one arrives a frame
/// late.
fn write(path: &Path) {
    let file = File::create(path).expect("a log");
    let mut log = LogWriter::new(file, Counter::MonotonicRaw, 7, 9).expect("a header");
    let mut tag = 0;
    for frame in 0..10u64 {
        let watermark = 1000 * (frame + 1);
        let mut lane = |offset: u64| -> Vec<Record> {
            let times = (0..20).map(|number| watermark - 1000 + 51 * number + offset);
            times
                .map(|at| {
                    tag += 1;
                    left_at(at + 40, tag)
                })
                .collect()
        };
        let (one, mut other) = (lane(0), lane(7));
        if frame == 6 {
            other[0] = left_at(5_990, 9999);
        }
        log.records(&[(0, 100, &one), (1, 101, &other)]).expect("records");
        log.watermark(watermark).expect("a watermark");
    }
    log.end().expect("an end");
}

fn tags(records: &[ThreadRecord]) -> Vec<(u32, u32)> {
    records
        .iter()
        .map(|entry| (entry.lane, entry.record.tag))
        .collect()
}

#[test]
fn a_part_is_the_end_of_the_whole_wherever_it_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("one.rslog");
    write(&path);
    let whole = RankLog::open(&path).expect("a log");
    let (all, ..) = whole.all_records();
    assert_eq!(all.len(), 400);
    let (boundaries, count) = whole.boundaries(u64::MAX);
    assert_eq!(count, Some(400));
    let ticks: Vec<u64> = boundaries.iter().map(|boundary| boundary.ticks).collect();
    assert_eq!(
        ticks,
        (1..=10).rev().map(|frame| frame * 1000).collect::<Vec<_>>()
    );
    let records: Vec<u64> = boundaries.iter().map(|boundary| boundary.records).collect();
    assert_eq!(records, (0..10).map(|frame| frame * 40).collect::<Vec<_>>());
    for at in (0..11_000).step_by(125) {
        let mut log = RankLog::open(&path).expect("a log");
        log.begin_at(at);
        let (part, _, problems) = log.all_records();
        assert!(problems.is_empty());
        let is_in = |entry: &&ThreadRecord| entry.record.leave_ticks >= at;
        let expected: Vec<ThreadRecord> = all.iter().filter(is_in).copied().collect();
        assert_eq!(tags(&part), tags(&expected), "from {at}");
    }
    for at in (0..11_000).step_by(125) {
        for from in [0, 2_600] {
            let mut log = RankLog::open(&path).expect("a log");
            log.begin_at(from);
            log.end_at(at);
            let (part, _, problems) = log.all_records();
            assert!(problems.is_empty());
            let is_in = |entry: &&ThreadRecord| (from..at).contains(&entry.record.leave_ticks);
            let expected: Vec<ThreadRecord> = all.iter().filter(is_in).copied().collect();
            assert_eq!(tags(&part), tags(&expected), "from {from} until {at}");
            assert_eq!(log.ends_early(), at <= 10_009, "until {at}");
            assert_eq!(log.is_whole_until(at), at <= 9000, "until {at}");
            assert_eq!(log.reads_offset(40), from == 0);
            assert_eq!(log.reads_offset(log.segment_bytes - 1), at > 9000, "until {at}");
        }
    }
    for at in (0..11_000).step_by(125) {
        let mut full = RankLog::open(&path).expect("a log");
        let index = full.index_from(at);
        let mut log = RankLog::open_with(&path, &index).expect("a log");
        assert_eq!(log.index_from(at), index);
        assert_eq!((log.ending, &log.problems), (full.ending, &full.problems));
        for log in [&mut full, &mut log] {
            log.begin_at(at);
        }
        assert_eq!(
            tags(&log.all_records().0),
            tags(&full.all_records().0),
            "from {at}"
        );
        for until in (at..11_000).step_by(1_750) {
            let index = whole.index_between(at, until);
            let mut log = RankLog::open_with(&path, &index).expect("a log");
            assert_eq!((log.ending, log.segment_bytes), (full.ending, full.segment_bytes));
            for log in [&mut full, &mut log] {
                log.begin_at(at);
                log.end_at(until);
            }
            assert_eq!(log.ends_early(), full.ends_early(), "from {at} until {until}");
            let read = tags(&log.all_records().0);
            assert_eq!(read, tags(&full.all_records().0), "from {at} until {until}");
        }
    }
    // Frames before the limit are not counted.
    let (few, count) = whole.boundaries(100);
    assert_eq!((few.len(), count), (4, None), "{few:?}");
}

#[test]
fn skipped_frames_are_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("one.rslog");
    write(&path);
    let mut bytes = fs::read(&path).expect("a log");
    // Damages the payload of the first frame, so that unpacking it would be noticed.
    bytes[32 + 24 + 30] ^= 1;
    fs::write(&path, &bytes).expect("written");
    let mut log = RankLog::open(&path).expect("a log");
    assert_eq!(log.all_records().2.len(), 1);
    log.begin_at(3000);
    assert_eq!(log.all_records().2, Vec::new());
    // With an index, they are not even looked at.
    let index = log.index_from(3000);
    let sound = bytes.clone();
    bytes[32..64].fill(0);
    fs::write(&path, &bytes).expect("written");
    assert!(!RankLog::open(&path).expect("a log").problems.is_empty());
    let mut log = RankLog::open_with(&path, &index).expect("a log");
    log.begin_at(3000);
    assert_eq!((log.problems.len(), log.all_records().2), (0, Vec::new()));
    // An index of another process is ignored.
    let other = LogIndex { nonce: 1, ..index };
    let log = RankLog::open_with(&path, &other).expect("a log");
    assert!(!log.problems.is_empty());
    bytes = sound;
    // Nor are frames after the end.
    bytes[32 + 24 + 30] ^= 1;
    let last = bytes.len() - 100;
    bytes[last] ^= 1;
    fs::write(&path, &bytes).expect("written");
    let mut log = RankLog::open(&path).expect("a log");
    assert_eq!(log.all_records().2.len(), 1);
    log.end_at(8000);
    assert_eq!(log.all_records().2, Vec::new());
}

/// A stuck process keeps writing watermarks. An imported log ends with the watermark that means "nothing follows".
#[test]
fn a_log_ends_with_its_last_record() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("one.rslog");
    for last in [90_000, u64::MAX] {
        let file = File::create(&path).expect("a log");
        let mut log = LogWriter::new(file, Counter::MonotonicRaw, 7, 9).expect("a header");
        for watermark in [1000, 2000, 3000] {
            log.records(&[(0, 100, &[left_at(watermark - 10, 1)])])
                .expect("records");
            log.watermark(watermark).expect("a watermark");
        }
        for watermark in [50_000, last] {
            log.watermark(watermark).expect("a watermark");
        }
        log.end().expect("an end");
        assert_eq!(RankLog::open(&path).expect("a log").tail(0).end_ticks, Some(2990));
    }
}

/// Starts a recorder that writes into a directory.
fn recorder(directory: &Path, live_bytes: u64, partial_flush: Duration) -> &'static Recorder {
    let recorder: &'static Recorder = Box::leak(Box::new(Recorder::new()));
    let options = Options {
        live_dir: Some(directory.to_path_buf()),
        live_bytes,
        min_free_bytes: Some(0),
        partial_flush,
        ..Options::new(directory.to_path_buf())
    };
    std::thread::spawn(move || recorder.run(&options, |_: &LaneSet| {}, |_| 0, || {}));
    recorder.wait_until_settled(Duration::from_secs(10));
    recorder
}

/// Log of a running process: records of skipped frames that are still in the live area are not returned a second time.
#[test]
fn records_that_are_in_both_files_are_read_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let recorder = recorder(folder.path(), 1 << 20, Duration::from_millis(20));
    let set = recorder.lanes().expect("a recorder");
    let [idle, busy] = [1, 2].map(|thread| set.acquire(thread, [0; 16], 1).expect("a lane"));
    let commit = |lane: &'static rankscope_ranklog::lanes::Lane, tag: u32| {
        let now = rankscope_ranklog::clock::ticks();
        while !lane.commit(set, &left_at(now, tag)) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // A lane that wrote a few records long ago. It keeps its chunk, and the records stay in it.
    (0..20).for_each(|tag| commit(idle, tag));
    let started = std::time::Instant::now();
    for tag in 100.. {
        commit(busy, tag);
        let opened = RankLog::open(&only_log(folder.path())).expect("a log");
        if opened.boundaries(u64::MAX).0.len() > 8 {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "no watermarks");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut part = RankLog::open(&only_log(folder.path())).expect("a log");
    let boundary = part.boundaries(u64::MAX).0[2];
    let whole = RankLog::open(&only_log(folder.path()))
        .expect("a log")
        .all_records()
        .0;
    part.begin_at(boundary.ticks);
    let last = part.all_records().0;
    assert!(!last.is_empty() && last.len() < whole.len());
    assert!(last.iter().all(|entry| entry.record.tag >= 100), "{last:?}");
    // A record that was left exactly at the tick is included. Live areas contain exact ticks, segments do not.
    let from = whole.len() - last.len();
    assert_eq!(tags(&last), tags(&whole[from..]));
    recorder.finish(Duration::from_secs(10));
}

/// Number of records of a log that were left at a tick or later.
fn left_since(log: &RankLog, ticks: u64) -> u64 {
    let (records, ..) = log.all_records();
    records
        .iter()
        .filter(|entry| entry.record.leave_ticks >= ticks)
        .count() as u64
}

/// A process writes its first watermark after seconds. Until then the records show where a part can start: those of the
/// live area, and those of full chunks that are in segments already. An idle thread keeps an old record in the live
/// area.
#[test]
fn a_log_without_watermarks_has_boundaries() {
    for (live_bytes, records) in [(32 << 20, 1000), (1 << 20, 50_000)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let recorder = recorder(folder.path(), live_bytes, Duration::from_secs(600));
        let set = recorder.lanes().expect("a recorder");
        let [idle, busy] = [1, 2].map(|thread| set.acquire(thread, [0; 16], 1).expect("a lane"));
        // Segments round ticks, so the records are farther apart.
        let record = |number: u32| left_at((1 + u64::from(number)) << 20, number);
        assert!(idle.commit(set, &record(0)));
        for number in 1..records {
            while !busy.commit(set, &record(number)) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let path = only_log(folder.path());
        let log = RankLog::open(&path).expect("a log");
        let (watermarks, all) = log.boundaries(100);
        assert_eq!(watermarks, []);
        assert!(all.is_some_and(|all| all >= u64::from(records)), "{all:?}");
        let boundaries = log.tail(0).boundaries;
        assert!((100..=256).contains(&boundaries.len()), "{}", boundaries.len());
        assert_eq!(
            boundaries.last().map(|last| last.records),
            Some(u64::from(records))
        );
        for boundary in boundaries.iter().step_by(16) {
            assert_eq!(boundary.records, left_since(&log, boundary.ticks), "{boundary:?}");
        }
        let boundary = boundaries[boundaries.len() / 2];
        let mut part = RankLog::open(&path).expect("a log");
        part.begin_at(boundary.ticks);
        assert_eq!(part.all_records().0.len() as u64, boundary.records);
        recorder.finish(Duration::from_secs(10));
    }
}

/// Tests that samples of the recorder do not move the end of a stuck run.
#[test]
fn the_end_is_that_of_the_job_and_not_of_the_samples_after_it() {
    for stuck_frames in [0, 1, 2, 7, 100] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stuck.rslog");
        let file = File::create(&path).expect("a log");
        let mut log = LogWriter::new(file, Counter::MonotonicRaw, 7, 9).expect("a header");
        let sample = |at: u64| Record {
            kind: RecordKind::Mark as u8,
            operation: MarkKind::Counter as u8,
            ..left_at(at, SYSTEM_COUNTER)
        };
        for frame in 0..3u64 {
            let calls: Vec<Record> = (1..=20)
                .map(|call| left_at(1000 * frame + 40 * call, 0))
                .collect();
            log.records(&[(0, 100, &calls), (1, 101, &[sample(1000 * frame + 900)])])
                .expect("records");
            log.watermark(1000 * (frame + 1)).expect("a watermark");
        }
        for frame in 3..3 + stuck_frames {
            let samples: Vec<Record> = (1..=10)
                .map(|number| sample(1000 * frame + 90 * number))
                .collect();
            log.records(&[(1, 101, &samples)]).expect("records");
            log.watermark(1000 * (frame + 1)).expect("a watermark");
        }
        log.end().expect("an end");
        let log = RankLog::open(&path).expect("a log");
        assert_eq!(log.tail(0).end_ticks, Some(2800), "{stuck_frames} frames");
        for least in [1, 20, 41, 60] {
            let boundaries = log.tail(least).boundaries;
            let found = boundaries.last().map_or(0, |first| first.records);
            assert!(found >= least as u64, "{stuck_frames} frames: {found} of {least}");
        }
        let all = log.tail(1000).boundaries;
        assert_eq!(
            all.last().map(|first| first.records),
            Some(60),
            "samples do not count"
        );
    }
}
