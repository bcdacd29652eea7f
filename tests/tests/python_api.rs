//! The Python API that reads sessions: its own tests and its types, on a real run. `demo.rs` has the notebook.

use rankscope_tests::job::Job;
use rankscope_tests::process::{self, Ended};
use rankscope_tests::{artefacts, compile, results, setup, turn};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn run(python: &Path, session: &Path, arguments: &[&str]) -> Ended {
    let module = artefacts::root().join("layer/python");
    let mut command = Command::new(python);
    process::clean(&mut command);
    command
        .current_dir(&module)
        .env("PYTHONPATH", &module)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("RANKSCOPE_TEST_RUN", session)
        .args(arguments);
    process::run(command, Duration::from_secs(300))
}

#[test]
fn sessions_are_read_and_typed() {
    let Some(python) = setup::path("notebook.sh") else {
        return;
    };
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    // Rank 1 is late by half of a step, in every step.
    let job = Job::program(&program, 4).record_into(directory.path());
    let arguments = ["ddp", "60", "20000", "persistent", "1", "500", "7"];
    let finished = arguments.iter().fold(job, Job::arg).run(&turn);
    finished.expect_status(0);
    results::merge(directory.path());

    let tests = run(
        &python,
        directory.path(),
        &["-m", "unittest", "discover", "-s", "tests"],
    );
    assert_eq!(tests.code(), 0, "{}{}", tests.text(), tests.complaints());
    let cache = directory.path().join("types");
    let cache = cache.to_str().expect("a plain name");
    let check = [
        "-m",
        "mypy",
        "--strict",
        "--ignore-missing-imports",
        "--cache-dir",
        cache,
        "-p",
        "rankscope",
    ];
    let types = run(&python, directory.path(), &check);
    assert_eq!(types.code(), 0, "{}{}", types.text(), types.complaints());
}
