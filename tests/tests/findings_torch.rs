//! Tests findings about real programs: DistributedDataParallel over Gloo with and without deliberate faults.
//!
//! Findings that need a device, several hosts or a broken network are tested with synthetic logs
//! (collector/cli/tests/findings.rs).

use std::process::Command;
use std::time::Duration;

use rankscope_tests::job::Job;
use rankscope_tests::python::Python;
use rankscope_tests::turn::Turn;
use rankscope_tests::{artefacts, compile, process, results, turn};
use serde_json::Value;

const RANKS: usize = 2;

/// Report of a run, whose findings are selected by kind.
struct Found(Value);

impl Found {
    fn all(&self) -> Vec<&Value> {
        let findings = self.0["findings"].as_array().expect("a list");
        findings.iter().collect()
    }

    fn kinds(&self) -> Vec<&str> {
        self.all()
            .iter()
            .filter_map(|finding| finding["kind"].as_str())
            .collect()
    }

    fn of(&self, kind: &str) -> &Value {
        let found = self.all().into_iter().find(|finding| finding["kind"] == kind);
        found.unwrap_or_else(|| {
            panic!(
                "no {kind} among {:?}: {}",
                self.kinds(),
                self.0["steps"]["source"]
            )
        })
    }
}

/// Records and merges a training with these settings.
fn train(turn: &Turn, python: &Python, settings: &[(&str, &str)]) -> Found {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut job = Job::torch(python, "ddp.py", RANKS).env("STEPS", "80");
    for (name, value) in settings {
        job = job.env(name, value);
    }
    let finished = job.record_into(directory.path()).run(turn);
    finished.expect_status(0);
    results::merge(directory.path());
    Found(results::report(directory.path()))
}

#[test]
fn faults_of_a_real_training_are_found_and_absent_ones_are_not() {
    let faults = [
        ("BUCKET_CAP_MB", "0.5"),
        ("FIND_UNUSED", "1"),
        ("PAUSE_EVERY", "10"),
        ("PAUSE_MS", "150"),
    ];
    let without = [("BUCKET_CAP_MB", "25"), ("FIND_UNUSED", "0")];
    let turn = turn::take();
    for python in Python::all() {
        let found = train(&turn, &python, &faults);
        let small = found.of("small-buckets");
        assert!(
            small["advice"]
                .as_str()
                .is_some_and(|advice| advice.contains("bucket_cap_mb"))
        );
        let search = found.of("unused-parameter-search");
        assert_eq!(search["cause"], "find_unused_parameters=True");
        let pause = found.of("periodic-pause");
        // Eight pauses of 150 ms, of which the first steps may miss one.
        let cost = pause["cost_ns"]["value"].as_f64().expect("a cost") / 1e6;
        assert!((6.5 * 150.0..8.0 * 150.0 * 1.2).contains(&cost), "{cost} ms");
        let title = pause["title"].as_str().expect("a title");
        assert!(title.starts_with("every 10 steps"), "{title}");
        for finding in found.all() {
            assert!(
                !finding["path"].as_array().expect("a path").is_empty(),
                "{finding}"
            );
            let shared = finding["shared_ns"].as_i64().expect("a number");
            assert!(
                shared <= finding["cost_ns"]["value"].as_i64().unwrap_or(0),
                "{finding}"
            );
        }
        let found = train(&turn, &python, &without);
        for kind in [
            "small-buckets",
            "unused-parameter-search",
            "periodic-pause",
            "small-messages",
        ] {
            assert!(
                !found.kinds().contains(&kind),
                "{}: {:?}",
                python.name,
                found.all()
            );
        }
    }
}

#[test]
fn a_flood_of_numbers_is_found_and_a_few_are_not() {
    let turn = turn::share();
    let Some(python) = Python::wheel() else { return };
    let found = train(&turn, &python, &[("BUCKET_CAP_MB", "25"), ("METRICS", "40")]);
    let flood = found.of("small-messages");
    // A few more are outside whole steps.
    let per_step = flood["path"][1]["value"].as_f64().expect("a number");
    assert!((40.0..44.0).contains(&per_step), "{flood}");
    // Reductions of single numbers are no gradient buckets.
    assert!(!found.kinds().contains(&"small-buckets"), "{:?}", found.all());
    let found = train(&turn, &python, &[("BUCKET_CAP_MB", "25"), ("METRICS", "4")]);
    assert!(!found.kinds().contains(&"small-messages"), "{:?}", found.all());
}

#[test]
fn a_dead_peer_is_named_in_the_first_sentence() {
    let turn = turn::share();
    let Some(python) = Python::wheel() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let finished = Job::torch(&python, "peer_dies.py", 3)
        .record_into(directory.path())
        .run(&turn);
    drop(finished);
    results::merge(directory.path());
    let found = Found(results::report(directory.path()));
    assert!(found.of("failed-operations")["title"].as_str().is_some());
    let mut command = Command::new(artefacts::program());
    process::clean(&mut command);
    command.arg("report").arg(directory.path());
    let printed = process::run(command, Duration::from_secs(60)).text();
    // A line about the recorded ranks precedes it.
    let mut lines = printed.lines().skip_while(|line| !line.starts_with("Summary"));
    let first = lines.next().expect("a line");
    assert!(
        first.contains("failed") || first.contains("communicating when the log ended"),
        "{first}"
    );
}

/// The version that a library claims for NCCL is compared with the environment, and between ranks.
#[test]
fn variables_and_versions_of_the_loaded_nccl_are_compared() {
    let turn = turn::share();
    let Some(program) = compile::nccl("nccl_profiled.cc") else {
        return;
    };
    let run = |settings: &[(&str, &str)], under: &[&str]| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let meet = tempfile::tempdir_in(process::memory()).expect("a temporary directory");
        let mut job = Job::program(&program, 2)
            .arg("5")
            .arg("-1")
            .arg("0")
            .env("NCCL_DOUBLE_PROFILER", "5")
            .env("NCCL_DOUBLE_MEET", meet.path())
            .env("NCCL_DOUBLE_TRUTH", meet.path())
            .env("NCCL_DOUBLE_CLOCK", "1700000000000000000,0");
        for (name, value) in settings {
            job = job.env(name, value);
        }
        if !under.is_empty() {
            job = job.under(under);
        }
        job.record_into(directory.path()).run(&turn).expect_status(0);
        results::merge(directory.path());
        Found(results::report(directory.path()))
    };
    // NCCL reads this variable since 2.27.
    let variable = ("NCCL_CTA_POLICY", "1");
    let found = run(&[("NCCL_DOUBLE_VERSION", "22105"), variable], &[]);
    let unread = found.of("unread-variables");
    assert!(
        unread["title"]
            .as_str()
            .is_some_and(|title| title.contains("NCCL 2.21.5 does not read it")),
        "{unread}"
    );
    let found = run(&[("NCCL_DOUBLE_VERSION", "22809"), variable], &[]);
    assert!(!found.kinds().contains(&"unread-variables"), "{:?}", found.all());
    assert!(
        !found.kinds().contains(&"different-versions"),
        "{:?}",
        found.all()
    );
    // The program's first argument is its rank.
    let by_rank = [
        "sh",
        "-c",
        r#"export NCCL_DOUBLE_VERSION=2280$((7 + $2 * 2)); exec "$@""#,
        "sh",
    ];
    let found = run(&[], &by_rank);
    let different = found.of("different-versions");
    assert_eq!(
        different["evidence"].as_array().map(Vec::len),
        Some(2),
        "{different}"
    );
}
