//! Tests `rankscope run --repeat` around real processes: order of the runs, the runs that count, and the end of a
//! batch.

mod batch_support;
mod launch_support;

use batch_support::{record, small};
use launch_support::{Terminal, program, text};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A folder with the logs of made-up runs and a directory for batches. Jobs copy the logs as if they had recorded them.
struct Batch {
    folder: TempDir,
}

impl Batch {
    fn new(runs: u32) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for number in 1..=runs {
            record(&folder.path().join(format!("made-up/{number}")), &small(), number);
        }
        Self { folder }
    }

    fn at(&self) -> &Path {
        self.folder.path()
    }

    fn out(&self) -> PathBuf {
        self.at().join("out")
    }

    /// Returns a job that leaves the logs of a different run each time and notes that it ran.
    fn job(&self, name: &str) -> String {
        let at = self.at().display();
        format!(
            "echo {name} >> {at}/order; n=$(wc -l < {at}/order); cp {at}/made-up/$n/*.rslog $RANKSCOPE_DIR"
        )
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = program();
        command
            .env("RANKSCOPE_LIVE_DIR", self.at())
            .arg("run")
            .arg("-o")
            .arg(self.out());
        command.args(options);
        command
    }

    fn run(&self, options: &[&str], job: &str) -> Output {
        let mut command = self.command(options);
        command.args(["--", "sh", "-c", job]).output().expect("started")
    }

    fn order(&self) -> Vec<String> {
        let text = fs::read_to_string(self.at().join("order")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the names in a folder of the batch.
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.out().join(folder)).expect("a folder").flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn is_merged(run: &Path) -> bool {
    run.join("session/session.json").is_file() && run.join("report.html").is_file()
}

#[test]
fn a_batch_is_recorded_merged_and_can_be_kept() {
    let batch = Batch::new(3);
    let output = batch.run(&["--repeat", "3"], &batch.job("a"));
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    assert_eq!(batch.names("."), ["run-1", "run-2", "run-3"]);
    for number in 1..=3 {
        let run = batch.out().join(format!("run-{number}"));
        assert!(
            is_merged(&run) && !run.join("trace.pftrace").exists(),
            "{message}"
        );
    }
    assert!(
        message.contains("rankscope: run 1 of 3 took 0.") && message.contains("s; about 0."),
        "{message}"
    );
    assert!(
        message.contains("run 3 of 3 took 0.") && message.matches("left").count() == 2,
        "{message}"
    );
    assert!(
        message.contains(&format!("rankscope baseline add {}/run-*", batch.out().display())),
        "{message}"
    );

    let mut keep = program();
    keep.current_dir(batch.at())
        .args(["baseline", "add", "--branch", "main"]);
    keep.args([1, 2, 3].map(|number| format!("out/run-{number}")));
    let kept = keep.output().expect("started");
    assert!(
        text(&kept.stdout).contains("added 3 runs"),
        "{}",
        text(&kept.stderr)
    );
}

#[test]
fn two_commands_take_turns() {
    let batch = Batch::new(6);
    let output = batch.run(
        &["--repeat", "3", "--against", &batch.job("base")],
        &batch.job("new"),
    );
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert_eq!(batch.order(), ["base", "new", "new", "base", "base", "new"]);
    for side in ["base", "new"] {
        assert_eq!(batch.names(side), ["run-1", "run-2", "run-3"]);
        assert!(is_merged(&batch.out().join(side).join("run-2")), "{message}");
    }
    assert!(
        message.contains("run 3 of 6 (new) took") && message.contains("run 4 of 6 (base) took"),
        "{message}"
    );
    let out = batch.out().display().to_string();
    assert!(
        message.contains(&format!("rankscope compare {out}/base -- {out}/new")),
        "{message}"
    );
}

#[test]
fn without_a_merge_the_recordings_stay_and_the_commands_are_named() {
    let batch = Batch::new(2);
    let output = batch.run(&["--repeat", "2", "--no-merge"], &batch.job("a"));
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(
        message.contains("2 runs are complete. To merge: for run in"),
        "{message}"
    );
    let (_, script) = message.split_once("To merge: ").expect("a command");
    assert!(!batch.out().join("run-1/session").exists());
    // The printed command works.
    let script = script.replace(
        "rankscope merge",
        &format!("{} merge", env!("CARGO_BIN_EXE_rankscope")),
    );
    let merged = launch_support::bash(&script).output().expect("started");
    assert!(merged.status.success(), "{}", text(&merged.stderr));
    assert!(is_merged(&batch.out().join("run-2")));
}

#[test]
fn a_run_that_fails_ends_the_batch_with_its_status() {
    let batch = Batch::new(5);
    let job = format!("{}; [ $n -ne 3 ] || exit 7", batch.job("a"));
    let output = batch.run(&["--repeat", "5"], &job);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{message}");
    assert_eq!(batch.order().len(), 3, "the fourth run was not started");
    assert!(
        message.contains("run 3 of 5 failed: exit status 7; its recording is in"),
        "{message}"
    );
    assert_eq!(batch.names("."), ["failed-run-3", "run-1", "run-2"]);
    assert!(is_merged(&batch.out().join("run-2")), "{message}");
    assert!(!message.contains("rankscope baseline add"), "{message}");
}

#[test]
fn a_job_that_dies_of_a_signal_ends_the_batch_by_it() {
    let batch = Batch::new(2);
    let output = batch.run(&["--repeat", "2"], &format!("{}; kill -SEGV $$", batch.job("a")));
    assert_eq!(
        output.status.signal(),
        Some(libc::SIGSEGV),
        "{}",
        text(&output.stderr)
    );
    assert!(text(&output.stderr).contains("run 1 of 2 failed: killed by SIGSEGV"));
    assert_eq!(batch.order().len(), 1);
}

#[test]
fn failures_can_be_skipped_and_are_not_in_the_batch() {
    let batch = Batch::new(8);
    // The second run of the base is the fourth in order.
    let base = format!("{}; [ $n -ne 4 ] || exit 9", batch.job("base"));
    let output = batch.run(
        &["--repeat", "3", "--keep-going", "--against", &base],
        &batch.job("new"),
    );
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(
        message.contains("run 4 of 6 (base) failed: exit status 9"),
        "{message}"
    );
    assert_eq!(batch.names("base"), ["failed-run-2", "run-1", "run-3"]);
    assert_eq!(batch.names("new"), ["run-1", "run-2", "run-3"]);
    assert!(
        message.contains("merged 5 runs") && message.contains("rankscope compare"),
        "{message}"
    );

    let batch = Batch::new(6);
    let base = format!("{}; [ $n -eq 1 ] || exit 9", batch.job("base"));
    let output = batch.run(
        &["--repeat", "3", "--keep-going", "--against", &base],
        &batch.job("new"),
    );
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(
        message.contains("only 1 of 3 runs of base are complete: too few for a comparison"),
        "{message}"
    );
    assert!(is_merged(&batch.out().join("base/run-1")), "{message}");
}

#[test]
fn a_run_that_records_nothing_does_not_count() {
    let batch = Batch::new(1);
    let output = batch.run(&["--repeat", "3"], "exit 0");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(
        message.contains("run 1 of 3 failed: nothing was recorded"),
        "{message}"
    );
    assert!(!batch.out().exists(), "an empty directory stays");
}

#[test]
fn a_command_that_cannot_be_started_ends_as_in_a_shell() {
    let batch = Batch::new(1);
    let mut command = batch.command(&["--repeat", "3", "--keep-going"]);
    let output = command
        .args(["--", "no-such-command-here"])
        .output()
        .expect("started");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(127), "{message}");
    assert_eq!(
        message.matches("command not found").count(),
        1,
        "it is not tried again: {message}"
    );
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let batch = Batch::new(1);
    for options in [
        &["--against", "true"][..],
        &["--keep-going"],
        &["--repeat", "0"],
        &["--repeat", "2", "--against", ""],
    ] {
        let output = batch.run(options, "exit 0");
        assert_eq!(
            output.status.code(),
            Some(2),
            "{options:?}: {}",
            text(&output.stderr)
        );
        assert!(text(&output.stderr).contains("--"), "{}", text(&output.stderr));
    }
    fs::create_dir_all(batch.out().join("run-1")).expect("made");
    let output = batch.run(&["--repeat", "2"], &batch.job("a"));
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("is not empty; --repeat needs a new directory"),
        "{message}"
    );
    assert!(batch.order().is_empty(), "nothing was started");
}

#[test]
fn every_run_gets_the_same_signal_state() {
    let batch = Batch::new(3);
    let job = format!(
        "{}; grep -E '^Sig(Blk|Ign)' /proc/self/status >> {}/masks",
        batch.job("a"),
        batch.at().display()
    );
    let plain = launch_support::bash("grep -E '^Sig(Blk|Ign)' /proc/self/status")
        .output()
        .expect("started");
    let output = batch.run(&["--repeat", "3"], &job);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let masks = fs::read_to_string(batch.at().join("masks")).expect("masks");
    assert_eq!(masks, text(&plain.stdout).repeat(3));
}

#[test]
fn ctrl_c_ends_the_run_and_the_batch() {
    let batch = Batch::new(4);
    // The job handles the signal and exits with 0. The batch ends nevertheless.
    let job = format!(
        "trap 'echo int; exit 0' INT; {}; [ $n -ne 2 ] || {{ echo ready; while :; do sleep 0.05; done; }}",
        batch.job("a")
    );
    let mut command = batch.command(&["--repeat", "4"]);
    command.args(["--", "bash", "-c", &job]);
    let mut terminal = Terminal::start(command);
    terminal.expect("ready");
    terminal.type_bytes(b"\x03");
    let (seen, status) = terminal.finish();
    assert_eq!(seen.matches("int\r\n").count(), 1, "{seen}");
    assert_eq!(status.signal(), Some(libc::SIGINT), "{seen}");
    assert!(seen.contains("run 1 of 4 took"), "{seen}");
    assert!(
        seen.contains("run 2 of 4 failed: the job was interrupted by SIGINT"),
        "{seen}"
    );
    assert!(
        seen.contains("interrupted after run 2 of 4; 1 run is complete. To merge: for run in"),
        "{seen}"
    );
    assert_eq!(batch.order().len(), 2);
    assert_eq!(batch.names("."), ["failed-run-2", "run-1"]);
}

#[test]
fn a_signal_to_rankscope_alone_ends_the_run_and_the_batch() {
    let batch = Batch::new(2);
    let job = format!(
        "{}; touch {}/ready; exec sleep 60",
        batch.job("a"),
        batch.at().display()
    );
    let mut command = batch.command(&["--repeat", "2"]);
    let mut child = command.args(["--", "sh", "-c", &job]).spawn().expect("started");
    launch_support::wait_until("the job runs", || batch.at().join("ready").exists());
    // SAFETY: the process is a child of this test and was not reaped.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    assert_eq!(launch_support::ended(&mut child).signal(), Some(libc::SIGTERM));
    assert_eq!(batch.order().len(), 1);
}

#[test]
fn an_interrupted_merge_says_how_to_continue() {
    let batch = Batch::new(2);
    // A named pipe in place of a log: a reader that opens it waits for ever.
    let job = format!(
        "{}; [ $n -ne 2 ] || mkfifo $RANKSCOPE_DIR/../run-1/z-1-0000000000000001.rslog",
        batch.job("a")
    );
    let mut command = batch.command(&["--repeat", "2"]);
    let mut child = command
        .args(["--", "sh", "-c", &job])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    launch_support::wait_until("the first merge has begun", || {
        fs::metadata(batch.out().join("run-1/merging.json")).is_ok_and(|lock| lock.len() > 0)
    });
    // Wait until the merge blocks on the pipe. A directory that it is just creating is not removed on an interrupt.
    std::thread::sleep(std::time::Duration::from_millis(200));
    // SAFETY: the process is a child of this test and was not reaped.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    assert_eq!(launch_support::ended(&mut child).signal(), Some(libc::SIGINT));
    let mut message = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut message).expect("text");
    assert!(message.contains("2 runs are complete. To merge:"), "{message}");
    assert!(
        !batch.out().join("run-1/merging.json").exists()
            && !batch.out().join("run-1/session.unfinished").exists()
    );
}
