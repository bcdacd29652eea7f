//! A log that is read while its process records: the records of a lane have no gap.

mod common;

use common::only_log;
use rankscope_ranklog::Operation;
use rankscope_ranklog::clock::ticks;
use rankscope_ranklog::reader::{Ending, RankLog};
use rankscope_ranklog::record::{Record, RecordKind};
use rankscope_ranklog::recorder::{Options, Recorder};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Ends the writer, also when the reader panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn records_that_are_read_while_others_are_written_have_no_gap() {
    let folder = tempfile::tempdir().expect("a folder");
    let recorder: &'static Recorder = Box::leak(Box::new(Recorder::new()));
    let mut options = Options::new(folder.path().to_path_buf());
    options.live_bytes = 8 << 20;
    // The test records also on a disk that is nearly full.
    options.min_free_bytes = Some(0);
    std::thread::spawn(move || recorder.run(&options, |_| {}, |_| 0, || {}));
    recorder.wait_until_settled(Duration::from_secs(10));
    let set = recorder.lanes().expect("it records");
    let path = only_log(folder.path());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lane = set
                .acquire(42, *b"worker\0\0\0\0\0\0\0\0\0\0", ticks())
                .expect("a lane");
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                let now = ticks();
                let record = Record {
                    operation: Operation::AllReduce as u8,
                    enter_ticks: now,
                    leave_ticks: now,
                    bytes: number,
                    ..Record::new(RecordKind::Call)
                };
                // A full area drops records. The number is not used up then.
                number += u64::from(lane.commit(set, &record));
            }
        });
        let _stop = StopOnDrop(&stop);
        let begun = Instant::now();
        let mut longest = 0;
        // On a busy machine the writer may start late, and one read may take seconds.
        while begun.elapsed() < Duration::from_secs(2)
            || longest <= 1_000 && begun.elapsed() < Duration::from_secs(60)
        {
            let log = RankLog::open(&path).expect("a log");
            assert_eq!(log.ending, Ending::Running);
            let (records, _, _) = log.all_records();
            let numbers = records
                .iter()
                .filter(|entry| entry.record.kind == RecordKind::Call as u8)
                .map(|entry| entry.record.bytes);
            let mut count = 0;
            for number in numbers {
                assert_eq!(number, count, "a gap or a record too many");
                count += 1;
            }
            longest = longest.max(count);
        }
        assert!(longest > 1_000, "{longest} records");
    });
}
