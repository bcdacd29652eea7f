//! Tests the analysis of a job while it runs.
//!
//! No fault is reported as long as it proceeds. Once it is stuck, the report names the waiting ranks and the start of
//! the wait, although the job still runs.

use rankscope_tests::job::Job;
use rankscope_tests::{compile, results, turn};
use serde_json::Value;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Merges and reports the last second of the run.
fn last_second(run: &Path, output: &Path) -> Value {
    let (run, output) = (run.to_str().expect("a name"), output.to_str().expect("a name"));
    let ended = results::rankscope([
        "merge",
        "--only-session",
        "--last",
        "1s",
        "--json",
        "-o",
        output,
        run,
    ]);
    serde_json::from_slice(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", ended.text(), ended.complaints()))
}

fn stuck(session: &Value) -> Option<&Value> {
    let findings = session["findings"].as_array().expect("findings");
    findings
        .iter()
        .find(|finding| finding["kind"] == "never-finished")
}

fn endings(session: &Value) -> Vec<&str> {
    let ranks = session["ranks"].as_array().expect("ranks");
    ranks.iter().filter_map(|rank| rank["ending"].as_str()).collect()
}

#[test]
fn a_job_that_is_stuck_is_reported_while_it_runs() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_counter.cc") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = directory.path().join("part");
    let run = directory.path().join("run");
    let running = Job::program(&program, 2)
        .record_into(&run)
        .env("RANKSCOPE_PARTIAL_MS", "100")
        .counted()
        .start(&turn);
    let started = Instant::now();
    while running.counter(0).so_far() < 2000 {
        assert!(started.elapsed() < Duration::from_secs(60), "nothing is done");
        sleep(Duration::from_millis(10));
    }
    sleep(Duration::from_secs(2));
    let session = last_second(&run, &output);
    assert_eq!(endings(&session), ["running", "running"]);
    assert!(
        session["totals"]["operations"].as_u64() > Some(100),
        "{}",
        session["totals"]
    );
    assert_eq!(stuck(&session), None);
    assert_eq!(session["problems"]["total"], 0, "{}", session["problems"]);

    running.rank(1).signal(libc::SIGSTOP);
    let stopped = Instant::now();
    sleep(Duration::from_secs(12));
    let session = last_second(&run, &output);
    let finding = stuck(&session).expect("it is stuck");
    assert_eq!(finding["severity"], "critical", "{finding}");
    let title = finding["title"].as_str().expect("a title");
    assert!(title.contains("stuck in communication"), "{title}");
    let for_ns = session["ranks"][0]["in_flight_for_ns"]
        .as_i64()
        .expect("in flight");
    let most = stopped.elapsed() + Duration::from_millis(500);
    assert!(
        (11_000_000_000..=most.as_nanos() as i64).contains(&for_ns),
        "{for_ns} of {most:?}"
    );
    // The last second is the one before the job got stuck.
    assert!(
        session["totals"]["operations"].as_u64() > Some(100),
        "{}",
        session["totals"]
    );
    for rank in 0..2 {
        running.rank(rank).signal(libc::SIGKILL);
    }
    running.wait();
}
