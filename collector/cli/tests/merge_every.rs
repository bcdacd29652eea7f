//! Tests `rankscope merge --every` as a command.

use rankscope_fixtures::logs::Ddp;
use rankscope_formats::session::Periods;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the program. Returns whether it succeeded, and its output and messages.
fn rankscope(arguments: &[&str], run: &Path) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_rankscope"))
        .args(arguments)
        .arg(run)
        .output()
        .expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).expect("text"))
}

#[test]
fn a_run_is_merged_in_periods_and_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path();
    let job = Ddp::of_long_steps(300);
    job.write(run).expect("written");
    let (is_fine, text) = rankscope(&["merge", "--every", "7s"], run);
    assert!(is_fine && text.contains("late-rank"), "{text}");
    let list = Periods::read(&run.join("session"))
        .expect("readable")
        .expect("periods");
    assert!(list.periods.len() > 2 && list.periods.iter().all(|period| period.is_final));
    assert!(run.join("report.html").is_file());
    let first = list.periods[0].path(&run.join("session"));
    let written = fs::metadata(first.join("session.json"))
        .expect("a file")
        .modified()
        .expect("a time");
    // Nothing is new, so nothing is written.
    let (is_fine, json) = rankscope(&["merge", "--every", "7s", "--json"], run);
    assert!(is_fine, "{json}");
    let again: Periods = serde_json::from_str(&json).expect("a list");
    assert_eq!(again, list);
    let now = fs::metadata(first.join("session.json"))
        .expect("a file")
        .modified()
        .expect("a time");
    assert_eq!(now, written);
    // A merge of the whole run would remove all of it.
    let (is_fine, text) = rankscope(&["merge"], run);
    assert!(
        !is_fine && text.contains("--every 7s") && first.is_dir(),
        "{text}"
    );
    let (is_fine, text) = rankscope(&["merge", "--every", "5s"], run);
    assert!(!is_fine && text.contains("periods of 7s"), "{text}");
    for length in ["1500ms", "0s", "-1s", "soon"] {
        let length = format!("--every={length}");
        let (is_fine, text) = rankscope(&["merge", &length], run);
        assert!(!is_fine && text.contains("whole seconds"), "{text}");
    }
}

/// A session of the whole run is not replaced by periods.
#[test]
fn a_session_of_the_whole_run_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    Ddp::default().write(folder.path()).expect("written");
    let (is_fine, text) = rankscope(&["merge"], folder.path());
    assert!(is_fine, "{text}");
    let (is_fine, text) = rankscope(&["merge", "--every", "1s"], folder.path());
    assert!(!is_fine && text.contains("whole run"), "{text}");
    assert!(folder.path().join("session/session.json").is_file());
}
