//! Tests that the page of real runs agrees with `rankscope report --json`, number by number, in a real browser.
//!
//! The runs are all collectives of Gloo, a training with PyTorch, and one with recorded device work.
//! `collector/cli/tests/page.rs` tests the comparison itself.

use std::path::Path;

use rankscope_fixtures::page::browser::Browser;
use rankscope_fixtures::page::{WALK, Walked};
use rankscope_tests::cupti_run::{self, Settings};
use rankscope_tests::job::Job;
use rankscope_tests::python::Python;
use rankscope_tests::turn::{self, Turn};
use rankscope_tests::{compile, results, skip};
use serde_json::Value;
use tempfile::TempDir;

/// Records runs of every kind that this machine can make.
fn runs(turn: &Turn) -> Vec<(&'static str, TempDir)> {
    let mut runs = Vec::new();
    if let Some(program) = compile::gloo("gloo_all.cc") {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let finished = Job::program(&program, 4).record_into(directory.path()).run(turn);
        finished.expect_status(0);
        runs.push(("gloo", directory));
    }
    if let Some(python) = Python::wheel() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let job = Job::torch(&python, "ddp.py", 2).env("STEPS", "40");
        job.record_into(directory.path()).run(turn).expect_status(0);
        runs.push(("torch", directory));
    }
    if let Some(run) = cupti_run::run(turn, &Settings::default()) {
        run.expect_well();
        runs.push(("devices", run.directory));
    }
    runs
}

/// Writes the page into `page` and returns the JSON.
fn report(run: &Path, page: &Path) -> Value {
    results::merge(run);
    let text = |path: &Path| path.to_str().expect("a plain name").to_owned();
    let reported = results::rankscope(["report", "--json", "--html", &text(page), &text(run)]);
    assert_eq!(reported.code(), 0, "{}", reported.complaints());
    serde_json::from_slice(&reported.stdout).expect("JSON")
}

#[test]
fn every_number_of_a_real_run_is_that_of_the_json() {
    let turn = turn::take();
    let runs = runs(&turn);
    drop(turn);
    let Some(mut browser) = Browser::start() else {
        return skip("there is no Chromium");
    };
    let work = tempfile::tempdir().expect("a temporary directory");
    for (name, run) in &runs {
        let page = work.path().join(format!("{name}.html"));
        let json = report(run.path(), &page);
        browser.open(&page);
        let walked = Walked::of(&browser.evaluate(WALK));
        let wrong = walked.differences(&json);
        assert!(
            wrong.is_empty(),
            "{name}: {} of {}, among them\n{}",
            wrong.len(),
            walked.marked.len(),
            wrong[..wrong.len().min(20)].join("\n")
        );
        assert!(walked.marked.len() > 100, "{name}: {:?}", walked.forms());
        assert_eq!(browser.complaints, Vec::<String>::new(), "{name}");
    }
}
