//! Marks of programs: the C header, C++ classes over it, the Python module, and the layer for Rust programs in a real training.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rankscope_formats::session::{CounterRow, ProgramSpanKind, ProgramSpanRow, TableReader, rank_path};
use rankscope_ranklog::Operation;
use rankscope_ranklog::loss::LossCause;
use rankscope_ranklog::mark::MarkKind;
use rankscope_ranklog::record::RecordKind;
use rankscope_tests::process::{self, Ended};
use rankscope_tests::python::Python;
use rankscope_tests::{artefacts, compile, engine, recorded, results, turn};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);
const RANKS: usize = 3;
const STEPS: usize = 20;

/// Runs all ranks of a program that meets by files, and expects its last line of output.
fn run_ranks(rank: impl Fn(usize, &Path) -> Command, run: Option<&Path>, expected: &str) {
    let meeting = tempfile::tempdir_in(process::memory()).expect("a directory");
    let running: Vec<_> = (0..RANKS)
        .map(|number| {
            let mut command = rank(number, meeting.path());
            match run {
                Some(run) => process::preload(&mut command, Some(run)),
                None => process::clean(&mut command),
            }
            process::Process::start(command)
        })
        .collect();
    for one in running {
        let ended = one.wait(LIMIT);
        assert_eq!(ended.code(), 0, "{}{}", ended.text(), ended.complaints());
        assert_eq!(ended.text().trim(), expected);
    }
}

fn arguments(command: &mut Command, rank: usize, meeting: &Path) {
    command
        .arg(rank.to_string())
        .arg(RANKS.to_string())
        .arg(STEPS.to_string())
        .arg(meeting);
}

fn rows<T: rankscope_formats::session::Table>(run: &Path, rank: u32) -> Vec<T> {
    TableReader::<T>::read_all(&rank_path::<T>(&run.join("session"), rank)).expect("a table")
}

fn expect_all_is_recorded(run: &Path, context: &str) {
    let merged = results::merge(run);
    assert_eq!(merged.code(), 0, "{context}: {}", merged.complaints());
    let printed = format!("{} {}", merged.text(), merged.complaints());
    let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        printed.contains("Counters queue_bytes from 0 B to 1.90 kB on 3 ranks"),
        "{context}: {printed}"
    );
    let session = results::session(run);
    let at = |path: &str| results::integer(&session, path) as usize;
    assert_eq!(at("/coverage/ranks_seen"), RANKS, "{context}");
    assert_eq!(
        at("/matching/complete"),
        STEPS + RANKS,
        "{context}: {}",
        session["matching"]
    );
    assert_eq!(at("/matching/incomplete"), 0, "{context}");
    assert_eq!(session["steps"]["source"], "marks", "{context}");
    assert_eq!(
        session["steps"]["counted"][0]["what"], "samples",
        "{context}: {}",
        session["steps"]
    );
    assert_eq!(session["losses"].as_array().map(Vec::len), Some(0), "{context}");
    assert_eq!(session["communicators"][0]["library"], "program", "{context}");
    assert_eq!(results::late_ranks(&session), [1], "{context}");
    for rank in 0..RANKS as u32 {
        let counters = rows::<CounterRow>(run, rank);
        let values: Vec<f64> = counters.iter().map(|row| row.value).collect();
        assert_eq!(
            values,
            Vec::from_iter((0..STEPS).map(|step| 100.0 * step as f64)),
            "{context}"
        );
        assert!(counters.iter().all(|row| row.name == "queue_bytes"));
        let summary = &session["counters"][rank as usize];
        assert_eq!(
            (
                &summary["name"],
                summary["max"].as_f64(),
                summary["mean"].as_f64()
            ),
            (&Value::from("queue_bytes"), Some(1900.0), Some(950.0)),
            "{context}"
        );
        let mut spans = rows::<ProgramSpanRow>(run, rank);
        spans.retain(|row| row.name != "Model.double");
        let outer: BTreeMap<u64, &ProgramSpanRow> = spans
            .iter()
            .filter(|row| row.name == "outer")
            .map(|row| (row.span, row))
            .collect();
        let inner: Vec<&ProgramSpanRow> = spans.iter().filter(|row| row.name == "forward").collect();
        assert_eq!(
            (outer.len(), inner.len(), spans.len()),
            (STEPS, STEPS, 2 * STEPS),
            "{context}"
        );
        for row in inner {
            let parent = outer[&row.parent.expect("a parent")];
            assert!(
                parent.start_ns <= row.start_ns && row.end_ns <= parent.end_ns,
                "{context}"
            );
            assert_eq!(
                (row.kind, row.is_open),
                (ProgramSpanKind::Thread, false),
                "{context}"
            );
            let shortest = if rank == 1 { 15_000_000 } else { 1_000_000 };
            assert!(row.end_ns - row.start_ns >= shortest, "{context}");
        }
    }
    let trace = run.join("trace.pftrace");
    let samples = "select count(*) as n from counter c join process_counter_track t on c.track_id = t.id \
                   where t.name = 'queue_bytes'";
    if let Some(samples) = engine::count(trace.to_str().expect("text"), samples) {
        assert_eq!(samples as usize, RANKS * STEPS, "{context}");
        let named = |name: &str| {
            let query = format!("select count(*) as n from slice where name = '{name}'");
            engine::count(trace.to_str().expect("text"), &query)
        };
        assert_eq!(named("forward"), Some((RANKS * STEPS) as u64), "{context}");
    }
}

#[test]
fn a_c_program_reports_of_itself() {
    let warnings = [
        "-std=c99",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "-ldl",
    ];
    let Some(program) = compile::c("marks.c", &warnings) else {
        return;
    };
    let rank = |number: usize, meeting: &Path| {
        let mut command = Command::new(&program);
        arguments(&mut command, number, meeting);
        command
    };
    let turn = turn::take();
    let folder = tempfile::tempdir_in(process::memory()).expect("a directory");
    run_ranks(rank, None, "recorded 0");
    run_ranks(rank, Some(folder.path()), "recorded 1");
    expect_all_is_recorded(folder.path(), "C");
    drop(turn);
}

#[test]
fn a_python_program_reports_of_itself() {
    let module = artefacts::root().join("layer/python");
    let script = compile::programs().join("marks.py");
    let mut interpreters: Vec<(String, PathBuf)> = vec![("python3".to_owned(), "python3".into())];
    interpreters.extend(Python::wheel().map(|python| (python.name.to_owned(), python.path)));
    for (name, path) in interpreters {
        let rank = |number: usize, meeting: &Path| {
            let mut command = Command::new(&path);
            command.arg(&script);
            arguments(&mut command, number, meeting);
            command.arg(&module);
            command
        };
        let turn = turn::take();
        let folder = tempfile::tempdir_in(process::memory()).expect("a directory");
        run_ranks(rank, None, "recorded 0");
        run_ranks(rank, Some(folder.path()), "recorded 1");
        expect_all_is_recorded(folder.path(), &name);
        for rank in 0..RANKS as u32 {
            let spans = rows::<ProgramSpanRow>(folder.path(), rank);
            let calls = spans.iter().filter(|row| row.name == "Model.double");
            // One of them raised an exception, and one was of a copy.
            assert_eq!(calls.filter(|row| !row.is_open).count(), 5, "{name}");
        }
        drop(turn);
    }
}

#[test]
fn open_spans_survive_a_kill_and_a_forked_child_starts_no_log() {
    let turn = turn::take();
    for (source, standard) in [
        ("marks_scopes_11.cc", "-std=c++11"),
        ("marks_scopes.cc", "-std=c++17"),
    ] {
        let arguments = [standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-ldl"];
        if let Some(program) = compile::cc(source, &arguments) {
            expect_open_spans(&program, standard);
        }
    }
    drop(turn);
}

fn expect_open_spans(program: &Path, context: &str) {
    let folder = tempfile::tempdir_in(process::memory()).expect("a directory");
    let mut command = Command::new(program);
    process::preload(&mut command, Some(folder.path()));
    let ended = process::run(command, LIMIT);
    assert_eq!(
        (ended.code(), ended.text().trim()),
        (128 + libc::SIGKILL, "caught")
    );
    let logs = recorded::read_all(folder.path());
    assert_eq!(logs.len(), 1, "the child started a log");
    let failed: Vec<bool> = logs[0]
        .of_kind(RecordKind::Call)
        .map(|call| call.flags & 1 != 0)
        .collect();
    assert_eq!(failed, [false, false, true, false], "{context}");
    let wrong_uses = logs[0]
        .log
        .losses
        .iter()
        .filter(|loss| loss.cause == LossCause::WrongUse);
    assert_eq!(
        wrong_uses.map(|loss| loss.count).sum::<u64>(),
        2,
        "{context}: one inside another, one unknown"
    );
    let begun = logs[0]
        .of_kind(RecordKind::Mark)
        .filter(|mark| mark.operation == MarkKind::Begin as u8);
    assert_eq!(begun.count(), 9);
    assert_eq!(results::merge(folder.path()).code(), 0);
    let spans = rows::<ProgramSpanRow>(folder.path(), 0);
    let open: Vec<&str> = spans
        .iter()
        .filter(|row| row.is_open)
        .map(|row| row.name.as_str())
        .collect();
    assert_eq!(open, ["open", "deeper"]);
    assert_eq!(spans.iter().filter(|row| !row.is_open).count(), 7, "{context}");
}

/// Runs the example, and returns its end.
fn train(command: &mut Command) -> Ended {
    let mut all = Command::new(command.get_program());
    all.args(command.get_args());
    process::clean(&mut all);
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            all.env(name, value);
        }
    }
    let ended = process::run(all, LIMIT);
    assert_eq!(ended.code(), 0, "{}{}", ended.text(), ended.complaints());
    ended
}

#[test]
fn a_training_in_rust_names_its_late_rank() {
    let program = artefacts::example("rust_ddp");
    let options = ["--ranks", "4", "--steps", "40", "--late", "2"];
    let turn = turn::take();
    let alone = train(Command::new(&program).args(options));
    assert!(
        alone.text().starts_with("40 steps on 4 ranks, loss 0."),
        "{}",
        alone.text()
    );

    // Preloaded: the layer uses the preloaded recorder.
    let folder = tempfile::tempdir_in(process::memory()).expect("a directory");
    let preloaded = folder.path().join("preloaded");
    let launched = train(
        Command::new(artefacts::program())
            .args(["run", "-o"])
            .arg(&preloaded)
            .arg("--")
            .arg(&program)
            .args(options),
    );
    assert_eq!(launched.text(), alone.text(), "the same losses");
    assert!(
        launched.complaints().contains("rank 2 is late"),
        "{}",
        launched.complaints()
    );

    // Not preloaded: the layer's own recorder.
    let own = folder.path().join("own");
    let recorded = train(Command::new(&program).args(options).env("RANKSCOPE_DIR", &own));
    assert_eq!(recorded.text(), alone.text(), "the same losses");
    assert_eq!(results::merge(&own).code(), 0);

    for run in [&preloaded, &own] {
        assert_eq!(
            recorded::files(run).len(),
            4,
            "{}: one log per rank",
            run.display()
        );
        let session = results::session(run);
        assert_eq!(
            results::integer(&session, "/matching/complete"),
            40,
            "{}",
            run.display()
        );
        assert_eq!(results::late_ranks(&session), [2], "{}", run.display());
        // 64 samples on each of 4 ranks.
        let counted = &session["steps"]["counted"][0];
        assert_eq!(counted["per_step"].as_f64(), Some(256.0), "{counted}");
        for rank in 0..4 {
            let spans = rows::<ProgramSpanRow>(run, rank);
            let of = |name: &str| spans.iter().filter(|row| row.name == name).count();
            let steps = ["load_data", "forward", "backward", "optimizer"].map(of);
            assert_eq!(steps, [40; 4], "{}", run.display());
            let loaded = spans.iter().find(|row| row.name == "load_data").expect("a span");
            assert_eq!(loaded.fields.as_deref(), Some(r#"{"batch":64}"#));
            let ended = spans.iter().find(|row| row.name == "trained").expect("an event");
            assert_eq!(ended.kind, ProgramSpanKind::Event);
            assert!(
                ended
                    .fields
                    .as_deref()
                    .is_some_and(|fields| fields.starts_with(r#"{"loss":0."#))
            );
        }
    }
    drop(turn);
}

/// The header and the Python module repeat the numbers of the rank log.
#[test]
fn operations_have_the_numbers_of_the_rank_log() {
    let read = |path: &str| std::fs::read_to_string(artefacts::root().join(path)).expect("a source");
    let header = read("layer/include/rankscope.h");
    let module = read("layer/python/rankscope/__init__.py");
    let of_header = header
        .lines()
        .filter_map(|line| line.trim().strip_prefix("RANKSCOPE_")?.split_once(" = "));
    let of_module = module
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.split_once("\": "));
    let number = |text: &str| text.trim_end_matches(',').parse::<u8>().ok();
    for (source, all) in [
        ("header", of_header.collect::<Vec<_>>()),
        (
            "module",
            of_module.filter(|(_, text)| number(text).is_some()).collect(),
        ),
    ] {
        assert_eq!(all.len(), 12, "{source}: {all:?}");
        for (name, text) in all {
            let operation = Operation::named(name).unwrap_or_else(|| panic!("{source}: {name}"));
            assert_eq!(number(text), Some(operation as u8), "{source}: {name}");
        }
    }
}

/// The layer must not bring the formats of files into a program.
#[test]
fn the_layer_depends_on_little() {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "tree",
            "--offline",
            "--locked",
            "-p",
            "rankscope-layer",
            "-e",
            "normal",
            "--prefix",
            "none",
        ])
        .args(["--format", "{p}"])
        .current_dir(artefacts::root())
        .output()
        .expect("cargo");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    names.sort_unstable();
    names.dedup();
    let known = [
        "adler2",
        "cfg-if",
        "crc32fast",
        "lazy_static",
        "libc",
        "miniz_oxide",
        "once_cell",
        "proc-macro2",
        "quote",
        "rankscope-layer",
        "rankscope-ranklog",
        "rankscope-recorder",
        "sharded-slab",
        "syn",
        "thiserror",
        "thiserror-impl",
        "thread_local",
        "tracing-core",
        "tracing-subscriber",
        "unicode-ident",
    ];
    let unknown: Vec<&&str> = names.iter().filter(|name| !known.contains(name)).collect();
    assert!(names.len() > 5 && unknown.is_empty(), "{unknown:?} of {names:?}");
}
