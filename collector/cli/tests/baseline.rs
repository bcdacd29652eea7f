//! Tests the program `rankscope baseline`: the runs that it stores, its refusals and its messages.

mod batch_support;
mod launch_support;

use batch_support::{merged, small};
use launch_support::text;
use rankscope_fixtures::logs::Ddp;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Returns the command `rankscope baseline` in a directory outside any repository, without the variables of a CI.
fn baseline(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = launch_support::program();
    for variable in [
        "GITHUB_REF_NAME",
        "CI_COMMIT_REF_NAME",
        "GITHUB_SHA",
        "CI_COMMIT_SHA",
        "GIT_DIR",
    ] {
        command.env_remove(variable);
    }
    command.current_dir(directory).arg("baseline").args(arguments);
    command
}

fn done(command: &mut Command) -> String {
    let output = command.output().expect("started");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn refused(command: &mut Command) -> String {
    let output = command.output().expect("started");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    text(&output.stderr)
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn listed(directory: &Path, arguments: &[&str]) -> Value {
    let output = baseline(directory, &["list", "--json"])
        .args(arguments)
        .output()
        .expect("started");
    assert!(output.status.success(), "{}", text(&output.stderr));
    json(&output)
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(arguments)
        .output()
        .expect("git");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Makes a folder with merged runs `run-1`, `run-2`, …
fn runs(count: u32) -> (TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = (1..=count)
        .map(|number| merged(&folder.path().join(format!("run-{number}")), &small(), number))
        .collect();
    (folder, runs)
}

#[test]
fn runs_are_added_listed_shown_and_removed() {
    let (folder, _) = runs(3);
    let at = folder.path();
    let message = done(&mut baseline(
        at,
        &["add", "--branch", "main", "--commit", "abc", "run-1", "run-2"],
    ));
    assert!(
        message.contains("added 2 runs to .rankscope-baselines as main/"),
        "{message}"
    );
    assert!(
        message.contains("machine Made-Up 9000, 64 processors, job train-2-ranks"),
        "{message}"
    );
    // A session directory is accepted, and so is an explicit name for each part of the key.
    done(&mut baseline(
        at,
        &[
            "add",
            "--branch",
            "x",
            "--machine",
            "m",
            "--job",
            "j",
            "run-3/session",
        ],
    ));
    let all = listed(at, &[]);
    assert_eq!(all["keys"].as_array().map(Vec::len), Some(2), "{all}");
    let main = listed(at, &["--branch", "main"]);
    let key = &main["keys"][0];
    assert_eq!(
        (key["entries"].as_u64(), key["runs"].as_u64()),
        (Some(1), Some(2)),
        "{main}"
    );
    assert_eq!(key["commit"], "abc");
    let table = done(&mut baseline(at, &["list"]));
    assert!(
        table.starts_with("branch  job") && table.lines().count() == 3,
        "{table}"
    );

    let shown = done(&mut baseline(at, &["show", "--branch", "main"]));
    assert!(
        shown.contains("run-1 ") && shown.contains("run-2 ") && shown.contains("commit abc"),
        "{shown}"
    );
    let entry = key["newest_entry"].as_str().expect("a name");
    let output = baseline(at, &["show", "--json", entry])
        .output()
        .expect("started");
    let shown = json(&output);
    assert_eq!(shown["entries"][0]["batch"]["runs"][1]["world"]["size"], 2);
    let message = refused(&mut baseline(at, &["show", "1999"]));
    assert!(message.contains("has no entry 1999"), "{message}");

    let message = done(&mut baseline(at, &["prune", "--keep", "0", "--older-than", "1d"]));
    assert!(
        message.contains("removed 0 entries from .rankscope-baselines, 2 left"),
        "{message}"
    );
    let message = done(&mut baseline(
        at,
        &["prune", "--keep", "0", "--branch", "main", "--dry-run"],
    ));
    assert!(message.contains(&format!("would remove {entry}")), "{message}");
    assert_eq!(listed(at, &[])["keys"].as_array().map(Vec::len), Some(2));
    let message = done(&mut baseline(at, &["prune", "--keep", "0", "--branch", "main"]));
    assert!(
        message.contains("removed 1 entry") && message.contains(entry),
        "{message}"
    );
    assert_eq!(listed(at, &[])["keys"].as_array().map(Vec::len), Some(1));
    let message = done(&mut baseline(at, &["list", "--branch", "main"]));
    assert!(message.contains("has no matching entries"), "{message}");
}

#[test]
fn runs_that_are_no_batch_are_refused() {
    let (folder, _) = runs(2);
    let at = folder.path();
    merged(&at.join("four"), &Ddp { ranks: 4, ..small() }, 7);
    merged(&at.join("short"), &Ddp { steps: 3, ..small() }, 8);
    batch_support::record(&at.join("raw"), &small(), 9);
    let add = |arguments: &[&str]| {
        let mut command = baseline(at, &["add", "--branch", "main"]);
        command.args(arguments);
        command
    };
    for (arguments, words) in [
        (
            vec!["run-1", "four"],
            vec!["run-1", "four", "number of ranks: 2 and 4"],
        ),
        (vec!["run-1", "short"], vec!["cannot add short to a baseline"]),
        (vec!["run-1", "run-1/session"], vec!["are the same run"]),
        (vec!["raw"], vec!["raw has no session yet", "rankscope merge raw"]),
        (vec!["nothing"], vec!["directory not found: nothing"]),
        (
            vec!["--repo", ".", "run-1"],
            vec!["--repo requires --store git:BRANCH"],
        ),
        (
            vec!["--push", "run-1"],
            vec!["only a store on a git branch can be pushed"],
        ),
        (
            vec!["--store", "git:b", "run-1"],
            vec!["is not in a usable git repository", "--repo"],
        ),
        (
            vec!["--store", "run-1/session/session.json", "run-1"],
            vec!["session.json is not a directory"],
        ),
        (vec!["--branch", "", "run-1"], vec!["--branch"]),
        (vec![], vec!["RUN"]),
    ] {
        // `add()` already contains `--branch`, and the option given twice would be refused for that alone.
        let mut command = if arguments.first() == Some(&"--branch") {
            let mut command = baseline(at, &["add"]);
            command.args(&arguments);
            command
        } else {
            add(&arguments)
        };
        let message = refused(&mut command);
        for word in words {
            assert!(message.contains(word), "{arguments:?}: {message}");
        }
    }
    assert!(!at.join(".rankscope-baselines").exists(), "nothing was written");
    done(&mut add(&["run-1"]));
    let message = refused(&mut add(&["run-2", "run-1"]));
    assert!(
        message.contains("run-1 is already in the baseline, in entry main/"),
        "{message}"
    );
    // The same run is accepted under another key.
    done(&mut baseline(at, &["add", "--branch", "other", "run-1"]));
}

#[test]
fn the_branch_and_the_commit_come_from_the_ci_or_from_git() {
    let (folder, _) = runs(3);
    let at = folder.path();
    let message = done(&mut baseline(at, &["add", "run-1"]));
    assert!(message.contains("branch none,"), "{message}");
    git(at, &["init", "--quiet", "-b", "work"]);
    let message = done(&mut baseline(at, &["add", "run-2"]));
    assert!(message.contains("branch work,"), "{message}");
    let mut command = baseline(at, &["add", "run-3"]);
    let message = done(
        command
            .env("GITHUB_REF_NAME", "feature/x")
            .env("CI_COMMIT_SHA", "0123456789abcdef"),
    );
    assert!(message.contains("branch feature/x,"), "{message}");
    let listed = listed(at, &["--branch", "feature/x"]);
    assert_eq!(listed["keys"][0]["commit"], "0123456789abcdef");
}

#[test]
fn the_environment_can_name_the_store() {
    let (folder, _) = runs(1);
    let at = folder.path();
    let store = at.join("elsewhere");
    done(baseline(at, &["add", "run-1"]).env("RANKSCOPE_BASELINES", &store));
    assert!(store.join("entries").is_dir() && !at.join(".rankscope-baselines").exists());
    let message = refused(&mut baseline(at, &["list"]));
    assert!(
        message.contains("no baseline in .rankscope-baselines yet"),
        "{message}"
    );
}

#[test]
fn a_store_that_cannot_be_written_is_named() {
    let (folder, _) = runs(1);
    let at = folder.path();
    // Root may write nearly anywhere, but not into /proc.
    let message = refused(&mut baseline(at, &["add", "--store", "/proc/baselines", "run-1"]));
    assert!(
        message.contains("cannot create /proc/baselines/entries"),
        "{message}"
    );
    let closed = at.join("closed");
    fs::create_dir(&closed).expect("made");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("closed");
    // SAFETY: geteuid cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        let message = refused(&mut baseline(at, &["add", "--store", "closed", "run-1"]));
        assert!(message.contains("cannot create closed/entries"), "{message}");
    }
}

#[test]
fn without_git_a_branch_is_no_store() {
    let (folder, _) = runs(1);
    let mut command = baseline(folder.path(), &["add", "--store", "git:b", "run-1"]);
    let message = refused(command.env("PATH", "/nowhere"));
    assert!(
        message.contains("git not found") && message.contains("--store DIR"),
        "{message}"
    );
    // A store in a directory does not need git.
    done(baseline(folder.path(), &["add", "run-1"]).env("PATH", "/nowhere"));
}

#[test]
fn damaged_entries_are_named_and_the_rest_is_used() {
    let (folder, _) = runs(3);
    let at = folder.path();
    let entries: Vec<PathBuf> = ["run-1", "run-2"]
        .iter()
        .map(|run| {
            done(&mut baseline(at, &["add", "--branch", "main", run]));
            let listed = listed(at, &[]);
            let name = listed["keys"][0]["newest_entry"]
                .as_str()
                .expect("a name")
                .to_owned();
            at.join(".rankscope-baselines/entries").join(name)
        })
        .collect();
    let bytes = fs::read(&entries[0]).expect("an entry");
    fs::write(&entries[0], &bytes[..bytes.len() - 5]).expect("cut off");
    let file = entries[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    for arguments in [
        &["list"][..],
        &["show"],
        &["prune", "--keep", "1"],
        &["add", "--branch", "main", "run-3"],
    ] {
        let output = baseline(at, arguments).output().expect("started");
        let message = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {message}");
        assert!(
            message.contains("left out") && message.contains(&file) && message.contains("checksum"),
            "{message}"
        );
    }
    assert!(entries[0].exists(), "a prune does not take what it cannot read");
    let problems = listed(at, &[]);
    assert_eq!(
        problems["problems"].as_array().map(Vec::len),
        Some(1),
        "{problems}"
    );
    let message = refused(&mut baseline(at, &["show", &file]));
    assert!(message.contains("checksum"), "{message}");
}

/// Adds each run in a separate process, all at the same time.
fn add_at_once(at: &Path, runs: &[PathBuf], options: &[&str]) {
    let children: Vec<_> = runs
        .iter()
        .map(|run| {
            let mut command = baseline(at, &["add", "--branch", "main"]);
            command
                .args(options)
                .arg(run)
                .stdout(Stdio::null())
                .spawn()
                .expect("started")
        })
        .collect();
    for mut child in children {
        assert!(launch_support::ended(&mut child).success());
    }
}

#[test]
fn processes_that_add_at_the_same_time_lose_nothing() {
    let (folder, runs) = runs(8);
    let at = folder.path();
    git(at, &["init", "--quiet", "--bare", "hub"]);
    git(at, &["init", "--quiet", "work"]);
    git(&at.join("work"), &["remote", "add", "origin", "../hub"]);
    let stores: [&[&str]; 3] = [
        &["--store", "plain"],
        &["--store", "git:b", "--repo", "hub"],
        &["--store", "git:c", "--repo", "work", "--push"],
    ];
    for store in stores {
        add_at_once(at, &runs, store);
        let listed = listed(at, &store[..if store.len() > 2 { 4 } else { 2 }]);
        assert_eq!(listed["keys"][0]["runs"], 8, "{listed}");
        assert!(
            listed["problems"].as_array().is_some_and(Vec::is_empty),
            "{listed}"
        );
    }
    let pushed = listed(at, &["--store", "git:c", "--repo", "hub"]);
    assert_eq!(pushed["keys"][0]["runs"], 8, "{pushed}");
}

#[test]
fn a_clone_that_never_saw_the_branch_adds_to_what_others_pushed() {
    let (folder, _) = runs(3);
    let at = folder.path();
    git(at, &["init", "--quiet", "--bare", "hub"]);
    for clone in ["one", "two"] {
        git(at, &["clone", "--quiet", "hub", clone]);
    }
    let store = |clone| ["--branch", "main", "--store", "git:b", "--repo", clone, "--push"];
    for (clone, run) in [("one", "run-1"), ("two", "run-2"), ("one", "run-3")] {
        done(baseline(at, &["add"]).args(store(clone)).arg(run));
    }
    let known = listed(at, &["--store", "git:b", "--repo", "hub"]);
    assert_eq!(known["keys"][0]["runs"], 3, "{known}");
    // Only the remote reports this run: it was added in the other clone.
    let message = refused(baseline(at, &["add"]).args(store("two")).arg("run-3"));
    assert!(message.contains("already in the baseline"), "{message}");
    let message = done(&mut baseline(
        at,
        &[
            "prune",
            "--keep",
            "1",
            "--store",
            "git:b",
            "--repo",
            "two",
            "--push=origin",
        ],
    ));
    assert!(
        message.contains("removed 2 entries from git:b, 1 left"),
        "{message}"
    );
    let left = listed(at, &["--store", "git:b", "--repo", "hub"]);
    assert_eq!(left["keys"][0]["runs"], 1, "{left}");
    let message = refused(&mut baseline(
        at,
        &[
            "add",
            "--store",
            "git:b",
            "--repo",
            "one",
            "--push=nowhere",
            "run-1",
        ],
    ));
    assert!(message.contains("nowhere"), "{message}");
}
