//! Runs and sessions in an object store, with the programs as a user starts them, on a real S3 server with injected failures.

use rankscope_fixtures::logs::{Ddp, START, SyntheticLog};
use rankscope_formats::session::Periods;
use rankscope_s3_server::{Effect, Fault, Refusal, S3Server};
use rankscope_tests::process::{self, Ended, Process};
use rankscope_tests::wait_until;
use rankscope_tests::{artefacts, setup};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(120);

/// A server with the bucket `runs`, and directories of this machine.
struct Place {
    server: S3Server,
    bucket: PathBuf,
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        for directory in ["objects", "tmp"] {
            fs::create_dir(folder.path().join(directory)).expect("made");
        }
        let server = S3Server::start(&folder.path().join("objects"));
        let bucket = server.bucket("runs");
        Self {
            server,
            bucket,
            folder,
        }
    }

    /// Returns a place with the logs of `job` in `s3://runs/job`, and a copy of them in `job`.
    fn with(job: &Ddp) -> Self {
        let place = Self::new();
        job.write(&place.bucket.join("job")).expect("logs");
        copy(&place.bucket.join("job"), &place.local("job"));
        place
    }

    fn local(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a command with the server's credentials. It cannot write into the directory of the tests.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(artefacts::program().with_file_name(program));
        process::clean(&mut command);
        command
            .current_dir(self.folder.path())
            .env("TMPDIR", self.local("tmp"))
            .env("HOME", self.folder.path())
            .envs(self.server.environment());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        let mut command = self.command("rankscope");
        command.args(arguments);
        process::run(command, LIMIT)
    }

    fn expect(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(
            ended.code(),
            0,
            "{arguments:?}: {}{}",
            ended.text(),
            ended.complaints()
        );
        ended.text()
    }

    /// Expects an error, and returns what it says.
    fn refused(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(
            ended.code(),
            2,
            "{arguments:?}: {}{}",
            ended.text(),
            ended.complaints()
        );
        ended.complaints()
    }

    /// Expects that no program left copies, or a directory whose name is a URL.
    fn expect_nothing_left(&self) {
        let left: Vec<_> = fs::read_dir(self.local("tmp")).expect("listed").collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!self.local("s3:").exists());
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("listed") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// Returns the files below a directory, by name.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).expect("listed") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(directory).expect("below").display().to_string();
                found.push((name, fs::read(path).expect("read")));
            }
        }
    }
    found.sort();
    found
}

/// Returns a summary without what differs between two merges of the same logs.
fn summary(session: &Path) -> Value {
    let text = fs::read_to_string(session.join("session.json")).expect("a summary");
    let mut summary: Value = serde_json::from_str(&text).expect("JSON");
    summary["written_unix_ns"] = Value::Null;
    summary["directories"] = Value::Null;
    for rank in summary["ranks"].as_array_mut().expect("ranks") {
        let log = rank["log"].as_str().expect("a path");
        rank["log"] = log.rsplit('/').next().into();
    }
    summary
}

/// Expects the same session in two directories: the tables byte for byte.
fn expect_same(one: &Path, other: &Path) {
    assert_eq!(summary(one), summary(other));
    let tables = |session: &Path| -> Vec<(String, Vec<u8>)> {
        let mut files = files(session);
        // The index has the time at which the session was written.
        files.retain(|(name, _)| name.ends_with(".parquet"));
        files
    };
    let (one, other) = (tables(one), tables(other));
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    assert!(one.len() > 10, "{:?}", names(&one));
    for ((name, one), (_, other)) in one.iter().zip(&other) {
        assert!(one == other, "{name} differs");
    }
}

#[test]
fn a_run_in_a_bucket_is_merged_like_one_of_this_machine() {
    let place = Place::with(&Ddp {
        slow: Some((2, 900_000)),
        ..Ddp::default()
    });
    let here = place.expect(&["merge", "job"]);
    let there = place.expect(&["merge", "s3://runs/job"]);
    assert_eq!(there.replace("s3://runs/job", "job"), here);
    assert!(there.contains("s3://runs/job/report.html"), "{there}");
    let session = place.bucket.join("job/session");
    expect_same(&place.local("job/session"), &session);
    let written: Value =
        serde_json::from_slice(&fs::read(session.join("session.json")).expect("read")).expect("JSON");
    assert_eq!(written["directories"][0], "s3://runs/job");
    assert_eq!(written["ranks"][0]["log"], "s3://runs/job/rank-0.rslog");
    assert!(place.bucket.join("job/trace.pftrace").is_file());

    // Again, onto another place, with a file of an older session there.
    fs::create_dir_all(place.bucket.join("copy/session/works")).expect("made");
    fs::write(place.bucket.join("copy/session/works/rank=0.parquet"), "old").expect("written");
    fs::write(place.bucket.join("copy/notes.txt"), "of a user").expect("written");
    place.expect(&["merge", "s3://runs/job", "-o", "s3://runs/copy"]);
    expect_same(&session, &place.bucket.join("copy/session"));
    assert!(place.bucket.join("copy/notes.txt").is_file());
    // From a bucket to this machine.
    place.expect(&["merge", "s3://runs/job", "-o", "here"]);
    expect_same(&session, &place.local("here/session"));
    place.expect_nothing_left();
}

/// Returns the periods of a run in the bucket or on this machine. Directories have other names.
fn periods_of(session: &Path) -> Value {
    let text = fs::read(session.join("periods.json")).expect("a list");
    let mut list: Value = serde_json::from_slice(&text).expect("JSON");
    list["directories"] = Value::Null;
    list
}

/// Expects the same periods in two session directories, and returns their names.
fn expect_same_periods(one: &Path, other: &Path) -> Vec<String> {
    let list = periods_of(one);
    assert_eq!(list, periods_of(other));
    let periods = list["periods"].as_array().expect("a list").iter();
    let names: Vec<String> = periods
        .map(|period| period["name"].as_str().expect("a name").to_owned())
        .collect();
    for name in &names {
        let period = |session: &Path| session.join("periods").join(name);
        expect_same(&period(one), &period(other));
    }
    names
}

/// Writes the logs of a job that started this many seconds after the others.
fn write_later(job: &Ddp, seconds: u64, directory: &Path) {
    let mut logs = Vec::new();
    for rank in 0..job.ranks {
        let file = fs::File::create(directory.join(format!("later-{rank}.rslog"))).expect("a file");
        let begin = START + seconds * 1_000_000_000;
        let mut log =
            SyntheticLog::new_at(file, (rank, job.ranks), "host-a", (1 << 20, 1), begin).expect("a log");
        log.communicator(0, rank, job.ranks, 9).expect("written");
        logs.push(log);
    }
    job.fill(&mut logs).expect("written");
    logs.into_iter().for_each(|log| drop(log.end().expect("written")));
}

/// A later merge reads and writes only what is new, and the result is that of a merge of all on this machine.
#[test]
fn a_long_run_in_a_bucket_is_merged_in_periods() {
    let job = Ddp::of_long_steps(300);
    let place = Place::with(&job);
    let (bucket, here) = (place.bucket.join("job"), place.local("job"));
    let kept = place.local("kept");
    let kept = kept.to_str().expect("text");
    let every = ["merge", "--every", "7s", "s3://runs/job", "--scratch", kept];
    let there = place.expect(&every);
    let expected = place.expect(&["merge", "--every", "7s", "job"]);
    assert_eq!(there.replace("s3://runs/job", "job"), expected);
    let first = expect_same_periods(&here.join("session"), &bucket.join("session"));
    assert!(first.len() > 3, "{first:?}");
    assert!(bucket.join("report.html").is_file());

    // Readers of the store.
    let shown = place.expect(&["report", "s3://runs/job"]);
    assert_eq!(
        shown.replace("s3://runs/job", "job"),
        place.expect(&["report", "job"])
    );
    let one = format!("job/session/periods/{}", first[1]);
    let remote = place.expect(&["report", &format!("s3://runs/{one}")]);
    assert_eq!(
        remote.replace("s3://runs/job", "job"),
        place.expect(&["report", &one])
    );
    let range = place.expect(&["report", "s3://runs/job", "--range", "8s..9s"]);
    assert_eq!(range, place.expect(&["report", "job", "--range", "8s..9s"]));
    let whole = place.refused(&["merge", "s3://runs/job"]);
    assert!(whole.contains("--every 7s") && !whole.contains(kept), "{whole}");
    let other = place.refused(&["merge", "--every", "5s", "s3://runs/job", "--scratch", kept]);
    assert!(
        other.contains("s3://runs/job") && other.contains("periods of 7s"),
        "{other}"
    );

    // The next attempt of the job begins later.
    write_later(&job, 60, &bucket);
    write_later(&job, 60, &here);
    place.server.reset_counters();
    place.expect(&every);
    let requests = place.server.requests().into_iter();
    let read: Vec<_> = requests
        .filter(|request| request.method == "GET" && request.path.ends_with(".rslog"))
        .map(|request| request.path)
        .collect();
    assert!(
        read.len() >= 4 && read.iter().all(|path| path.contains("/later-")),
        "{read:?}"
    );
    let rewritten = place.server.requests().into_iter().filter(|request| {
        request.method == "PUT" && first.iter().any(|name| request.path.contains(name.as_str()))
    });
    assert_eq!(rewritten.count(), 0, "final periods were written again");
    place.expect(&["merge", "--every", "7s", "job"]);
    let all = expect_same_periods(&here.join("session"), &bucket.join("session"));
    assert!(all.len() > first.len() + 3, "{all:?}");

    // A log that grows after its periods are final. Only its end is copied, and the store's name is shown.
    let log = bucket.join("later-0.rslog");
    let whole = fs::read(&log).expect("a log");
    fs::write(&log, &whole[..whole.len() / 2]).expect("written");
    let fresh = [
        "merge",
        "--every",
        "7s",
        "s3://runs/job",
        "-o",
        "s3://runs/new",
        "--scratch",
        kept,
    ];
    place.expect(&fresh);
    fs::write(&log, &whole).expect("written");
    place.server.reset_counters();
    let ended = place.run(&fresh);
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    assert!(
        ended
            .complaints()
            .contains("s3://runs/job/later-0.rslog: the log went on"),
        "{}",
        ended.complaints()
    );
    let read: Vec<_> = place
        .server
        .requests()
        .into_iter()
        .filter(|request| request.path.ends_with(".rslog"))
        .collect();
    assert!(
        !read.is_empty() && read.iter().all(|request| request.path.ends_with("later-0.rslog")),
        "{read:?}"
    );
    let copies: Vec<_> = files(Path::new(kept))
        .into_iter()
        .filter(|(name, _)| name.ends_with("later-0.rslog"))
        .collect();
    assert!(copies.len() == 2 && copies.iter().all(|(_, copy)| *copy == whole));
    // A longer log of another process has the name of one that was copied.
    let replaced = bucket.join("later-1.rslog");
    let longer = [whole.as_slice(), &[0; 100]].concat();
    fs::write(&replaced, &longer).expect("written");
    place.expect(&fresh);
    let copies = files(Path::new(kept)).into_iter();
    let of_replaced = |(name, _): &(String, Vec<u8>)| name.ends_with("later-1.rslog");
    assert_eq!(
        copies
            .filter(of_replaced)
            .filter(|(_, copy)| *copy == longer)
            .count(),
        1
    );
    fs::copy(here.join("later-1.rslog"), &replaced).expect("written");
    // Without a place for copies, all logs are copied to a temporary directory.
    place.expect(&["merge", "--every", "7s", "s3://runs/job"]);
    expect_same_periods(&here.join("session"), &bucket.join("session"));
    place.expect_nothing_left();
}

/// What a failed merge left is replaced by the next one.
#[test]
fn periods_whose_upload_fails_are_merged_again() {
    let place = Place::with(&Ddp::of_long_steps(300));
    place.expect(&["merge", "--every", "7s", "job"]);
    let names = expect_same_periods(&place.local("job/session"), &place.local("job/session"));
    let kept = place.local("kept");
    let every = [
        "merge",
        "--every",
        "7s",
        "s3://runs/job",
        "--scratch",
        kept.to_str().expect("text"),
    ];
    for (number, refused) in [
        format!("periods/{}/spans/rank=2", names[2]),
        format!("periods/{}/session.json", names[1]),
        "session/periods.json".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        // Requests of a failed merge may still arrive, so each merge has its own place.
        let output = format!("s3://runs/refused-{number}");
        let fault = Fault::new("PUT", &refused, Effect::Answer(Refusal::AccessDenied));
        // The empty list of the first merge is written.
        place.server.faults(vec![match refused.contains("periods.json") {
            true => fault.skip(1),
            false => fault,
        }]);
        place.refused(&["merge", "--every", "7s", "s3://runs/job", "-o", &output]);
        assert!(place.server.fired()[0] > 0, "{refused}");
        let list = periods_of(&place.bucket.join(format!("refused-{number}/session")));
        assert_eq!(list["periods"].as_array().expect("a list").len(), 0, "{refused}");
        place.server.faults(Vec::new());
    }
    place.server.faults(vec![
        Fault::new("PUT", "/session.json", Effect::Answer(Refusal::AccessDenied)).skip(1),
    ]);
    place.refused(&every);
    place.server.reset_counters();
    // An interrupted merge leaves no lock. The next one continues with what was merged.
    let stall = Effect::Stall(Duration::from_secs(20));
    let fault = Fault::new("PUT", &format!("{}/operations/rank=1", names[3]), stall);
    place.server.faults(vec![fault]);
    let mut command = place.command("rankscope");
    command.args(every);
    let merge = Process::start(command);
    wait_until("the stalled request", || place.server.fired()[0] > 0);
    merge.signal(libc::SIGINT);
    let ended = merge.wait(LIMIT);
    assert_eq!(ended.code(), 128 + libc::SIGINT, "{}", ended.complaints());
    let locks: Vec<_> = files(&kept)
        .into_iter()
        .filter(|(name, _)| name.ends_with("merging.json"))
        .collect();
    assert!(locks.is_empty(), "{locks:?}");
    let copied = files(&kept);
    let tables = copied
        .iter()
        .find(|(name, _)| name.ends_with(&format!("{}/session.json", names[0])));
    // Of two periods that were copied, one loses a table, and a table of the other one gets another size.
    let table = |period: &str| {
        let periods = place.bucket.join("job/session/periods");
        let tables = files(&periods.join(period)).into_iter();
        let mut tables = tables.filter(|(name, _)| name.ends_with(".parquet"));
        let (name, bytes) = tables.next().expect("a table");
        (periods.join(period).join(name), bytes)
    };
    fs::remove_file(table(&names[1]).0).expect("removed");
    let (longer, bytes) = table(&names[2]);
    fs::write(longer, [&bytes[..], b"more"].concat()).expect("written");
    place.server.faults(Vec::new());
    place.expect(&every);
    let again = place.server.requests().into_iter();
    let again = again.filter(|request| request.method == "PUT" && request.path.contains(names[0].as_str()));
    assert_eq!(
        again.count(),
        0,
        "a period that was copied before is copied again"
    );
    expect_same_periods(&place.local("job/session"), &place.bucket.join("job/session"));
    place.expect_nothing_left();
    let delivered = place
        .bucket
        .join("job/session/periods")
        .join(&names[0])
        .join("session.json");
    let (_, merged) = tables.expect("a period that was merged before");
    assert!(
        *merged == fs::read(delivered).expect("a summary"),
        "the period was merged again"
    );
    // Tables of final periods take no space beside the store.
    let left = files(&kept)
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.ends_with(".parquet"));
    assert_eq!(left.count(), 0);

    // Other files are not taken for periods, and a session of the whole run stays.
    fs::create_dir_all(place.bucket.join("other/session")).expect("made");
    fs::write(place.bucket.join("other/session/notes.txt"), "of a user").expect("written");
    let occupied = place.refused(&["merge", "--every", "7s", "s3://runs/job", "-o", "s3://runs/other"]);
    assert!(occupied.contains("notes.txt"), "{occupied}");
    place.expect(&[
        "merge",
        "s3://runs/job",
        "-o",
        "s3://runs/whole",
        "--only-session",
    ]);
    let whole = place.refused(&["merge", "--every", "7s", "s3://runs/job", "-o", "s3://runs/whole"]);
    assert!(whole.contains("whole run"), "{whole}");
}

/// While a merge uploads, another one writes the list, or removes the summary of a period to replace it.
#[test]
fn another_merge_of_the_same_periods_is_noticed() {
    type Other = fn(&Path, &str);
    let others: [Other; 2] = [
        |session, _| {
            let mut list = Periods::read(session).expect("readable").expect("periods");
            list.origin_unix_ns += 1;
            list.write(session).expect("written");
        },
        |session, first| {
            let summary = session.join("periods").join(first).join("session.json");
            fs::remove_file(summary).expect("removed");
        },
    ];
    let place = Place::with(&Ddp::of_long_steps(200));
    place.expect(&["merge", "--every", "7s", "job"]);
    let names = expect_same_periods(&place.local("job/session"), &place.local("job/session"));
    for (number, other) in others.into_iter().enumerate() {
        let output = format!("s3://runs/out-{number}");
        let stall = Effect::Stall(Duration::from_secs(2));
        let fault = Fault::new("PUT", &format!("{}/operations/rank=1", names[1]), stall);
        place.server.faults(vec![fault]);
        let mut command = place.command("rankscope");
        command.args(["merge", "--every", "7s", "s3://runs/job", "-o", &output]);
        let merge = Process::start(command);
        wait_until("the stalled request", || place.server.fired()[0] > 0);
        let session = place.bucket.join(format!("out-{number}/session"));
        other(&session, &names[0]);
        let ended = merge.wait(LIMIT);
        assert_eq!(ended.code(), 2, "{}", ended.complaints());
        assert!(
            ended.complaints().contains("another merge"),
            "{}",
            ended.complaints()
        );
        let list = periods_of(&session);
        assert_eq!(list["periods"].as_array().expect("a list").len(), 0);
    }
}

#[test]
fn all_readers_show_the_same_of_a_remote_session() {
    let place = Place::with(&Ddp {
        slow: Some((1, 700_000)),
        ..Ddp::default()
    });
    place.expect(&["merge", "s3://runs/job"]);
    copy(&place.bucket.join("job"), &place.local("copy"));
    for arguments in [
        vec!["report", "RUN"],
        vec!["report", "RUN", "--json"],
        vec!["report", "RUN", "--by", "host"],
        vec!["report", "RUN", "--range", "5ms..30ms"],
        vec!["export", "--perfetto", "RUN"],
        vec!["heatmap", "RUN"],
        vec!["compare", "RUN", "--", "job"],
    ] {
        if arguments[0] == "compare" && !place.local("job/session").exists() {
            place.expect(&["merge", "job"]);
        }
        let with =
            |run: &str| -> Vec<String> { arguments.iter().map(|text| text.replace("RUN", run)).collect() };
        let shown = |run: &str| {
            let arguments = with(run);
            let ended = place.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            let text = ended.text() + &ended.complaints();
            (
                ended.code(),
                text.replace("s3://runs/job", "RUN").replace("copy", "RUN"),
            )
        };
        assert_eq!(shown("s3://runs/job"), shown("copy"), "{arguments:?}");
    }
    let written = |name: &str| {
        let read =
            |path: PathBuf| fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (
            read(place.bucket.join("job").join(name)),
            read(place.local("copy").join(name)),
        )
    };
    for name in ["report.html", "trace.pftrace", "heatmaps/wait.png"] {
        let (remote, local) = written(name);
        let text = |bytes: Vec<u8>| {
            String::from_utf8_lossy(&bytes)
                .replace("s3://runs/job", "RUN")
                .replace("copy", "RUN")
        };
        assert!(text(remote) == text(local), "{name}");
    }
    // The same file by its URL.
    let url = format!("file://{}", place.local("copy").display());
    assert_eq!(
        place.expect(&["report", &url, "--json"]),
        place.expect(&["report", "copy", "--json"])
    );
    place.expect_nothing_left();
}

#[test]
fn failures_of_the_store_change_no_result() {
    let place = Place::with(&Ddp::default());
    place.expect(&["merge", "job"]);
    let slow = || Effect::Answer(Refusal::SlowDown);
    for (what, faults) in [
        (
            "busy",
            vec![
                Fault::new("GET", "", slow()).first(3),
                Fault::new("PUT", "", slow()).first(3),
            ],
        ),
        (
            "broken",
            vec![
                Fault::new("", "", Effect::Answer(Refusal::InternalError))
                    .every(7)
                    .first(6),
            ],
        ),
        (
            "closed",
            vec![Fault::new("", "", Effect::Close).every(5).first(8)],
        ),
        (
            "cut",
            vec![Fault::new("GET", ".rslog", Effect::CutBody { after: 1000 }).first(3)],
        ),
        (
            "lost",
            vec![
                Fault::new("PUT", "", Effect::LoseAnswer).every(6).first(4),
                Fault::new("POST", "", Effect::LoseAnswer).first(1),
            ],
        ),
        (
            "late",
            vec![
                Fault::new("", "", Effect::Stall(Duration::from_millis(300)))
                    .every(9)
                    .first(5),
            ],
        ),
    ] {
        place.server.faults(faults);
        place.expect(&["merge", "s3://runs/job"]);
        assert!(
            place.server.fired().iter().all(|&fired| fired > 0),
            "{what}: {:?}",
            place.server.fired()
        );
        expect_same(&place.local("job/session"), &place.bucket.join("job/session"));
        place.server.faults(vec![
            Fault::new("GET", ".view", Effect::CutBody { after: 100 }).first(2),
            Fault::new("", "", slow()).every(4).first(3),
        ]);
        let remote = place.expect(&["report", "s3://runs/job", "--range", "5ms..30ms"]);
        place.server.faults(Vec::new());
        assert_eq!(
            remote,
            place.expect(&["report", "job", "--range", "5ms..30ms"]),
            "{what}"
        );
    }
    place.expect_nothing_left();
}

#[test]
fn an_upload_that_fails_never_looks_complete() {
    let place = Place::with(&Ddp::default());
    place.expect(&["merge", "s3://runs/job"]);
    let summary = place.bucket.join("job/session/session.json");
    // The store refuses one table.
    place.server.faults(vec![Fault::new(
        "PUT",
        "spans/rank=2",
        Effect::Answer(Refusal::AccessDenied),
    )]);
    let error = place.refused(&["merge", "s3://runs/job"]);
    assert!(
        error.contains("s3://runs/job/session/spans/rank=2.parquet"),
        "{error}"
    );
    assert!(error.contains("permissions"), "{error}");
    assert!(!summary.exists(), "the older session has lost files");
    place.server.faults(Vec::new());
    let error = place.refused(&["report", "s3://runs/job"]);
    assert!(error.contains("rankscope merge s3://runs/job"), "{error}");

    // The program is killed, and then interrupted, in the middle.
    for signal in [libc::SIGKILL, libc::SIGINT] {
        place.server.reset_counters();
        let stall = Effect::Stall(Duration::from_secs(20));
        place
            .server
            .faults(vec![Fault::new("PUT", "operations/rank=3", stall)]);
        let mut command = place.command("rankscope");
        command.args(["merge", "s3://runs/job"]);
        let merge = Process::start(command);
        wait_until("the stalled request", || place.server.fired()[0] > 0);
        merge.signal(signal);
        let ended = merge.wait(LIMIT);
        assert_eq!(ended.code(), 128 + signal, "{}", ended.complaints());
        assert!(!summary.exists());
        let left = fs::read_dir(place.local("tmp")).expect("listed").count();
        assert_eq!(
            left > 0,
            signal == libc::SIGKILL,
            "an interrupted program removes its copies"
        );
        fs::remove_dir_all(place.local("tmp")).expect("removed");
        fs::create_dir(place.local("tmp")).expect("made");
    }
    place.server.faults(Vec::new());
    place.expect(&["merge", "job"]);
    place.expect(&["merge", "s3://runs/job"]);
    expect_same(&place.local("job/session"), &place.bucket.join("job/session"));
    place.expect_nothing_left();
}

#[test]
fn two_writers_do_not_mix_their_sessions() {
    let place = Place::with(&Ddp::default());
    let table = place.bucket.join("job/session/operations/rank=0.parquet");
    let summary = place.bucket.join("job/session/session.json");
    // Another program replaces a table before and after the first one looks.
    for stalled in ["traffic/part-0", "session.json"] {
        let stall = Effect::Stall(Duration::from_secs(3));
        place
            .server
            .faults(vec![Fault::new("PUT", stalled, stall).first(1)]);
        let mut command = place.command("rankscope");
        command.args(["merge", "s3://runs/job"]);
        let merge = Process::start(command);
        wait_until("the stalled request", || {
            place.server.fired()[0] > 0 && table.is_file()
        });
        fs::write(&table, "another").expect("written");
        let ended = merge.wait(LIMIT);
        assert_eq!(ended.code(), 2, "{stalled}: {}", ended.complaints());
        assert!(
            ended.complaints().contains("replaced by another program"),
            "{}",
            ended.complaints()
        );
        assert!(!summary.exists(), "{stalled}");
    }
    // A second merge runs from start to end while the first one is about to write its summary.
    place.server.faults(vec![
        Fault::new("PUT", "session.json", Effect::Stall(Duration::from_secs(3))).first(1),
    ]);
    let mut command = place.command("rankscope");
    command.args(["merge", "s3://runs/job"]);
    let first = Process::start(command);
    wait_until("the stalled request", || place.server.fired()[0] > 0);
    let second = place.run(&["merge", "job", "-o", "s3://runs/job"]);
    let first = first.wait(LIMIT);
    assert!(
        first.code() == 2 || second.code() == 2,
        "{} {}",
        first.complaints(),
        second.complaints()
    );
    if summary.exists() {
        place.server.faults(Vec::new());
        place.expect(&["merge", "job"]);
        expect_same(&place.local("job/session"), &place.bucket.join("job/session"));
    }
}

#[test]
fn a_session_that_is_replaced_while_it_is_read_is_an_error() {
    let place = Place::with(&Ddp::default());
    place.expect(&["merge", "s3://runs/job"]);
    place.server.faults(vec![
        Fault::new("GET", "traffic/", Effect::Stall(Duration::from_secs(3))).first(1),
    ]);
    let mut command = place.command("rankscope");
    command.args(["report", "s3://runs/job", "--by", "host"]);
    let report = Process::start(command);
    wait_until("the stalled request", || place.server.fired()[0] > 0);
    let merged = place.run(&["merge", "s3://runs/job"]);
    assert_eq!(merged.code(), 0, "{}", merged.complaints());
    let ended = report.wait(LIMIT);
    assert_eq!(ended.code(), 2, "{}", ended.text());
    assert!(
        ended
            .complaints()
            .contains("session.json was replaced while it was read"),
        "{}",
        ended.complaints()
    );
}

#[test]
fn a_merge_touches_only_its_own_files() {
    let place = Place::with(&Ddp::default());
    for name in [
        "model.ckpt",
        "report.html.bak",
        "trace.pftrace.gz",
        "heatmaps-x.txt",
        "node1/other.txt",
    ] {
        let path = place.bucket.join("job").join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, "of a user").expect("written");
    }
    place.expect(&["merge", "s3://runs/job"]);
    let requests = place.server.requests();
    let read = |name: &str| {
        requests
            .iter()
            .any(|request| request.method == "GET" && request.path.ends_with(name))
    };
    assert!(
        read("rank-0.rslog") && !read("model.ckpt"),
        "only inputs are copied"
    );
    let kept = |name: &str| place.bucket.join("job").join(name).is_file();
    assert!(kept("model.ckpt") && kept("report.html.bak") && kept("trace.pftrace.gz"));
    place.expect(&["merge", "s3://runs/job", "--only-session"]);
    assert!(
        kept("report.html") && kept("trace.pftrace"),
        "they stay, as on this machine"
    );

    // A bucket may itself be a run.
    let root = place.server.bucket("whole");
    copy(&place.local("job"), &root);
    place.expect(&["merge", "s3://whole"]);
    place.expect(&["report", "s3://whole"]);
    place.expect(&["heatmap", "s3://whole"]);
    assert!(root.join("report.html").is_file() && root.join("heatmaps/wait.png").is_file());
    fs::create_dir_all(place.server.bucket("bare").join("x")).expect("made");
    copy(&root.join("session"), &place.server.bucket("bare"));
    place.expect(&["export", "--perfetto", "s3://bare"]);
    assert!(place.server.bucket("bare").join("trace.pftrace").is_file());
    place.expect_nothing_left();
}

#[test]
fn a_reader_without_the_right_to_write_gets_the_summary() {
    let place = Place::with(&Ddp::default());
    place.expect(&["merge", "s3://runs/job"]);
    place
        .server
        .faults(vec![Fault::new("PUT", "", Effect::Answer(Refusal::AccessDenied))]);
    let ended = place.run(&["report", "s3://runs/job"]);
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    assert!(ended.text().contains("Coverage"), "{}", ended.text());
    assert!(
        ended.complaints().contains("--html") && ended.complaints().contains("permissions"),
        "{}",
        ended.complaints()
    );
    let error = place.refused(&["report", "s3://runs/job", "--html", "s3://runs/page.html"]);
    assert!(
        error.contains("s3://runs/page.html") && !error.contains("panicked"),
        "{error}"
    );
    place.expect(&["report", "s3://runs/job", "--html", "page.html"]);
}

#[test]
fn a_run_that_cannot_be_read_fails_a_comparison() {
    let place = Place::new();
    for run in ["base/1", "base/2", "base/3", "new/1", "new/2", "new/3"] {
        let job = Ddp {
            noise: 1 + u32::from(run.as_bytes()[run.len() - 1]) + u32::from(run.starts_with("new")) * 10,
            ..Ddp::default()
        };
        job.write(&place.bucket.join(run)).expect("logs");
        place.expect(&["merge", &format!("s3://runs/{run}")]);
    }
    let compare = [
        "compare",
        "s3://runs/base",
        "--",
        "s3://runs/new",
        "--html",
        "s3://runs/page.html",
    ];
    let well = place.run(&compare);
    assert!(matches!(well.code(), 0 | 1 | 3), "{}", well.complaints());
    assert!(place.bucket.join("page.html").is_file());
    place.server.faults(vec![Fault::new(
        "",
        "base/2/session/session.json",
        Effect::Answer(Refusal::AccessDenied),
    )]);
    let error = place.refused(&compare);
    assert!(
        error.contains("s3://runs/base/2") && error.contains("denied"),
        "{error}"
    );
}

#[test]
fn a_job_keeps_its_own_arguments() {
    let place = Place::new();
    let ended = place.run(&[
        "run",
        "-o",
        "here",
        "echo",
        "--init_method=file:///a%20b",
        "--data=s3://b/x",
    ]);
    assert!(
        ended
            .text()
            .contains("--init_method=file:///a%20b --data=s3://b/x"),
        "{}",
        ended.text()
    );
    for (arguments, variable) in [
        (vec!["run", "-o", "s3://runs/x", "--", "true"], None),
        (vec!["run", "--", "true"], Some("s3://runs/x")),
    ] {
        let mut command = place.command("rankscope");
        command.args(&arguments);
        if let Some(variable) = variable {
            command.env("RANKSCOPE_DIR", variable);
        }
        let ended = process::run(command, LIMIT);
        assert!(
            ended.code() != 0 && ended.complaints().contains("directory of this machine"),
            "{}",
            ended.complaints()
        );
    }
    place.expect_nothing_left();
}

#[test]
fn large_files_go_in_parts_and_a_lost_answer_completes_them() {
    let place = Place::with(&Ddp {
        steps: 50_000,
        ..Ddp::default()
    });
    // The last request of an upload in parts is executed, but its answer is lost. The repeated one finds no upload.
    place.server.faults(vec![
        Fault::new("POST", "trace.pftrace", Effect::LoseAnswer)
            .query("uploadId=")
            .first(1),
    ]);
    place.expect(&["merge", "s3://runs/job"]);
    assert_eq!(place.server.fired(), [1], "the trace has more than 8 MiB");
    let trace = fs::read(place.bucket.join("job/trace.pftrace")).expect("a trace");
    place.expect(&["merge", "job"]);
    assert!(trace == fs::read(place.local("job/trace.pftrace")).expect("a trace"));
    expect_same(&place.local("job/session"), &place.bucket.join("job/session"));

    // A file that is written while it is computed.
    place.server.faults(vec![
        Fault::new("POST", "other.pftrace", Effect::LoseAnswer)
            .query("uploadId=")
            .first(1),
    ]);
    place.expect(&[
        "export",
        "--perfetto",
        "s3://runs/job",
        "-o",
        "s3://runs/other.pftrace",
    ]);
    assert_eq!(place.server.fired(), [1]);
    assert!(trace == fs::read(place.bucket.join("other.pftrace")).expect("a trace"));
    // A part that cannot be written leaves neither a file nor parts.
    place.server.faults(vec![
        Fault::new("PUT", "third.pftrace", Effect::Answer(Refusal::AccessDenied)).skip(1),
    ]);
    let error = place.refused(&[
        "export",
        "--perfetto",
        "s3://runs/job",
        "-o",
        "s3://runs/third.pftrace",
    ]);
    assert!(error.contains("s3://runs/third.pftrace"), "{error}");
    assert!(!place.bucket.join("third.pftrace").exists());
    assert!(place.server.uploads_in_progress().is_empty());

    // A range of the run needs the index and few parts of large tables.
    let table = fs::metadata(place.bucket.join("job/session/instances/part-0.parquet"))
        .expect("a table")
        .len();
    assert!(table > 1 << 20, "{table} bytes are read whole");
    place.server.faults(Vec::new());
    place.server.reset_counters();
    let range = ["--range", "1s..1.01s"];
    let remote = place.expect(&[&["report", "s3://runs/job"], &range[..]].concat());
    let of_tables: u64 = place
        .server
        .requests()
        .iter()
        .filter(|request| request.path.contains("instances/") && request.method == "GET")
        .count() as u64;
    assert!(of_tables > 0, "the range needs instances");
    let sizes: u64 = files(&place.bucket.join("job/session"))
        .iter()
        .map(|(_, bytes)| bytes.len() as u64)
        .sum();
    let sent = place.server.counters().bytes_sent;
    assert!(
        sent < sizes,
        "{sent} of {sizes} bytes: {:#?}",
        place.server.requests()
    );
    assert_eq!(remote, place.expect(&[&["report", "job"], &range[..]].concat()));
}

#[test]
fn credentials_come_from_where_the_vendors_tools_take_them() {
    let place = Place::with(&Ddp::default());
    place.expect(&["merge", "s3://runs/job"]);
    let variable = |name: &str| {
        let all = place.server.environment();
        all.into_iter()
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value)
            .expect("a variable")
    };
    let (id, secret, endpoint) = (
        variable("AWS_ACCESS_KEY_ID"),
        variable("AWS_SECRET_ACCESS_KEY"),
        variable("AWS_ENDPOINT_URL"),
    );
    let folder = place.local(".aws");
    fs::create_dir(&folder).expect("made");
    fs::write(
        folder.join("config"),
        format!(
            "[default]\nregion = us-east-1\nendpoint_url = {endpoint}\n\n[profile made]\nregion = us-east-1\nendpoint_url = {endpoint}\n\
             credential_process = \"/bin/echo\" '{{\"Version\": 1, \"AccessKeyId\": \"{id}\", \"SecretAccessKey\": \"{secret}\"}}'\n"
        ),
    )
    .expect("written");
    fs::write(
        folder.join("credentials"),
        format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n"),
    )
    .expect("written");
    let report = |variables: &[(&str, &str)]| {
        let mut command = place.command("rankscope");
        for (name, _) in place.server.environment() {
            command.env_remove(name);
        }
        command
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .envs(variables.iter().copied())
            .args(["report", "s3://runs/job", "--json"]);
        process::run(command, LIMIT)
    };
    assert_eq!(report(&[]).code(), 0, "{}", report(&[]).complaints());
    assert_eq!(report(&[("AWS_PROFILE", "made")]).code(), 0);
    let unknown = report(&[("AWS_PROFILE", "other")]).complaints();
    assert!(unknown.contains("other"), "{unknown}");
    let none = report(&[("HOME", "/nowhere"), ("AWS_ENDPOINT_URL", &endpoint)]).complaints();
    assert!(
        none.contains("AWS_ACCESS_KEY_ID") && none.contains("aws configure"),
        "{none}"
    );
    let wrong = report(&[("AWS_ACCESS_KEY_ID", &id), ("AWS_SECRET_ACCESS_KEY", "wrong")]).complaints();
    assert!(
        wrong.contains("credentials") && !wrong.contains("wrong"),
        "{wrong}"
    );
    let azure = place.refused(&["report", "az://container/run"]);
    assert!(azure.contains("AZURE_STORAGE_ACCOUNT"), "{azure}");
}

#[test]
fn errors_say_what_is_missing() {
    let place = Place::with(&Ddp::default());
    for (arguments, expected) in [
        (vec!["report", "s3://runs/job"], "rankscope merge s3://runs/job"),
        (
            vec!["report", "s3://runs/nothing"],
            "not found: s3://runs/nothing",
        ),
        (vec!["report", "s3://nobucket/run"], "no such bucket"),
        (vec!["merge", "s3://runs"], "no rank logs"),
        (vec!["merge", "s3://runs/nothing"], "no rank logs"),
        (vec!["merge", "s3://runs/a//b"], "s3://runs/a//b"),
        (vec!["merge", "s3://"], "bucket"),
        (
            vec!["merge", "s3://runs/job", "--scratch", "/nowhere"],
            "--scratch",
        ),
        (vec!["status", "s3://runs/new"], "path of this machine"),
        (
            vec!["compare", "s3://runs/job", "--", "s3://runs/job"],
            "rankscope merge s3://runs/job",
        ),
    ] {
        let error = place.refused(&arguments);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    // A damaged log is a problem of the session, under its URL.
    let log = place.bucket.join("job/rank-1.rslog");
    let bytes = fs::read(&log).expect("a log");
    fs::write(&log, &bytes[..bytes.len() / 2]).expect("cut");
    place.expect(&["merge", "s3://runs/job"]);
    let written = fs::read(place.bucket.join("job/session/session.json")).expect("a summary");
    let written: Value = serde_json::from_slice(&written).expect("JSON");
    let problems = written["problems"]["listed"].to_string();
    assert!(problems.contains("s3://runs/job/rank-1.rslog"), "{problems}");
    assert!(
        !written.to_string().contains("rankscope-merge-"),
        "no name of a copy"
    );
    // Nothing listens there.
    let mut command = place.command("rankscope");
    command
        .env("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        .args(["report", "s3://runs/job"]);
    let started = Instant::now();
    let ended = process::run(command, LIMIT);
    assert!(ended.complaints().contains("refused"), "{}", ended.complaints());
    assert!(started.elapsed() < Duration::from_secs(60));
    place.expect_nothing_left();
}

/// Microsoft's emulator of Azure Blob Storage, with the logs of a run.
#[test]
#[ignore = "needs 400 MB from npm: make test-azure"]
fn azure_has_the_same_sessions() {
    let Some(folder) = setup::path("azure.sh") else {
        return;
    };
    let place = Place::with(&Ddp {
        steps: 50_000,
        ..Ddp::default()
    });
    let mut emulator = Command::new("node")
        .arg(folder.join("emulator.mjs"))
        .arg(&place.bucket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node starts");
    let mut connection = String::new();
    let output = emulator.stdout.take().expect("an output");
    BufReader::new(output)
        .read_line(&mut connection)
        .expect("a connection string");
    let run = |arguments: &[&str]| {
        let mut command = place.command("rankscope");
        command
            .env("AZURE_STORAGE_CONNECTION_STRING", connection.trim())
            .args(arguments);
        process::run(command, LIMIT)
    };
    let expect = |arguments: &[&str]| {
        let ended = run(arguments);
        assert_eq!(ended.code(), 0, "{arguments:?}: {}", ended.complaints());
        ended.text()
    };
    expect(&["merge", "job"]);
    let there = expect(&["merge", "az://runs/job"]);
    assert!(there.contains("az://runs/job/report.html"), "{there}");
    for arguments in [
        vec!["report", "RUN", "--json"],
        vec!["report", "RUN", "--range", "1s..1.1s"],
        vec!["heatmap", "RUN", "-o", "maps"],
        vec![
            "export",
            "--perfetto",
            "RUN",
            "-o",
            "x.pftrace",
            "--range",
            "1s..2s",
        ],
    ] {
        let of = |run: &str| {
            arguments
                .iter()
                .map(|text| text.replace("RUN", run))
                .collect::<Vec<_>>()
        };
        let shown = |run: &str| {
            let text = expect(&of(run).iter().map(String::as_str).collect::<Vec<_>>());
            let same = text.lines().filter(|line| !line.contains("written_unix_ns"));
            same.collect::<Vec<_>>()
                .join("\n")
                .replace("az://runs/job", "job")
        };
        assert_eq!(shown("az://runs/job"), shown("job"), "{arguments:?}");
    }
    // Again, over the older session; and a file in parts.
    expect(&["merge", "az://runs/job"]);
    expect(&[
        "export",
        "--perfetto",
        "az://runs/job",
        "-o",
        "az://runs/x.pftrace",
    ]);
    let error = run(&["report", "az://none/job"]).complaints();
    assert!(error.contains("no such bucket"), "{error}");
    drop(emulator.stdin.take());
    emulator.wait().expect("it ends");
    place.expect_nothing_left();
}
