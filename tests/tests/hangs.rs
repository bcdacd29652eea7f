//! Verdicts on real jobs of PyTorch and Gloo that hang, while they run.
//!
//! `tests/programs/torch/stuck.py` injects a fault and writes beforehand what a tool can know. `make hang-study` measures
//! all faults in all shapes.

use rankscope_formats::status::{Confidence, HangKind, HangVerdict, Health, ProcessState, Status};
use rankscope_tests::job::Job;
use rankscope_tests::process::{self, Ended};
use rankscope_tests::python::Python;
use rankscope_tests::{artefacts, compile, hung, results, turn};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Exit status of a job that was ended because it hung.
const ENDED_THE_JOB: i32 = 86;

/// Returns the command that records `stuck.py`. Rank 1 injects the fault in step 30.
fn stuck(python: &Python, folder: &Path, shape: &str, fault: &str, steps: &str, options: &[&str]) -> Command {
    let torchrun = python.torchrun(4);
    let mut command = Command::new(artefacts::program());
    process::clean(&mut command);
    command
        .env("RANKSCOPE_LIBRARY", artefacts::library())
        .env("TRUTH_DIR", folder)
        .env("STUCK_SLOW_S", "4")
        .env("OMP_NUM_THREADS", "1")
        .args(["run", "-o"])
        .arg(folder.join("run"))
        .args(options)
        .arg("--")
        .arg(torchrun.get_program())
        .args(torchrun.get_args())
        .arg(compile::programs().join("torch/stuck.py"))
        .args([shape, fault, "1", "30", steps]);
    command
}

/// A job under `rankscope run --hang-timeout`.
struct Watched {
    ended: Ended,
    folder: TempDir,
}

impl Watched {
    /// Runs `stuck.py` with a timeout of two seconds.
    fn run(python: &Python, shape: &str, fault: &str, steps: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let options = [&["--hang-timeout", "2s"], options].concat();
        let command = stuck(python, folder.path(), shape, fault, steps, &options);
        Self {
            ended: process::run(command, Duration::from_secs(120)),
            folder,
        }
    }

    fn directory(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Returns the stored reports.
    fn reports(&self) -> Vec<Status> {
        let entries = std::fs::read_dir(self.directory()).expect("a run directory");
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("hang-"))
        });
        files.sort();
        let read = |path: &PathBuf| {
            let text = std::fs::read(path).expect("readable");
            serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        files.iter().map(read).collect()
    }

    /// Returns the only report.
    fn report(&self) -> Status {
        let mut reports = self.reports();
        assert_eq!(
            reports.len(),
            1,
            "{}{}",
            self.ended.text(),
            self.ended.complaints()
        );
        reports.remove(0)
    }

    /// Returns what the job wrote before it injected its fault.
    fn truth(&self) -> Value {
        let text = std::fs::read(self.folder.path().join("fault.json")).expect("a fault");
        serde_json::from_slice(&text).expect("JSON")
    }
}

fn verdict(status: &Status) -> &HangVerdict {
    assert_eq!(status.health, Health::Hang, "{}", status.sentence);
    status.verdicts.first().expect("a verdict")
}

/// Asserts that the report names what the job knows about its fault.
#[track_caller]
fn assert_true(job: &Watched) -> Status {
    let (status, truth) = (job.report(), job.truth());
    let found = verdict(&status);
    let kinds = truth["kinds"].as_array().expect("kinds");
    assert!(
        kinds.iter().any(|kind| kind == found.kind.name()),
        "{truth} {found:?}"
    );
    let numbers = |ranks: &[u32]| -> Vec<u64> {
        let numbers = ranks
            .iter()
            .filter_map(|&rank| status.ranks[rank as usize].number);
        numbers.map(u64::from).collect()
    };
    let expected: Vec<u64> = serde_json::from_value(truth["culprits"].clone()).expect("numbers");
    assert_eq!(numbers(&found.culprits), expected, "{truth} {found:?}");
    if let Some(number) = truth["number"].as_u64() {
        assert_eq!(found.sequence, Some(number), "{truth} {found:?}");
        let communicator = &status.communicators[found.communicator.expect("a communicator") as usize];
        let members = truth["group"].as_array().expect("a group").len();
        assert_eq!(communicator.size as usize, members, "{truth} {found:?}");
    }
    let waited = Duration::from_nanos(found.for_ns.cast_unsigned());
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
    status
}

#[test]
fn a_rank_that_sleeps_is_named_and_the_job_is_ended() {
    let turn = turn::share();
    let Some(python) = Python::wheel() else { return };
    let job = Watched::run(&python, "groups", "sleep", "", &["--on-hang", "kill"]);
    drop(turn);
    assert_eq!(job.ended.code(), ENDED_THE_JOB, "{}", job.ended.complaints());
    let status = assert_true(&job);
    assert_eq!(verdict(&status).confidence, Confidence::High);
    assert_eq!(verdict(&status).operation.as_deref(), Some("all-reduce"));
    assert!(job.ended.complaints().contains(&verdict(&status).sentence));
    // The report is a finding of the merged session, and nothing repeats it.
    let session = results::session(&job.directory());
    let findings = session["findings"].as_array().expect("findings");
    let of = |kind: &str| findings.iter().filter(|finding| finding["kind"] == kind).count();
    assert_eq!((of("hang"), of("never-finished")), (1, 0));
}

#[test]
fn ranks_that_call_different_operations_are_named() {
    let turn = turn::share();
    let Some(python) = Python::debian() else { return };
    let options = ["--no-merge", "--on-hang", "kill"];
    let job = Watched::run(&python, "pipeline", "operation", "", &options);
    drop(turn);
    assert_eq!(job.ended.code(), ENDED_THE_JOB, "{}", job.ended.complaints());
    assert_true(&job);
}

#[test]
fn two_communicators_in_another_order_are_named() {
    let turn = turn::share();
    let Some(python) = Python::wheel() else { return };
    let options = [
        "--no-merge",
        "--on-hang",
        "kill",
        "--hang-command",
        "cat > \"$RANKSCOPE_HANG_FILE.copy\"",
    ];
    let job = Watched::run(&python, "sharded", "crossed", "", &options);
    drop(turn);
    assert_eq!(job.ended.code(), ENDED_THE_JOB, "{}", job.ended.complaints());
    let copies = std::fs::read_dir(job.directory()).expect("a directory").flatten();
    let copy = copies
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "copy"))
        .expect("the command wrote a file");
    let copied: Status = serde_json::from_slice(&std::fs::read(&copy).expect("readable")).expect("a status");
    std::fs::remove_file(&copy).expect("removed");
    assert_eq!(copied, assert_true(&job));
}

#[test]
fn an_evaluation_on_one_rank_is_not_a_hang() {
    let turn = turn::share();
    let Some(python) = Python::wheel() else { return };
    let job = Watched::run(&python, "ddp", "evaluation", "60", &["--no-merge"]);
    drop(turn);
    assert_eq!(job.ended.code(), 0, "{}", job.ended.complaints());
    assert!(job.folder.path().join("fault.json").exists(), "rank 1 evaluated");
    assert!(job.reports().is_empty(), "{}", job.ended.complaints());
}

/// Counters are sampled while a job hangs. They must not push its own records out of a look.
#[test]
fn a_hang_that_lasts_keeps_its_context() {
    let turn = turn::share();
    let Some(python) = Python::wheel() else { return };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let job = process::Process::start(stuck(
        &python,
        folder.path(),
        "pipeline",
        "sleep",
        "",
        &["--no-merge"],
    ));
    hung::wait_for(&folder.path().join("fault.json"));
    drop(turn);
    sleep(Duration::from_secs(17));
    let (code, status) = hung::status_of(&folder.path().join("run"));
    assert_eq!(code, 1, "{}", status.sentence);
    let found = verdict(&status);
    assert_eq!(
        (found.kind, &found.culprits[..]),
        (HangKind::UserCode, &[1][..]),
        "{found:?}"
    );
    // torchrun ends its workers, which are in sessions of their own.
    job.signal(libc::SIGTERM);
    job.wait(Duration::from_secs(60));
}

#[test]
fn status_of_a_job_that_runs_is_stopped_and_was_killed() {
    let turn = turn::share();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = directory.path().join("run");
    let running = Job::program(&program, 2).record_into(&run).counted().start(&turn);
    let started = Instant::now();
    while running.counter(0).so_far() < 2000 {
        assert!(started.elapsed() < Duration::from_secs(60), "nothing is done");
        sleep(Duration::from_millis(10));
    }
    let (code, status) = hung::status_of(&run);
    assert_eq!((code, status.health), (0, Health::Healthy), "{}", status.sentence);
    assert_eq!(status.ranks.len(), 2);
    assert!(status.ranks.iter().all(|rank| rank.last_completed.is_some()));

    running.rank(1).signal(libc::SIGSTOP);
    // After the end, the wait counts up to the last sign of rank 0. Signs come once per second, and later on a busy machine.
    sleep(Duration::from_secs(9));
    let (code, status) = hung::status_of(&run);
    assert_eq!(code, 1, "{}", status.sentence);
    let found = verdict(&status);
    assert_eq!(
        (found.kind, &found.culprits[..]),
        (HangKind::Stopped, &[1][..]),
        "{found:?}"
    );
    assert_eq!(status.ranks[1].process, ProcessState::Stopped);

    // What the ranks did when they died: rank 0 waited for rank 1.
    for rank in 0..2 {
        running.rank(rank).signal(libc::SIGKILL);
    }
    let finished = running.wait();
    let (code, status) = hung::status_of(&run);
    assert_eq!(code, 1, "{}", status.sentence);
    assert!(status.ranks.iter().all(|rank| rank.process == ProcessState::Gone));
    assert!(verdict(&status).waiting.contains(&0), "{}", status.sentence);
    drop(finished);
}
