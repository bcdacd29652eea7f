//! The Python API that reads sessions: its own tests, its types, and the notebook of the examples, on a real run.

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
        .env("RUN", session)
        .args(arguments);
    process::run(command, Duration::from_secs(300))
}

/// Executes the notebook, and prints the text of all outputs. An exception in a cell is an error.
const EXECUTE: &str = r#"
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        print(output.get("text", ""), *output.get("data", {}).keys(), output.get("data", {}).get("text/plain", ""))
"#;

#[test]
fn sessions_are_read_typed_and_shown_in_a_notebook() {
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

    let notebook = artefacts::root().join("examples/notebook/first_look.ipynb");
    let notebook = notebook.to_str().expect("a plain name");
    let shown = run(&python, directory.path(), &["-c", EXECUTE, notebook]);
    assert_eq!(shown.code(), 0, "{}{}", shown.text(), shown.complaints());
    for expected in ["text/html", "image/png", "late-rank", "all-reduce"] {
        assert!(shown.text().contains(expected), "{expected}: {}", shown.text());
    }
}
