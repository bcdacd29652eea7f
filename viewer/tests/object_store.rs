//! The viewer on a session in an object store: the same picture, from the index alone.

use rankscope_analysis::{MergeOptions, index, merge};
use rankscope_fixtures::logs::Ddp;
use rankscope_s3_server::{Effect, Fault, Refusal, S3Server};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const RANKS: u32 = 6;

/// Makes a session with an index.
fn session(directory: &Path) {
    let job = Ddp {
        ranks: RANKS,
        slow: Some((2, 900_000)),
        ..Ddp::default()
    };
    job.write(&directory.join("logs")).expect("logs");
    let options = MergeOptions {
        directories: vec![directory.join("logs")],
        ..MergeOptions::of_run(directory)
    };
    let session = merge(&options, &mut |_| {}).expect("merged");
    index::ensure(&options.output, &session, 0..RANKS, &mut |_, _| {}).expect("indexed");
    fs::remove_dir_all(directory.join("logs")).expect("removed");
}

fn draw(folder: &Path, server: &S3Server, run: &str, picture: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rankscope-viewer"))
        .current_dir(folder)
        .env("HOME", folder)
        .envs(server.environment())
        .args([run, "--screenshot", picture, "--size", "900x700"])
        .output()
        .expect("it runs")
}

#[test]
fn a_remote_session_is_drawn_from_its_index() {
    let folder = tempfile::tempdir().expect("a directory");
    fs::create_dir(folder.path().join("objects")).expect("made");
    let server = S3Server::start(&folder.path().join("objects"));
    let bucket = server.bucket("runs");
    session(&bucket.join("job"));
    // The server's objects are files.
    let local = "objects/runs/job";
    let picture = |run: &str, picture: &str| {
        let output = draw(folder.path(), &server, run, picture);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = fs::read_to_string(folder.path().join(picture)).expect("a picture");
        text.replace("s3://runs/job", "RUN").replace(local, "RUN")
    };
    let remote = picture("s3://runs/job", "remote.svg");
    let requests = server.requests();
    let indexes = requests.iter().filter(|request| request.path.ends_with(".view"));
    assert_eq!(
        indexes.count(),
        RANKS as usize,
        "each index is read once: {requests:#?}"
    );
    let tables: Vec<_> = requests
        .iter()
        .filter(|request| request.path.contains("/operations/"))
        .collect();
    assert!(tables.is_empty(), "{tables:?}");
    assert!(remote == picture(local, "local.svg"), "the pictures differ");

    // Failures that pass change nothing.
    server.faults(vec![
        Fault::new("GET", ".view", Effect::Answer(Refusal::SlowDown)).first(3),
        Fault::new("GET", ".view", Effect::CutBody { after: 200 }).first(2),
    ]);
    assert!(remote == picture("s3://runs/job", "again.svg"));
    assert_eq!(server.fired(), [3, 2]);
}

#[test]
fn what_cannot_be_drawn_is_reported() {
    let folder = tempfile::tempdir().expect("a directory");
    fs::create_dir(folder.path().join("objects")).expect("made");
    let server = S3Server::start(&folder.path().join("objects"));
    session(&server.bucket("runs").join("job"));
    let complaint = |run: &str| {
        let output = draw(folder.path(), &server, run, "none.svg");
        assert!(!output.status.success(), "{run}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = complaint("s3://runs/other");
    assert!(text.contains("rankscope merge s3://runs/other"), "{text}");
    // A picture with a hole is none: the missing rank is named.
    server.faults(vec![Fault::new(
        "GET",
        "rank=0.view",
        Effect::Answer(Refusal::AccessDenied),
    )]);
    let output = draw(folder.path(), &server, "s3://runs/job", "hole.svg");
    let shown = fs::read_to_string(folder.path().join("hole.svg")).unwrap_or_default();
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &shown;
    assert!(text.contains("cannot be drawn"), "{text}");
    let written = server
        .requests()
        .into_iter()
        .filter(|request| request.method == "PUT")
        .count();
    assert_eq!(written, 0, "a viewer writes nothing into a bucket");
    server.faults(vec![Fault::new(
        "",
        "session.json",
        Effect::Answer(Refusal::AccessDenied),
    )]);
    let text = complaint("s3://runs/job");
    assert!(
        text.contains("denied") && text.contains("s3://runs/job"),
        "{text}"
    );
}
