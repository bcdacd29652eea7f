//! Queries on sessions in an object store.

use rankscope_analysis::merge::{MergeOptions, merge};
use rankscope_fixtures::logs::Ddp;
use rankscope_s3_server::{Effect, Fault, Refusal, S3Server};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn session(run: &Path, steps: u32) {
    let logs = run.join("logs");
    let job = Ddp {
        steps,
        ..Ddp::default()
    };
    job.write(&logs).expect("logs");
    let options = MergeOptions {
        directories: vec![logs.clone()],
        ..MergeOptions::of_run(run)
    };
    merge(&options, &mut |_| {}).expect("a session");
    fs::remove_dir_all(logs).expect("removed");
}

fn ask(folder: &Path, server: &S3Server, arguments: &[&str]) -> (bool, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_rankscope-sql"))
        .current_dir(folder)
        .env("HOME", folder)
        .envs(server.environment())
        .args(arguments)
        .args(["--format", "csv"])
        .output()
        .expect("it runs");
    let text = if status.success() { stdout } else { stderr };
    (status.success(), String::from_utf8(text).expect("text"))
}

const GROUPS: &str = "select run, operation, count(*) as n, sum(bytes) as bytes, max(exposed_wait_ns) as wait \
                      from operations group by run, operation order by run, operation";

#[test]
fn runs_in_a_bucket_answer_like_those_of_this_machine() {
    let folder = tempfile::tempdir().expect("a directory");
    fs::create_dir(folder.path().join("objects")).expect("made");
    let server = S3Server::start(&folder.path().join("objects"));
    let bucket = server.bucket("runs");
    session(&bucket.join("nightly/one"), 50);
    session(&bucket.join("nightly/two"), 20);
    session(&folder.path().join("here"), 30);
    let ask = |arguments: &[&str]| ask(folder.path(), &server, arguments);

    // A directory of runs.
    let local = ask(&["objects/runs/nightly", GROUPS]);
    assert!(local.0 && local.1.contains("one,all-reduce,604"), "{}", local.1);
    assert_eq!(ask(&["s3://runs/nightly", GROUPS]), local);
    // Runs of two places in one query.
    let both = ask(&["s3://runs/nightly/one", "here", GROUPS]);
    assert_eq!(both, ask(&["objects/runs/nightly/one", "here", GROUPS]));
    assert!(both.1.contains("here,all-reduce,364"), "{}", both.1);
    // Only files of the wanted rank are read, and a table that no session has is empty.
    server.reset_counters();
    let one = ask(&[
        "s3://runs/nightly",
        "select count(*) as n from operations where rank = 2 and run = 'two'",
    ]);
    assert_eq!(one.1, "n\n63\n");
    let read: Vec<String> = server
        .requests()
        .into_iter()
        .filter(|request| request.path.ends_with(".parquet"))
        .map(|request| request.path)
        .collect();
    assert!(
        !read.is_empty()
            && read
                .iter()
                .all(|path| path.ends_with("two/session/operations/rank=2.parquet")),
        "{read:?}"
    );
    assert_eq!(
        ask(&["s3://runs/nightly", "select count(*) as n from works"]).1,
        "n\n0\n"
    );
    // Results may go into a bucket, too.
    let written = ask(&[
        "s3://runs/nightly/one",
        "select * from ranks",
        "-o",
        "s3://runs/ranks.csv",
    ]);
    assert!(written.0, "{}", written.1);
    assert_eq!(
        fs::read_to_string(bucket.join("ranks.csv"))
            .expect("an object")
            .lines()
            .count(),
        5
    );
}

#[test]
fn failures_that_pass_change_no_answer_and_others_are_errors() {
    let folder = tempfile::tempdir().expect("a directory");
    fs::create_dir(folder.path().join("objects")).expect("made");
    let server = S3Server::start(&folder.path().join("objects"));
    session(&server.bucket("runs").join("one"), 50);
    let ask = |arguments: &[&str]| ask(folder.path(), &server, arguments);
    let expected = ask(&["objects/runs/one", GROUPS]);
    server.faults(vec![
        Fault::new("GET", ".parquet", Effect::Answer(Refusal::SlowDown)).first(2),
        Fault::new("GET", ".parquet", Effect::CutBody { after: 50 }).first(2),
        Fault::new("", "", Effect::Close).every(5).first(3),
    ]);
    assert_eq!(ask(&["s3://runs/one", GROUPS]), expected);
    assert!(
        server.fired().iter().all(|&fired| fired > 0),
        "{:?}",
        server.fired()
    );

    server.faults(vec![Fault::new(
        "GET",
        "rank=1.parquet",
        Effect::Answer(Refusal::AccessDenied),
    )]);
    let (is_well, text) = ask(&["s3://runs/one", GROUPS]);
    assert!(!is_well && text.contains("rank=1.parquet"), "{text}");
    server.faults(Vec::new());
    let (is_well, text) = ask(&["s3://runs/two", GROUPS]);
    assert!(!is_well && text.contains("s3://runs/two"), "{text}");
}
