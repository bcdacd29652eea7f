//! What a recording and its report tell others: no secrets in any file, and no names of the site in a shared report.

use parquet::file::reader::{FileReader, SerializedFileReader};
use rankscope_ranklog::reader::RankLog;
use rankscope_tests::{artefacts, compile, process, recorded, results, turn};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Part of every secret of the test.
const PLANTED: &str = "Pl4nted";

/// Starts two ranks. The arguments after those of the program have secrets.
const TWO_RANKS: &str = r#"
mkdir -p "$1"
program=$0 store=$1; shift
"$program" 0 2 "$store" ddp 60 5000 none 1 0 7 "$@" & first=$!
"$program" 1 2 "$store" ddp 60 5000 none 1 0 7 "$@" & second=$!
wait $first && wait $second
"#;

/// Returns all files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    entries
        .flat_map(|entry| match entry.path() {
            path if path.is_dir() => files(&path),
            path => vec![path],
        })
        .collect()
}

/// Records the job with secrets in its arguments and variables, and merges it.
fn record(program: &Path, folder: &Path) -> PathBuf {
    let (run, truth) = (folder.join("run"), folder.join("truth"));
    fs::create_dir(&truth).expect("a directory");
    let mut rankscope = Command::new(artefacts::program());
    process::clean(&mut rankscope);
    let secret = |text: &str| text.replace('*', &format!("x{PLANTED}01234567890123456789012345"));
    rankscope
        .env("RANKSCOPE_LIBRARY", artefacts::library())
        .env("TRUTH_DIR", truth)
        .env("NCCL_FAKE_TOKEN", secret("*"))
        .env("RAY_ADDRESS", secret("ray://ann:*@head:10001"))
        .env("TORCH_HEADERS", secret("{\"Authorization\": \"Bearer *\"}"))
        .env("RANKSCOPE_SECRET_NAMES", "site code")
        .env("JAX_SITE_CODE", secret("*"))
        .env("MASTER_ADDR", "10.20.30.40")
        .args(["run", "-o"])
        .arg(&run)
        .args(["--", "sh", "-c", TWO_RANKS])
        .arg(program)
        .arg(folder.join("store"))
        .args([
            "--db",
            &secret("postgres://ann:*@db/runs"),
            "--password",
            &secret("*"),
        ])
        .args([
            &secret("--hf-token=*"),
            &secret("-p*"),
            &secret("Authorization: Bearer *"),
        ])
        .args([&secret("https://a.blob/x?sig=*"), &secret("ghp_*")])
        .args([
            &secret("--env=HF_TOKEN='* *'"),
            &secret("{\"password\": \"* *\"}"),
        ])
        .args(["-u", &secret("ann:*"), &secret("--export=A=1,WANDB_API_KEY=*")])
        .args([&secret("--siteCode=*"), "--max-tokens", "2048"])
        .env("RANKSCOPE_SECRET_PREFIXES", "corp-x")
        .arg(secret("corp-*"))
        .args([
            &secret("label:load postgres://ann:*@db/runs"),
            &secret("label:fetch hf_token=*"),
            &secret("label:ghp_*"),
            &secret("label:siteCode: *"),
            &secret("label:corp-*"),
            "label:forward pass",
        ]);
    let ended = process::run(rankscope, Duration::from_secs(120));
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    run
}

#[test]
fn no_file_of_a_run_has_a_secret_and_a_shared_report_has_no_names() {
    let _turn = turn::take();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = record(&program, folder.path());
    let text = run.to_str().expect("a plain name");
    assert_eq!(results::rankscope(["report", "--share", text]).code(), 0);
    let all = files(&run);
    assert!(all.len() > 8, "{all:?}");
    for file in &all {
        let bytes = fs::read(file).expect("readable");
        let found = bytes
            .windows(PLANTED.len())
            .any(|part| part == PLANTED.as_bytes());
        assert!(!found, "{} has a secret", file.display());
    }
    // Tables are packed.
    let (mut tables, mut plain, mut redacted) = (0, 0, 0);
    for file in all
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "parquet"))
    {
        let reader = SerializedFileReader::new(File::open(file).expect("readable")).expect("Parquet");
        tables += 1;
        for row in reader.get_row_iter(None).expect("rows") {
            let row = row.expect("a row").to_string();
            assert!(!row.contains(PLANTED), "{}: {row}", file.display());
            plain += usize::from(row.contains("forward pass"));
            redacted += usize::from(row.contains("load postgres://ann:[redacted]@db"));
        }
    }
    assert!(
        tables > 10 && plain >= 4 && redacted >= 4,
        "{tables} {plain} {redacted}"
    );
    assert!(run.join("trace.pftrace").is_file(), "the trace was searched");
    // Logs are packed.
    for file in recorded::files(&run) {
        let log = RankLog::open(&file).expect("a log");
        let has = |text: &str| log.properties.values().any(|value| value.contains(text));
        assert!(!has(PLANTED), "{:?}", log.properties);
        // What is no secret stays.
        assert!(has("postgres://ann:[redacted]@db/runs"), "{:?}", log.properties);
        assert!(
            has("--max-tokens 2048") && has("10.20.30.40"),
            "{:?}",
            log.properties
        );
        assert!(log.texts.values().all(|value| !value.contains(PLANTED)));
        let names = log.communicators.values().map(|one| one.name.as_str());
        let labels: Vec<&str> = log.texts.values().map(String::as_str).chain(names).collect();
        for label in [
            "load postgres://ann:[redacted]@db/runs",
            "fetch hf_token=[redacted]",
            "[redacted]",
            "siteCode: [redacted]",
            "forward pass",
        ] {
            let found = labels.iter().filter(|&&found| found == label).count();
            // The labels of a known shape and of a prefix are redacted as a whole.
            let expected = if label == "[redacted]" { 4 } else { 2 };
            assert!(
                found >= expected,
                "{label} names a span and a communicator: {labels:?}"
            );
        }
        assert!(labels.iter().all(|label| !label.contains(PLANTED)), "{labels:?}");
    }
    let session = fs::read_to_string(run.join("session/session.json")).expect("a session");
    assert!(session.contains("[redacted]"));

    let host = rankscope_ranklog::process::host_name();
    let names = |page: &str| {
        let is_part = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        let has_host = page.match_indices(&host).any(|(at, found)| {
            !is_part(page[..at].chars().next_back()) && !is_part(page[at + found.len()..].chars().next())
        });
        let folder = folder.path().to_str().expect("a plain name");
        [has_host, page.contains(folder), page.contains("10.20.30.40")]
    };
    let read = |name: &str| fs::read_to_string(run.join(name)).expect("a page");
    let (full, shared) = (read("report.html"), read("report-shared.html"));
    assert_eq!(names(&full)[..2], [true; 2], "the test finds what is there");
    assert_eq!(names(&shared), [false; 3]);
    assert!(shared.contains("host-0") && shared.contains("rank 1"));
    // The figures are the same.
    let json = |options: &[&str]| -> serde_json::Value {
        let ended = results::rankscope(["report", "--json", text].iter().chain(options).copied());
        serde_json::from_slice(&ended.stdout).expect("JSON")
    };
    let (full, shared) = (json(&[]), json(&["--share"]));
    for part in ["/totals", "/matching", "/steps", "/waits", "/operations"] {
        assert_eq!(full.pointer(part), shared.pointer(part), "{part}");
    }
    assert_eq!(names(&shared.to_string()), [false; 3]);
}
