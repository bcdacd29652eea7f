//! Tests the structure of real jobs: a pipeline over Gloo's own sends and receives, with and without faults, and
//! checkpoints that PyTorch writes.

use rankscope_tests::disturbed::once_more;
use rankscope_tests::job::Job;
use rankscope_tests::python::Python;
use rankscope_tests::turn::Turn;
use rankscope_tests::{results, turn};
use serde_json::Value;

/// Records and merges a pipeline of two stages on this many ranks.
fn pipeline(turn: &Turn, python: &Python, ranks: usize, settings: &[(&str, &str)]) -> Value {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut job = Job::torch(python, "pipeline.py", ranks);
    for (name, value) in settings {
        job = job.env(name, value);
    }
    job.record_into(directory.path()).run(turn).expect_status(0);
    results::merge(directory.path());
    results::report(directory.path())
}

fn kinds(session: &Value) -> Vec<&str> {
    let findings = session["findings"].as_array().expect("a list");
    findings
        .iter()
        .filter_map(|finding| finding["kind"].as_str())
        .collect()
}

fn of<'a>(session: &'a Value, kind: &str) -> &'a Value {
    let findings = session["findings"].as_array().expect("a list");
    let found = findings.iter().find(|finding| finding["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} among {:?}: {}", kinds(session), session["structure"]))
}

#[test]
fn a_real_pipeline_has_its_stages_and_no_late_rank_unless_there_is_one() {
    let turn = turn::take();
    let Some(python) = Python::wheel() else { return };

    let even = pipeline(&turn, &python, 4, &[]);
    let structure = &even["structure"][0];
    let found = &structure["pipelines"][0];
    assert_eq!(
        found["chains"],
        serde_json::json!([[0, 1], [2, 3]]),
        "{structure}"
    );
    assert_eq!(found["micro_batches"]["value"], 4, "{structure}");
    assert_eq!(
        (
            &found["ideal_bubble"]["value"]["numerator"],
            &found["ideal_bubble"]["value"]["denominator"]
        ),
        (&Value::from(1), &Value::from(5))
    );
    assert_eq!(
        structure["peers"],
        serde_json::json!([[0, 2], [1, 3]]),
        "{structure}"
    );
    for stage in found["stages"].as_array().expect("stages") {
        let ratio = &stage["bubble"]["value"];
        let of = |part: &str| ratio[part].as_f64().expect("a number");
        let bubble = of("numerator") / of("denominator");
        // The ideal is 20 %. Sleeps and messages on a shared machine take slightly longer.
        assert!((0.12..0.40).contains(&bubble), "{bubble}: {structure}");
    }
    let found = kinds(&even);
    for silent in ["late-rank", "pipeline-imbalance", "work-imbalance", "slow-host"] {
        assert!(!found.contains(&silent), "{silent}: {}", even["findings"]);
    }

    let heavy = pipeline(&turn, &python, 4, &[("HEAVY", "1:2")]);
    let finding = of(&heavy, "pipeline-imbalance");
    assert_eq!(finding["subject"], "stage 1 of 2", "{finding}");
    assert_eq!(finding["ranks"], serde_json::json!([1, 3]));
    assert!(!kinds(&heavy).contains(&"late-rank"), "{}", heavy["findings"]);
    // Own work of 24 and 48 ms a step: 3 / 4 of 48 − 36.
    let cost = finding["cost_of_step"]["value"]["numerator"]
        .as_f64()
        .expect("a cost")
        / 1e6;
    assert!((6.0..14.0).contains(&cost), "{cost} ms of 9");

    let late = pipeline(&turn, &python, 4, &[("LATE", "2:10")]);
    let finding = of(&late, "late-rank");
    assert_eq!(finding["ranks"], serde_json::json!([2]), "{finding}");
    assert!(
        !kinds(&late).contains(&"pipeline-imbalance"),
        "{}",
        late["findings"]
    );
    let cost = finding["cost_of_step"]["value"]["numerator"]
        .as_f64()
        .expect("a cost")
        / 1e6;
    assert!((6.0..14.0).contains(&cost), "{cost} ms of 10");
}

#[test]
fn a_pipeline_without_any_collective_has_its_stages() {
    once_more(|_| pipeline_without_collectives());
}

fn pipeline_without_collectives() {
    let turn = turn::take();
    let Some(python) = Python::wheel() else { return };
    // Without any collective, one of many micro-batches resembles a step.
    for (micro_batches, forward_ms) in [(4, 3), (16, 1)] {
        let settings = [
            ("MICRO", micro_batches.to_string()),
            ("FORWARD_MS", forward_ms.to_string()),
        ];
        let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
        let session = pipeline(&turn, &python, 2, &settings);
        let structure = &session["structure"][0];
        let found = &structure["pipelines"][0];
        assert_eq!(found["chains"], serde_json::json!([[0, 1]]), "{structure}");
        assert_eq!(found["micro_batches"]["value"], micro_batches, "{structure}");
        // The first of forty steps starts where no step ended.
        assert_eq!(session["steps"]["count"], 39);
        let found = kinds(&session);
        for silent in ["late-rank", "pipeline-imbalance", "rotating-lateness"] {
            assert!(!found.contains(&silent), "{silent}: {}", session["findings"]);
        }
    }
    let heavy = pipeline(&turn, &python, 2, &[("HEAVY", "1:2")]);
    let finding = of(&heavy, "pipeline-imbalance");
    assert_eq!(finding["subject"], "stage 1 of 2", "{finding}");
    assert_eq!(finding["ranks"], serde_json::json!([1]));
    assert!(!kinds(&heavy).contains(&"late-rank"), "{}", heavy["findings"]);
}

#[test]
fn checkpoints_that_pytorch_writes_are_seen_as_long_as_they_take() {
    let turn = turn::take();
    turn::side_by_side(Python::all(), |python| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let finished = Job::torch(&python, "pipeline.py", 2)
            .env("SAVE_EVERY", "10")
            .record_into(directory.path())
            .run(&turn);
        finished.expect_status(0);
        let lines = finished.truth(0);
        let took = |what: &str| -> f64 {
            let reported = lines.iter().filter(|line| line["op"] == what);
            reported
                .map(|line| {
                    let of = |part: &str| line[part].as_f64().expect("a time");
                    of("end_ns") - of("begin_ns")
                })
                .sum()
        };
        let (wrote, read) = (took("save"), took("load"));
        assert!(wrote > 0.0 && read > 0.0);
        results::merge(directory.path());
        let session = results::report(directory.path());
        let ranks = session["named_times"]["ranks"].as_array().expect("ranks");
        assert_eq!(ranks.len(), 1, "{}: {ranks:?}", python.name);
        let parts = ranks[0]["parts"].as_array().expect("parts");
        let part = parts
            .iter()
            .find(|part| part["kind"] == "checkpoint")
            .expect("checkpoints");
        // Four are written and four are read.
        assert_eq!(part["count"], 8, "{}: {part}", python.name);
        let reported = part["in_run_ns"].as_f64().expect("a time");
        assert!(
            reported <= wrote + read,
            "{}: {reported} of {wrote} and {read}",
            python.name
        );
        assert!(
            reported >= 0.5 * wrote,
            "{}: {reported} of {wrote} and {read}",
            python.name
        );
    });
}
