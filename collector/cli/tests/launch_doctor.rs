//! Tests the commands around a recording: remains of recordings, the preview of a recording, and error messages.

mod launch_support;

use launch_support::{program, recorder, text, wait_until};
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

#[test]
fn an_uncollected_live_area_is_found_and_collected() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = dir.path().join("run");
    fs::create_dir(&run).expect("made");
    let mut child = Command::new("sh")
        .args(["-c", &format!("exec env {}", recorder("forever"))])
        .env("RANKSCOPE_DIR", &run)
        .env("RANKSCOPE_LIVE_DIR", dir.path())
        .spawn()
        .expect("started");
    wait_until("the process records", || run.join("ready").exists());
    let here = run.display().to_string();
    // The live areas of others, who may also run tests, must not be cleaned.
    let doctor = |arguments: &[&str]| {
        let mut command = program();
        command
            .arg("doctor")
            .args(arguments)
            .env("RANKSCOPE_LIVE_DIR", dir.path());
        text(&command.output().expect("started").stdout)
    };

    let found = doctor(&[]);
    let about = paragraph(&found, child.id());
    assert!(
        about.contains("runs") && about.contains("no action needed"),
        "{found}"
    );
    child.kill().expect("killed");
    child.wait().expect("reaped");

    let found = doctor(&[]);
    let about = paragraph(&found, child.id());
    assert!(
        about.contains("is dead") && about.contains(&format!("rankscope merge {here}")),
        "{found}"
    );
    assert_eq!(launch_support::closed_logs(&run), 0);

    let cleaned = doctor(&["--clean"]);
    assert!(
        paragraph(&cleaned, child.id()).contains("collected into"),
        "{cleaned}"
    );
    assert_eq!(launch_support::closed_logs(&run), 1);
    let found = doctor(&[]);
    assert!(!found.contains(&here), "{found}");
}

/// Returns the lines about one process.
fn paragraph(found: &str, pid: u32) -> String {
    let lines: Vec<&str> = found.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.contains(&format!("process {pid} ")))
        .unwrap_or_else(|| panic!("{found}"));
    lines[at..].iter().take(2).copied().collect::<Vec<_>>().join("\n")
}

#[test]
fn a_command_is_examined_before_it_is_recorded() {
    let output = program()
        .args(["doctor", "--json", "--", "sh", "-c", "x"])
        .output()
        .expect("started");
    assert!(output.status.success());
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(
        found["command"]
            .as_str()
            .is_some_and(|file| file.ends_with("/sh")),
        "{found}"
    );
    assert_eq!(found["command_problem"], serde_json::Value::Null);
    assert_eq!(found["room_problem"], serde_json::Value::Null);
    let output = program()
        .args(["doctor", "-o", "no/such/directory"])
        .env("RANKSCOPE_MIN_FREE_MIB", "999999999999")
        .output()
        .expect("started");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stdout).contains("recording stops below"),
        "{}",
        text(&output.stdout)
    );
    let output = program()
        .args(["doctor", "--", "no-such-command-here"])
        .output()
        .expect("started");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stdout).contains("command not found"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn errors_name_the_cause_and_what_to_do() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let here = dir.path().display().to_string();
    for (arguments, words) in [
        (
            vec!["report", &here],
            vec!["has no session yet", "rankscope merge"],
        ),
        (
            vec!["report", "/no/such/place"],
            vec!["directory not found: /no/such/place"],
        ),
        (vec!["merge", &here], vec!["no rank logs"]),
        (vec!["merge", &here, &here], vec!["-o DIR"]),
        (vec!["export", &here], vec!["--perfetto"]),
        (vec!["run"], vec!["CMD"]),
        (
            vec!["run", "--max-disk", "4 parsecs", "true"],
            vec!["is not a size"],
        ),
        (vec!["frobnicate"], vec!["unrecognized subcommand"]),
    ] {
        let output = program().args(&arguments).output().expect("started");
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(
            words.iter().all(|word| message.contains(word)),
            "{arguments:?}: {message}"
        );
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = program()
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    drop(child.stdout.take());
    let mut message = String::new();
    child
        .stderr
        .take()
        .expect("a pipe")
        .read_to_string(&mut message)
        .expect("text");
    assert!(child.wait().expect("ended").success(), "{message}");
    assert_eq!(message, "");
}

#[test]
fn help_comes_in_two_lengths() {
    let help = |flag: &str| text(&program().args(["run", flag]).output().expect("started").stdout);
    let (short, long) = (help("-h"), help("--help"));
    assert!(short.contains("Examples:") && long.contains("Examples:"));
    assert!(
        short.len() * 5 < long.len() * 4 && long.contains("A second Ctrl-C stops the merge"),
        "{long}"
    );
}

/// Not a test: a process that records. The tests above start it.
#[test]
#[ignore = "started by other tests"]
fn record_as_a_job_would() {
    launch_support::record();
}
