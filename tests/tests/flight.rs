//! Flight mode on real jobs: only a failure, a hang or a request leaves a recording, and that is whole from its start on.

use rankscope_tests::job::Job;
use rankscope_tests::process::{self, Ended};
use rankscope_tests::{artefacts, compile, results, turn};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

fn logs(run: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let mut logs: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rslog"))
        .collect();
    logs.sort();
    logs
}

fn bytes_of(files: &[PathBuf]) -> u64 {
    files
        .iter()
        .map(|file| fs::metadata(file).expect("a file").len())
        .sum()
}

/// Checks that a session has the last part of a job without a gap, and returns its operations.
fn check(report: &Value, ranks: usize) -> i64 {
    assert!(
        results::integer(report, "/part/from_ns") > 0,
        "{}",
        report["part"]
    );
    assert_eq!(report["ranks"].as_array().map(Vec::len), Some(ranks));
    // The logs are copied one after the other, so the last operations of one may lack the other.
    let end_ns = results::integer(report, "/axis/end_ns");
    let listed = report["matching"]["listed"].as_array().expect("a list");
    let is_at_the_end = |one: &Value| one["start_ns"].as_i64() > Some(end_ns - 500_000_000);
    assert!(listed.iter().all(is_at_the_end), "{}", report["matching"]);
    assert!(results::integer(report, "/matching/incomplete") < 500);
    assert_eq!(
        results::integer(report, "/matching/mismatched"),
        0,
        "{}",
        report["matching"]
    );
    let operations = results::integer(report, "/totals/operations");
    assert!(operations > 1_000, "{operations}");
    operations
}

#[test]
fn a_running_job_is_dumped_and_a_killed_one_leaves_its_last_part() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().join("run");
    let job = Job::program(&program, 2)
        .record_into(&run)
        .env("RANKSCOPE_FLIGHT", "area")
        .env("RANKSCOPE_LIVE_MIB", "1")
        .counted();
    let running = job.start(&turn);
    let deadline = Instant::now() + Duration::from_secs(60);
    // More than what a megabyte holds.
    while running.counter(0).so_far() < 20_000 {
        assert!(Instant::now() < deadline, "the job works");
        std::thread::sleep(Duration::from_millis(50));
    }
    let on_disk = bytes_of(&logs(&run));
    assert!(on_disk < 64 << 10, "{on_disk} bytes");
    let run_text = run.to_str().expect("a name");
    let dump = folder.path().join("dump");
    let inside = run.join("dump");
    let refused = results::rankscope(["dump", run_text, "-o", inside.to_str().expect("a name")]);
    assert_eq!(refused.code(), 2);
    assert!(
        refused.complaints().contains("inside the run directory"),
        "{}",
        refused.complaints()
    );
    let dumped = results::rankscope(["dump", run_text, "-o", dump.to_str().expect("a name")]);
    assert_eq!(dumped.code(), 0, "{}", dumped.complaints());
    let report = results::report(&dump);
    check(&report, 2);
    assert!(
        report["ranks"]
            .as_array()
            .is_some_and(|ranks| { ranks.iter().all(|rank| rank["ending"] == "running") })
    );
    // The job did not notice, and the dump took nothing from it.
    let so_far = running.counter(0).so_far();
    while running.counter(0).so_far() < so_far + 1_000 {
        assert!(Instant::now() < deadline, "the job goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(bytes_of(&logs(&run)), on_disk);
    for rank in 0..2 {
        running.rank(rank).signal(libc::SIGKILL);
    }
    let _finished = running.wait();
    // A dump of killed ranks leaves their memory to the run.
    let after = folder.path().join("after");
    let dumped = results::rankscope(["dump", run_text, "-o", after.to_str().expect("a name")]);
    assert_eq!(dumped.code(), 0, "{}", dumped.complaints());
    // An operation of the killed ranks may be in progress.
    let report = results::session(&run);
    assert!(results::integer(&report, "/totals/operations") > 1_000);
    assert!(results::integer(&report, "/matching/complete") > 500);
    assert_eq!(results::integer(&report, "/matching/mismatched"), 0);
}

/// Starts two ranks of a training, does what `$2` says while they run, waits for them, and then does what `$3` says.
const TWO_RANKS: &str = r#"
mkdir -p "$1"
"$0" 0 2 "$1" ddp 100 20000 none 1 0 7 & first=$!
"$0" 1 2 "$1" ddp 100 20000 none 1 0 7 & second=$!
eval "$2"
wait $first && wait $second || exit 9
eval "$3"
"#;

/// Runs two ranks under `rankscope run --flight`.
fn fly(program: &Path, run: &Path, options: &[&str], meanwhile: &str, at_end: &str) -> Ended {
    let mut rankscope = Command::new(artefacts::program());
    process::clean(&mut rankscope);
    let truth = run.with_extension("truth");
    fs::create_dir(&truth).expect("a directory");
    rankscope
        .env("RANKSCOPE_LIBRARY", artefacts::library())
        .env("TRUTH_DIR", truth)
        .args(["run", "--flight", "2MiB", "-o"])
        .arg(run)
        .args(options)
        .args(["--", "sh", "-c", TWO_RANKS])
        .arg(program)
        .arg(run.with_extension("store"))
        .args([meanwhile, at_end]);
    process::run(rankscope, Duration::from_secs(120))
}

#[test]
fn a_job_that_succeeds_leaves_nothing() {
    let _turn = turn::share();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().join("run");
    let ended = fly(&program, &run, &[], "", "");
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    assert!(
        ended.complaints().contains("nothing is kept"),
        "{}",
        ended.complaints()
    );
    assert!(logs(&run).is_empty() && !run.join("session").exists());
}

#[test]
fn a_job_that_fails_leaves_an_ordinary_run() {
    let _turn = turn::share();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().join("run");
    let ended = fly(&program, &run, &[], "", "exit 3");
    assert_eq!(ended.code(), 3, "{}", ended.complaints());
    assert_eq!(logs(&run).len(), 2, "{}", ended.complaints());
    let report = results::report(&run);
    // Two megabytes have room for all of it.
    assert_eq!(report["part"], Value::Null);
    assert_eq!(results::integer(&report, "/matching/incomplete"), 0);
    assert!(results::integer(&report, "/steps/count") >= 99);
}

#[test]
fn a_job_whose_rank_was_killed_and_that_succeeds_later_leaves_a_run() {
    let _turn = turn::share();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().join("run");
    // The script takes the place of a launcher that restarts the ranks and succeeds.
    let ended = fly(
        &program,
        &run,
        &[],
        "sleep 1; kill -KILL $first $second; exit 0",
        "",
    );
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    assert_eq!(logs(&run).len(), 2, "{}", ended.complaints());
    let report = results::report(&run);
    assert!(
        results::integer(&report, "/totals/operations") > 50,
        "{}",
        report["totals"]
    );
}

/// Returns the parts of a run that were written beside it.
fn dumps(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut dumps: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    dumps.retain(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with("run-dump-"))
    });
    dumps
}

#[test]
fn a_signal_or_a_warning_writes_a_part_of_a_job_that_goes_on() {
    let _turn = turn::share();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    // `rankscope run` is the parent of the shell. The job would end if it got the signal.
    // The first one may come before it is handled.
    let signal = "sleep 1; kill -USR2 $PPID; sleep 1; kill -USR2 $PPID; sleep 4";
    // Rank 1 is late for some seconds, again and again.
    let late = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do \
                kill -STOP $second; sleep 0.2; kill -CONT $second; sleep 0.1; done; sleep 2";
    let of_warning = &["--dump-on", "warning", "--warnings", "--warning-window", "2s"][..];
    for (options, meanwhile) in [(&["--dump-on", "usr2"][..], signal), (of_warning, late)] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let run = folder.path().join("run");
        let ended = fly(&program, &run, options, meanwhile, "");
        assert_eq!(ended.code(), 0, "{}", ended.complaints());
        assert!(logs(&run).is_empty(), "it succeeded: {}", ended.complaints());
        let dumps = dumps(folder.path());
        assert!(
            !dumps.is_empty() && dumps.len() <= 4,
            "{dumps:?} {}",
            ended.complaints()
        );
        let report = results::report(&dumps[0]);
        assert_eq!(report["ranks"].as_array().map(Vec::len), Some(2));
        assert!(results::integer(&report, "/totals/operations") > 50);
    }
}

#[test]
fn a_hang_is_written_beside_the_run_while_it_lasts() {
    let _turn = turn::share();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().join("run");
    let stop = "sleep 1; kill -STOP $second; sleep 5; kill -CONT $second";
    let ended = fly(&program, &run, &["--hang-timeout", "1s"], stop, "");
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    assert!(
        ended.complaints().contains("the job hangs"),
        "{}",
        ended.complaints()
    );
    assert!(logs(&run).is_empty(), "{}", ended.complaints());
    let dumps = dumps(folder.path());
    assert_eq!(dumps.len(), 1, "{}", ended.complaints());
    let report = results::report(&dumps[0]);
    let ranks = report["ranks"].as_array().expect("ranks");
    assert!(ranks.iter().all(|rank| rank["ending"] == "running"), "{ranks:?}");
    // The stopped rank may be in the same call.
    let longest = ranks
        .iter()
        .filter_map(|rank| rank["in_flight_for_ns"].as_i64())
        .max();
    assert!(longest > Some(900_000_000), "{ranks:?}");
}
