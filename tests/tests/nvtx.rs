//! Tests NVTX ranges of a program, through NVTX's real header: they become spans and do not interfere with other tools.

use rankscope_formats::session::{SpanRow, TableReader, rank_path};
use rankscope_ranklog::record::RecordKind;
use rankscope_tests::job::Job;
use rankscope_tests::process::{self, Ended};
use rankscope_tests::python::Python;
use rankscope_tests::recorded::{self, Recorded};
use rankscope_tests::{artefacts, compile, results, turn};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn run(program: &Path, environment: &[(&str, &Path)], directory: Option<&Path>, preloaded: bool) -> Ended {
    let mut command = Command::new(program);
    if preloaded {
        process::preload(&mut command, directory);
    } else {
        process::clean(&mut command);
    }
    command.args(["0", "1", "none"]);
    command.envs(environment.iter().copied());
    let ended = process::run(command, Duration::from_secs(60));
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    ended
}

/// Returns the number of marks by text, and how many of them have no duration.
fn marks(recorded: &Recorded) -> BTreeMap<&str, (usize, usize)> {
    let mut marks = BTreeMap::new();
    for record in recorded.of_kind(RecordKind::Mark) {
        let text = recorded.log.texts.get(&(record.object as u32)).expect("a text");
        let (all, instant) = marks.entry(text.as_str()).or_insert((0, 0));
        *all += 1;
        *instant += usize::from(record.enter_ticks == record.leave_ticks);
        assert!(record.enter_ticks <= record.leave_ticks, "{record:?}");
    }
    marks
}

fn expected_marks() -> BTreeMap<&'static str, (usize, usize)> {
    BTreeMap::from([
        ("outer", (1, 0)),
        ("inner", (1, 0)),
        ("loader: load", (1, 0)),
        ("mark", (1, 1)),
        ("größe", (1, 1)),
        ("loader: registered early", (1, 1)),
        ("across threads", (1, 0)),
        ("step", (100, 0)),
    ])
}

#[test]
fn ranges_become_spans() {
    let turn = turn::take();
    let Some(program) = compile::nvtx("nvtx_marks.cc") else {
        return;
    };
    let library = artefacts::library();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let injected: &[(&str, &Path)] = &[("NVTX_INJECTION64_PATH", &library)];
    let with = run(&program, injected, Some(directory.path()), true);
    let all = recorded::read_all(directory.path());
    let [recorded] = &all[..] else {
        panic!("one process, {} logs", all.len())
    };
    recorded.expect_whole();
    assert_eq!(marks(recorded), expected_marks());
    // A range contains the call that was made in it.
    let step: Vec<_> = recorded
        .of_kind(RecordKind::Mark)
        .filter(|record| recorded.log.texts[&(record.object as u32)] == "step")
        .collect();
    let calls: Vec<_> = recorded.of_kind(RecordKind::Enqueue).collect();
    assert_eq!((step.len(), calls.len()), (100, 100));
    for (step, call) in step.iter().zip(&calls) {
        assert!(step.enter_ticks <= call.enter_ticks && call.leave_ticks <= step.leave_ticks);
    }
    // Without injection, and without recording, the program's output is the same except for the levels that no tool
    // returns.
    let without = run(&program, &[], None, false);
    let idle = run(&program, injected, None, true);
    assert!(
        without.text().contains("push -2") || without.text().contains("push -"),
        "{}",
        without.text()
    );
    assert_eq!(idle.text(), with.text());
    results::merge(directory.path());
    drop(turn);
}

#[test]
fn another_injection_is_not_affected() {
    let turn = turn::take();
    let Some(program) = compile::nvtx("nvtx_marks.cc") else {
        return;
    };
    let Some(other) = compile::shared("nvtx_injection.c") else {
        return;
    };
    let alone = run(&program, &[("NVTX_INJECTION64_PATH", &other)], None, false);
    assert!(alone.text().contains("other: 102 pushes, 10"), "{}", alone.text());
    let library = artefacts::library();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let chained: &[(&str, &Path)] = &[
        ("NVTX_INJECTION64_PATH", &library),
        ("RANKSCOPE_NVTX_NEXT", &other),
    ];
    let with = run(&program, chained, Some(directory.path()), true);
    // Calls that the other tool does not answer are answered by no tool without rankscope. Those lines only say whether
    // a level was returned.
    let levels = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| {
                line.starts_with("push ") || line.starts_with("early") || line.starts_with("other")
            })
            .filter(|line| !line.contains("domain"))
            .map(str::to_owned)
            .collect()
    };
    let (alone, with) = (levels(&alone.text()), levels(&with.text()));
    assert_eq!(alone[0], with[0]);
    assert_eq!(alone.last(), with.last(), "{alone:?}");
    let all = recorded::read_all(directory.path());
    assert_eq!(marks(&all[0]), expected_marks());
    drop(turn);
}

#[test]
fn the_launcher_puts_the_library_first() {
    let turn = turn::take();
    let Some(program) = compile::nvtx("nvtx_marks.cc") else {
        return;
    };
    let Some(other) = compile::shared("nvtx_injection.c") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    for before in [None, Some(&other)] {
        let run = directory
            .path()
            .join(if before.is_some() { "chained" } else { "alone" });
        let mut command = Command::new(artefacts::program());
        process::clean(&mut command);
        command
            .args(["run", "-o"])
            .arg(&run)
            .arg("--")
            .arg(&program)
            .args(["0", "1", "none"]);
        if let Some(other) = before {
            command.env("NVTX_INJECTION64_PATH", other);
        }
        let ended = process::run(command, Duration::from_secs(60));
        assert_eq!(ended.code(), 0, "{}", ended.complaints());
        assert_eq!(
            ended.text().contains("other: 102 pushes"),
            before.is_some(),
            "{}",
            ended.text()
        );
        let all = recorded::read_all(&run);
        assert_eq!(marks(&all[0]), expected_marks());
    }
    drop(turn);
}

/// Tests PyTorch's own ranges on a machine without a GPU. Debian's PyTorch is built without NVTX.
#[test]
fn ranges_of_pytorch_become_spans() {
    let turn = turn::take();
    let Some(python) = Python::wheel() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let finished = Job::torch(&python, "nvtx.py", 2)
        .record_into(directory.path())
        .env("NVTX_INJECTION64_PATH", artefacts::library())
        .run(&turn);
    finished.expect_status(0);
    for recorded in recorded::read_ranks(directory.path(), &finished.pids) {
        let marks = marks(&recorded);
        assert_eq!(marks.get("training step"), Some(&(20, 0)), "{marks:?}");
        assert_eq!(marks.get("forward"), Some(&(20, 0)), "{marks:?}");
    }
}

/// Tests that iterations marked by one rank are the steps of all ranks, if their operations have no repeating order.
#[test]
fn marks_of_one_rank_are_the_steps_of_all_ranks() {
    let turn = turn::take();
    let Some(python) = Python::wheel() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    // The variable by which NVTX finds rankscope is set when the library is loaded.
    let finished = Job::torch(&python, "nvtx_steps.py", 2)
        .record_into(directory.path())
        .run(&turn);
    finished.expect_status(0);
    for (rank, recorded) in recorded::read_ranks(directory.path(), &finished.pids)
        .iter()
        .enumerate()
    {
        let numbers: Vec<u32> = recorded
            .of_kind(RecordKind::Mark)
            .filter(|record| recorded.log.texts[&(record.object as u32)] == "iteration #")
            .map(|record| record.sequence)
            .collect();
        let expected: Vec<u32> = if rank == 0 {
            (100..130).collect()
        } else {
            Vec::new()
        };
        assert_eq!(numbers, expected);
    }
    results::merge(directory.path());
    let session = results::report(directory.path());
    let steps = &session["steps"];
    assert_eq!(steps["source"], "marks", "{steps}");
    assert_eq!(steps["pattern"], "iteration #");
    let list = steps["list"].as_array().expect("a list");
    assert_eq!(list.len(), 30, "{steps}");
    // Each step has the duration that the program reports, except for the time between its last operation and its mark,
    // and for noise of a busy machine.
    let mut off: Vec<f64> = list
        .iter()
        .zip(finished.truth(1))
        .map(|(found, reported)| {
            let (found, reported) = (&found["duration_ns"], &reported["duration_ns"]);
            (found.as_f64().expect("ns") / reported.as_f64().expect("ns") - 1.0).abs()
        })
        .collect();
    off.sort_by(f64::total_cmp);
    assert!(off[off.len() / 2] < 0.05, "{off:?}");
    let spans = Path::new(directory.path()).join("session");
    let rows = TableReader::<SpanRow>::read_all(&rank_path::<SpanRow>(&spans, 0)).expect("a table");
    assert!(
        rows.iter()
            .any(|row| row.name.as_deref() == Some("iteration 117"))
    );
    drop(turn);
}

/// Tests a program with more ranges and texts than the tables can hold. Kept and lost records add up to the true
/// number, and communicators can still be stored.
#[test]
fn ranges_beyond_the_limits_are_counted() {
    let turn = turn::take();
    let Some(program) = compile::nvtx("nvtx_many.cc") else {
        return;
    };
    let library = artefacts::library();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let injected: &[(&str, &Path)] = &[("NVTX_INJECTION64_PATH", &library)];
    let ended = run(&program, injected, Some(directory.path()), true);
    let happened: u64 = ended.text().trim().parse().expect("a number");
    let all = recorded::read_all(directory.path());
    let recorded = &all[0];
    let kept = recorded.of_kind(RecordKind::Mark).count() as u64;
    assert_eq!(kept + recorded.lost(RecordKind::Mark), happened);
    assert!(kept > 1000 && kept < happened, "{kept} of {happened}");
    let named = marks(recorded);
    let nested = named.get("nested").map_or(0, |count| count.0);
    let open = named.get("open").map_or(0, |count| count.0);
    assert_eq!(nested, 32);
    assert!((900..=1024).contains(&open), "{open}");
    assert_eq!(recorded.log.communicators.len(), 2);
    drop(turn);
}
