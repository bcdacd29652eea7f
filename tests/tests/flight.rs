//! Flight mode on real jobs: only a failure, a hang or a request leaves a recording, and that is whole from its start on.

use rankscope_tests::job::Job;
use rankscope_tests::process::{self, Ended};
use rankscope_tests::python::Python;
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
    assert_eq!(
        results::integer(report, "/part/from_ns") > 0,
        true,
        "{}",
        report["part"]
    );
    assert_eq!(report["ranks"].as_array().map(Vec::len), Some(ranks));
    assert_eq!(
        results::integer(report, "/matching/incomplete"),
        0,
        "{}",
        report["matching"]
    );
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
    // Several times what a megabyte holds.
    while running.counter(0).so_far() < 60_000 {
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
    while running.counter(0).so_far() < so_far + 10_000 {
        assert!(Instant::now() < deadline, "the job goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(bytes_of(&logs(&run)), on_disk);
    for rank in 0..2 {
        running.rank(rank).signal(libc::SIGKILL);
    }
    let _finished = running.wait();
    // An operation of the killed ranks may be in progress.
    let report = results::session(&run);
    assert!(results::integer(&report, "/totals/operations") > 1_000);
    assert!(results::integer(&report, "/matching/complete") > 500);
    assert_eq!(results::integer(&report, "/matching/mismatched"), 0);
}

/// Runs a job under `rankscope run --flight`.
fn fly(options: &[&str], command: &[&str], run: &Path) -> Ended {
    let mut rankscope = Command::new(artefacts::program());
    process::clean(&mut rankscope);
    rankscope
        .env("RANKSCOPE_LIBRARY", artefacts::library())
        .env("STUCK_SLOW_S", "4")
        .env("OMP_NUM_THREADS", "1")
        .env("TRUTH_DIR", run.parent().expect("a folder"))
        .args(["run", "--flight", "2MiB", "-o"])
        .arg(run)
        .args(options)
        .arg("--")
        .args(command);
    process::run(rankscope, Duration::from_secs(120))
}

#[test]
fn only_a_job_that_fails_leaves_a_run() {
    let Some(python) = Python::wheel() else { return };
    let _turn = turn::take();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let torchrun = python.torchrun(2);
    let words: Vec<String> = std::iter::once(torchrun.get_program())
        .chain(torchrun.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let script = compile::programs().join("torch/stuck.py").display().to_string();
    let command = |arguments: &[&str]| -> Vec<String> {
        let arguments = arguments.iter().map(|&argument| argument.to_owned());
        words
            .iter()
            .cloned()
            .chain([script.clone()])
            .chain(arguments)
            .collect()
    };
    let run = folder.path().join("succeeds");
    let words_of = command(&["ddp", "none", "1", "30", "40"]);
    let words_of: Vec<&str> = words_of.iter().map(String::as_str).collect();
    let ended = fly(&[], &words_of, &run);
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    assert!(
        ended.complaints().contains("nothing is kept"),
        "{}",
        ended.complaints()
    );
    assert!(logs(&run).is_empty() && !run.join("session").exists());

    // A hang is written beside the run while it lasts. Then the rank wakes up, and the job succeeds.
    let run = folder.path().join("recovers");
    let words_of = command(&["ddp", "checkpoint", "1", "30", "40"]);
    let words_of: Vec<&str> = words_of.iter().map(String::as_str).collect();
    let ended = fly(&["--hang-timeout", "1s", "--busy-timeout", "1s"], &words_of, &run);
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    let dumps: Vec<PathBuf> = fs::read_dir(folder.path())
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("recovers-dump-"))
        })
        .collect();
    assert_eq!(dumps.len(), 1, "{}", ended.complaints());
    assert!(dumps[0].join("session/session.json").is_file());

    let run = folder.path().join("fails");
    let ended = fly(&[], &["sh", "-c", "exit 3"], &run);
    assert_eq!(ended.code(), 3);
    let failing = format!(
        "{} || true; exit 3",
        command(&["ddp", "none", "1", "30", "40"]).join(" ")
    );
    let ended = fly(&[], &["sh", "-c", &failing], &run);
    assert_eq!(ended.code(), 3, "{}", ended.complaints());
    assert_eq!(logs(&run).len(), 2, "{}", ended.complaints());
    assert!(run.join("session/session.json").is_file());
}
