//! Tests the whole workflow of a user: `rankscope run` on the demo's training, then summary, report, session and trace.
//! Only the job knows which rank is slow.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rankscope_tests::engine::{count, engine};
use rankscope_tests::process::{self, Ended};
use rankscope_tests::python::Python;
use rankscope_tests::{artefacts, results, setup, turn};

const RANKS: usize = 4;

/// Runs the demo's training under the launcher. Returns its end, and the slow rank as the job reports it.
fn train(python: &Python, slow: Option<&str>, run: &Path) -> (Ended, String) {
    let truth = run.with_extension("truth");
    let mut command = Command::new(artefacts::program());
    process::clean(&mut command);
    command.args(["run", "-o"]).arg(run).arg("--");
    let job = python.torchrun(RANKS);
    command.arg(job.get_program()).args(job.get_args());
    command.arg(artefacts::root().join("examples/ddp/train.py"));
    command
        .env("OMP_NUM_THREADS", "1")
        .env("DEMO_TRUTH", &truth)
        .env("STEPS", "50");
    match slow {
        Some(slow) => command.env("SLOW", slow),
        None => command.env_remove("SLOW"),
    };
    let ended = process::run(command, Duration::from_secs(400));
    let reported = fs::read_to_string(&truth).expect("the job wrote who was slow");
    (ended, reported.trim().to_owned())
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

/// Executes the notebook of the examples on the demo's run. It names the slow rank, too.
fn expect_notebook(run: &Path, slow: i64) {
    let Some(python) = setup::path("notebook.sh") else {
        return;
    };
    let mut command = Command::new(python);
    process::clean(&mut command);
    command
        .env("PYTHONPATH", artefacts::root().join("layer/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("RUN", run)
        .args(["-c", EXECUTE])
        .arg(artefacts::root().join("examples/notebook/first_look.ipynb"));
    let shown = process::run(command, Duration::from_secs(300));
    assert_eq!(shown.code(), 0, "{}{}", shown.text(), shown.complaints());
    let late = format!("rank {slow} is late");
    for expected in ["text/html", "image/png", "late-rank", &late, "all-reduce"] {
        assert!(shown.text().contains(expected), "{expected}: {}", shown.text());
    }
}

#[test]
fn the_slow_rank_is_named_and_every_call_is_in_the_trace() {
    let Some(python) = Python::wheel() else { return };
    let turn = turn::take();
    let work = tempfile::tempdir().expect("a directory");
    let run = work.path().join("run");
    let (ended, slow) = train(&python, None, &run);
    drop(turn);
    assert_eq!(ended.code(), 0, "{}{}", ended.text(), ended.complaints());
    // The job's own output is unchanged. Messages of rankscope go to the other stream.
    assert!(ended.text().contains("step   50  loss"), "{}", ended.text());
    assert!(!ended.text().contains("Coverage"));
    let summary = ended.complaints();
    assert!(summary.contains("4 of 4 ranks seen"), "{summary}");
    assert!(
        summary.contains(&format!("rank {slow} is late")),
        "rank {slow} was slow:\n{summary}"
    );
    assert!(
        summary.contains("trace.pftrace") && summary.contains("report.html"),
        "{summary}"
    );

    let session = results::report(&run);
    let slow: i64 = slow.parse().expect("a rank");
    assert_eq!(results::late_ranks(&session), [slow]);
    let operations = session["totals"]["operations"].as_u64().expect("a count");
    let instances = session["totals"]["instances"].as_u64().expect("a count");
    assert_eq!(operations, instances * RANKS as u64);
    assert_eq!(session["totals"]["lost"], 0);
    let page = fs::read_to_string(run.join("report.html")).expect("the report");
    assert!(page.contains("rank 3") && !page.contains("src=\"http"));

    expect_notebook(&run, slow);

    let trace = run.join("trace.pftrace");
    let trace = trace.to_str().expect("a plain name");
    if engine(&["check", trace]).is_none() {
        return;
    }
    let counted = |query: &str| count(trace, query).unwrap_or_default();
    // Every operation is on the communicator's track once, with its arguments. Every instance is a chain through its
    // ranks.
    for argument in [
        "instance",
        "operation",
        "communicator",
        "bytes",
        "arrival_order",
        "transfer_ns",
    ] {
        let query =
            format!("select count(*) from slice join args using (arg_set_id) where key = 'debug.{argument}'");
        assert_eq!(counted(&query), operations, "{argument}");
    }
    assert_eq!(
        counted("select count(*) from flow"),
        instances * (RANKS as u64 - 1)
    );
    assert_eq!(
        counted("select count(*) from process where name like 'rank %'"),
        RANKS as u64
    );
    assert!(counted("select count(*) from counter") > operations);
}

#[test]
fn no_rank_is_named_if_none_is_slow() {
    let Some(python) = Python::wheel() else { return };
    let turn = turn::take();
    let work = tempfile::tempdir().expect("a directory");
    // Four ranks run on few cores, next to other work of this machine. Other work can make one rank really late, but is
    // unlikely to hit the same one twice.
    let mut named = Vec::new();
    for attempt in ["first", "second"] {
        let run = work.path().join(attempt);
        let (ended, slow) = train(&python, Some("none"), &run);
        assert_eq!(
            (ended.code(), slow.as_str()),
            (0, "none"),
            "{}",
            ended.complaints()
        );
        let late = results::late_ranks(&results::report(&run));
        if late.is_empty() {
            return;
        }
        eprintln!("{}", ended.complaints());
        named.push(late);
    }
    drop(turn);
    assert_ne!(named[0], named[1], "twice in a row");
}
