//! Tests that a killed process loses no recorded operation.
//!
//! Every operation that it reported as completed is read back once, from segments and live area, for a kill at any
//! time. `RANKSCOPE_TEST_SEED` repeats a run: a failing test prints its seed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rankscope_ranklog::collect::{Collected, collect};
use rankscope_ranklog::reader::{Ending, OpenError, RankLog, ThreadRecord};
use rankscope_ranklog::record::{FLAG_FAILED, Record, RecordKind};
use rankscope_tests::job::{Finished, Job, Running};
use rankscope_tests::python::Python;
use rankscope_tests::recorded::{self, Recorded};
use rankscope_tests::turn::{self, Turn};
use rankscope_tests::{artefacts, compile, counter};

/// A small generator of random numbers (splitmix64), created from its seed.
struct Chance(u64);

impl Chance {
    fn new() -> Chance {
        let seed = match std::env::var("RANKSCOPE_TEST_SEED") {
            Ok(seed) => seed.parse().expect("RANKSCOPE_TEST_SEED is a number"),
            Err(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |now| now.as_nanos() as u64),
        };
        println!("RANKSCOPE_TEST_SEED={seed}");
        Chance(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }
}

/// Results of reading, over all kills of a test.
#[derive(Debug)]
struct Tally {
    kills: u64,
    operations: u64,
    lost_and_counted: u64,
    logs: u64,
    /// Kills before a log existed.
    without: u64,
    /// Kills in the middle of a write to the segment file.
    torn: u64,
}

impl Tally {
    const fn new() -> Tally {
        Tally {
            kills: 0,
            operations: 0,
            lost_and_counted: 0,
            logs: 0,
            without: 0,
            torn: 0,
        }
    }
}

/// Returns the log of a killed process. There is none if it was killed before it created one: then it has reported
/// nothing either.
fn log_of(directory: &Path, pid: u32, reported: u64) -> Option<PathBuf> {
    let logs: Vec<PathBuf> = recorded::files(directory)
        .into_iter()
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.contains(&format!("-{pid}-"))
        })
        .collect();
    assert!(logs.len() <= 1, "{logs:?}");
    let parses = |path: &PathBuf| !matches!(RankLog::open(path), Err(OpenError::Header { .. }));
    let log = logs.into_iter().next().filter(parses);
    if log.is_none() {
        assert_eq!(
            reported, 0,
            "process {pid} reported of operations, and left no log"
        );
    }
    log
}

/// Returns the numbers of the operations that a counting program completed, in ascending order. The number is the n-th
/// use of its single tag. For c10d, which assigns a separate tag to each operation, it is the tag.
fn completed(recorded: &Recorded) -> Vec<u64> {
    let mut numbers: Vec<u64> = recorded
        .calls()
        .filter(|call| call.flags & FLAG_FAILED == 0)
        .map(|call| {
            assert_eq!(call.bytes, 256, "{call:?}");
            assert!(call.enter_ticks <= call.leave_ticks, "{call:?}");
            u64::from(call.sequence.max(call.tag))
        })
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Asserts that every operation occurs once. Their number is the reported one, or one more that was not yet reported.
fn expect_kept(recorded: &Recorded, reported: u64, tally: &mut Tally) {
    for problem in &recorded.problems {
        // The kill came in the middle of a write. The data being written is still in the live area.
        let is_torn = problem.contains("the last frame is cut short")
            || problem.contains("expected a frame") && problem.contains("all before it was kept");
        assert!(is_torn, "{problem}");
        tally.torn += 1;
    }
    let path = recorded.log.path.display();
    let numbers = completed(recorded);
    let twice = numbers.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "{path}: an operation twice");
    let lost = recorded.lost(RecordKind::Call);
    let kept = numbers.len() as u64;
    assert!(
        (reported..=reported + 1).contains(&(kept + lost)),
        "{path}: {reported} reported, {kept} read back, {lost} lost and counted, {:?}",
        recorded.log.losses
    );
    if lost == 0 {
        let wrong = numbers
            .iter()
            .zip(0..)
            .find(|(number, expected)| **number != *expected);
        assert_eq!(wrong, None, "{path}: a gap");
    }
    tally.operations += kept;
    tally.lost_and_counted += lost;
    tally.logs += 1;
}

/// Returns the records in a canonical order. Lane and position identify a record.
fn sorted(recorded: &Recorded) -> Vec<(u32, [u64; 8])> {
    let key = |held: &ThreadRecord| (held.lane, Record::to_words(&held.record));
    let mut all: Vec<_> = recorded.records.iter().map(key).collect();
    all.sort_unstable();
    all
}

/// Asserts that collecting completes the log: the same records, no problems, no live area. A second collection changes
/// nothing.
fn expect_collected(path: &Path, before: &Recorded) {
    let done = collect(path).unwrap_or_else(|error| panic!("{error}"));
    let expected = match before.log.ending {
        Ending::Closed => Collected::Nothing,
        Ending::LiveArea => Collected::Completed,
        Ending::Torn => Collected::Missing,
        Ending::Running => Collected::StillRunning,
    };
    assert_eq!(done, expected, "{}", path.display());
    if before.log.ending != Ending::LiveArea {
        return;
    }
    let after = recorded::read(path);
    after.expect_no_problem();
    assert_eq!(after.log.ending, Ending::Closed);
    assert!(
        after.log.was_collected,
        "it says that the process did not close it"
    );
    assert_eq!(sorted(&after), sorted(before), "{}", path.display());
    assert_eq!(after.log.losses, before.log.losses);
    assert_eq!(after.log.in_flight, before.log.in_flight);
    assert_eq!(after.log.communicators, before.log.communicators);
    assert_eq!(after.log.properties, before.log.properties);
    let live = before.log.live_path.as_deref().expect("a live area was read");
    assert!(!live.exists(), "{} is still there", live.display());
    let bytes = fs::read(path).expect("the log");
    assert_eq!(collect(path).ok(), Some(Collected::Nothing));
    assert_eq!(fs::read(path).expect("the log"), bytes);
}

/// Asserts that a collection interrupted at any step is completed by the next one.
fn expect_collectable_at_each_step(path: &Path, before: &Recorded, chance: &mut Chance) {
    if before.log.ending != Ending::LiveArea {
        return;
    }
    let live = before.log.live_path.clone().expect("a live area was read");
    let (segments, area) = (
        fs::read(path).expect("the log"),
        fs::read(&live).expect("the live area"),
    );
    assert_eq!(collect(path).ok(), Some(Collected::Completed));
    let whole = fs::read(path).expect("the log");
    // Start of the frames that collecting appends: after the last complete frame.
    let start = segments
        .iter()
        .zip(&whole)
        .position(|(old, new)| old != new)
        .unwrap_or(segments.len());
    let mut cuts = vec![start, start + 1, whole.len() - 1];
    cuts.extend((0..8).map(|_| start + chance.below((whole.len() - start) as u64) as usize));
    for cut in cuts {
        fs::write(path, &whole[..cut]).expect("the log");
        fs::write(&live, &area).expect("the live area");
        let cut_short = recorded::read(path);
        assert_eq!(
            sorted(&cut_short),
            sorted(before),
            "broken off after {} bytes",
            cut - start
        );
        expect_collected(path, &cut_short);
        let now = recorded::read(path);
        assert_eq!(
            sorted(&now),
            sorted(before),
            "broken off after {} bytes",
            cut - start
        );
    }
    // Appended, and not yet removed.
    fs::write(path, &whole).expect("the log");
    fs::write(&live, &area).expect("the live area");
    collect(path).unwrap_or_else(|error| panic!("{error}"));
    assert!(!live.exists(), "{} is still there", live.display());
    assert_eq!(fs::read(path).expect("the log"), whole);
}

/// Kills all ranks now, and checks their logs.
fn kill(running: Running<'_>, ranks: usize) -> Finished {
    for rank in 0..ranks {
        running.rank(rank).signal(libc::SIGKILL);
    }
    running.wait()
}

fn expect_all_kept(
    directory: &Path,
    finished: &Finished,
    each_step: bool,
    chance: &mut Chance,
    tally: &mut Tally,
) {
    tally.kills += 1;
    for (&pid, &reported) in finished.pids.iter().zip(&finished.counts) {
        let Some(path) = log_of(directory, pid, reported) else {
            tally.without += 1;
            continue;
        };
        let recorded = recorded::read(&path);
        expect_kept(&recorded, reported, tally);
        if each_step {
            expect_collectable_at_each_step(&path, &recorded, chance);
        } else {
            expect_collected(&path, &recorded);
        }
    }
}

/// Makes a counting job with a small live area that is written out continuously.
fn busy(job: Job) -> Job {
    job.env("RANKSCOPE_LIVE_MIB", "1")
        .env("RANKSCOPE_PARTIAL_MS", "1")
}

fn counting<'turn>(turn: &'turn Turn, job: Job, directory: &Path) -> Running<'turn> {
    job.counted().record_into(directory).start(turn)
}

#[test]
fn two_hundred_kills_lose_no_operation() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    let mut chance = Chance::new();
    let mut tallies = [const { Tally::new() }; 4];
    for round in 0..200 {
        let directory = tempfile::tempdir().expect("a temporary directory");
        // A communicator of one member sends nothing, so its operations are a hundred times faster.
        let ranks = 1 + round % 2;
        let mut job = Job::program(&program, ranks);
        if round % 4 < 2 {
            job = busy(job);
        }
        let running = counting(&turn, job, directory.path());
        // A few kills come at any time, from before the first event on. Most come while the process records.
        if round % 10 != 0 {
            counter::await_all(&running, ranks, 1);
        }
        std::thread::sleep(Duration::from_micros(chance.below(100_000)));
        let finished = kill(running, ranks);
        let tally = &mut tallies[round % 4];
        expect_all_kept(directory.path(), &finished, round % 20 == 5, &mut chance, tally);
    }
    let [_, small_area, alone, together] = &tallies;
    println!("{tallies:#?}");
    // Only a single member with a small area can be faster than the recorder: several ranks are limited by the network.
    assert_eq!((small_area.lost_and_counted, together.lost_and_counted), (0, 0));
    assert!(together.logs > 80 && alone.logs > 40, "{tallies:#?}");
}

#[test]
fn a_kill_at_each_step_of_the_compactor_loses_no_operation() {
    let turn = turn::take();
    let (Some(program), Some(killer)) = (
        compile::gloo("gloo_counter.cc"),
        compile::c("kill_at.c", &["-shared", "-fPIC", "-ldl"]),
    ) else {
        return;
    };
    let preload = format!("{}:{}", killer.display(), artefacts::library().display());
    let (mut chance, mut tally) = (Chance::new(), Tally::new());
    // Frame headers have 32 bytes. The values cut nothing, one byte, a part of a header, a part of a frame, and all.
    for write in [1, 2, 3, 4, 5, 6, 9, 14, 23] {
        for bytes in ["0", "1", "20", "40", "300", "-1"] {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let job = busy(Job::program(&program, 1))
                .env("LD_PRELOAD", &preload)
                .env("KILL_WRITE", write.to_string())
                .env("KILL_BYTES", bytes);
            let finished = counting(&turn, job, directory.path()).wait();
            finished.expect_status(128 + libc::SIGKILL);
            let each_step = write == 5;
            expect_all_kept(directory.path(), &finished, each_step, &mut chance, &mut tally);
        }
    }
    println!("{tally:?}");
    assert!(tally.torn >= 20, "{tally:?}");

    // Closed, and not yet removed.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let job = Job::program(&program, 1)
        .arg("1000")
        .env("LD_PRELOAD", &preload)
        .env("KILL_UNLINK", "1");
    let finished = counting(&turn, job, directory.path()).wait();
    finished.expect_status(128 + libc::SIGKILL);
    let [path] = &recorded::files(directory.path())[..] else {
        panic!("one log")
    };
    let recorded = recorded::read(path);
    recorded.expect_no_problem();
    assert_eq!(completed(&recorded), (0..1000).collect::<Vec<_>>());
    let live = PathBuf::from(&recorded.log.properties["live_path"]);
    assert!(live.exists());
    collect(path).unwrap_or_else(|error| panic!("{error}"));
    assert!(!live.exists(), "{} is still there", live.display());
}

#[test]
fn ten_kills_of_a_pytorch_job_lose_no_operation() {
    let turn = turn::take();
    let pythons = Python::all();
    let (mut chance, mut tally) = (Chance::new(), Tally::new());
    // All available Pythons. Each missing one was reported.
    for (round, python) in pythons.iter().cycle().take(10).enumerate() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut job = Job::torch(python, "counter.py", 2);
        if round % 4 < 2 {
            job = busy(job);
        }
        let running = counting(&turn, job, directory.path());
        counter::await_all(&running, 2, 1 + chance.below(100));
        std::thread::sleep(Duration::from_micros(chance.below(100_000)));
        let finished = kill(running, 2);
        expect_all_kept(directory.path(), &finished, false, &mut chance, &mut tally);
    }
    println!("{tally:?}");
}
