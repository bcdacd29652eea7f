//! Tests `rankscope import` on traces of real jobs, against the tool whose figures it reproduces.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rankscope_fixtures::random::Noise;
use rankscope_tests::engine::engine;
use rankscope_tests::process;
use rankscope_tests::python::Python;
use rankscope_tests::{artefacts, skip, turn};
use serde_json::{Value, json};

fn fixture(name: &str) -> PathBuf {
    artefacts::root().join("tests/fixtures/hta").join(name)
}

/// Imports traces and returns the summary.
fn import(traces: &[PathBuf], output: &Path, more: &[&str]) -> Value {
    let mut command = Command::new(artefacts::program());
    command
        .args(["import", "kineto", "--json", "-o"])
        .arg(output)
        .args(more)
        .args(traces);
    let output = command.output().expect("the program runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Returns the rows that differ. Numbers are compared as numbers, and NaN equals null.
fn differences(ours: &Value, theirs: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for table in ["overlap", "temporal", "idle"] {
        let (ours, theirs) = (
            ours[table].as_array().expect(table),
            theirs[table].as_array().expect(table),
        );
        if ours.len() != theirs.len() {
            out.push(format!("{table}: {} rows, there {}", ours.len(), theirs.len()));
        }
        for (ours, theirs) in ours.iter().zip(theirs) {
            for (key, theirs_value) in theirs.as_object().expect("a row") {
                assert!(ours.get(key).is_some(), "{table} has no {key}");
                let same = match (ours[key].as_f64(), theirs_value.as_f64()) {
                    (Some(one), Some(other)) => one == other,
                    _ => ours[key] == *theirs_value,
                };
                if !same {
                    out.push(format!("{table} {key}: {ours}, there {theirs}"));
                }
            }
        }
    }
    out
}

#[test]
fn recorded_figures_of_holistic_trace_analysis_are_repeated_digit_by_digit() {
    let expected = fs::read_to_string(fixture("expected.json")).expect("figures");
    // Python writes NaN, which is not valid JSON.
    let expected: Value = serde_json::from_str(&expected.replace("NaN", "null")).expect("JSON");
    let work = tempfile::tempdir().expect("a folder");
    for (name, files) in [
        (
            "two_ranks",
            vec!["two_ranks_rank0.json.gz", "two_ranks_rank1.json.gz"],
        ),
        ("nccl_metadata_rank0", vec!["nccl_metadata_rank0.json.gz"]),
        ("fsdp_rank3", vec!["fsdp_rank3.json.gz"]),
    ] {
        let files: Vec<PathBuf> = files.iter().map(|file| fixture(file)).collect();
        let session = import(&files, &work.path().join(name), &["--compat", "hta"]);
        let differences = differences(&session["imported"]["hta"], &expected[name]);
        assert!(differences.is_empty(), "{name}: {differences:#?}");
    }
}

/// Makes a trace of many short kernels on several streams, with fractions of microseconds, late or missing launches,
/// and three steps.
fn noisy_trace(seed: u64) -> Value {
    let mut noise = Noise(seed);
    let mut events = Vec::new();
    for step in 0..3u64 {
        events.push(json!({"ph": "X", "cat": "user_annotation", "name": format!("ProfilerStep#{step}"), "pid": 900, "tid": 900,
            "ts": 1000.5 + 4000.0 * step as f64, "dur": 3990.25, "args": {}}));
    }
    let mut busy = [1000.0f64; 4];
    for correlation in 1..600u64 {
        let launch = 1000.0 + correlation as f64 * 20.0 + noise.below(9000) as f64 / 1000.0;
        let stream = noise.below(4) as usize;
        let start =
            (launch + noise.below(60_000) as f64 / 1000.0).max(busy[stream] + noise.below(3) as f64 * 0.3);
        let length = noise.below(90_000) as f64 / 1000.0 + 0.05;
        busy[stream] = start + length;
        let (category, name) = match noise.below(6) {
            0 => ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"),
            1 => ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
            2 => ("gpu_memset", "Memset (Device)"),
            _ => ("kernel", "ampere_sgemm_128x64_nn"),
        };
        if noise.below(25) > 0 {
            events.push(json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 900, "tid": 900, "ts": launch,
                "dur": 2.125, "args": {"cbid": 211, "correlation": correlation}}));
        }
        events.push(json!({"ph": "X", "cat": category, "name": name, "pid": 0, "tid": stream + 7, "ts": start, "dur": length,
            "args": {"device": 0, "context": 1, "stream": stream + 7, "correlation": correlation}}));
    }
    json!({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1}, "traceEvents": events})
}

#[test]
fn holistic_trace_analysis_itself_gives_the_same_figures() {
    let setup = artefacts::root().join("tests/setup/hta.sh");
    let found = Command::new(setup).output().expect("the script runs");
    if !found.status.success() {
        skip("Holistic Trace Analysis");
        return;
    }
    let python = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    let work = tempfile::tempdir().expect("a folder");
    for seed in [0x9E37_79B9_7F4A_7C15, 0x1234_5678_9ABC_DEF1] {
        let trace = work.path().join(format!("{seed}.json"));
        let mut file = File::create(&trace).expect("a file");
        file.write_all(noisy_trace(seed).to_string().as_bytes())
            .expect("written");
        let reported = Command::new(&python)
            .arg(artefacts::root().join("tests/programs/hta_figures.py"))
            .arg(format!("0={}", trace.display()))
            .output()
            .expect("Python runs");
        assert!(
            reported.status.success(),
            "{}",
            String::from_utf8_lossy(&reported.stderr)
        );
        let theirs: Value = serde_json::from_slice(&reported.stdout).expect("JSON");
        let session = import(
            &[trace],
            &work.path().join(format!("run-{seed}")),
            &["--compat", "hta"],
        );
        let differences = differences(&session["imported"]["hta"], &theirs);
        assert!(differences.is_empty(), "{differences:#?}");
        assert!(
            theirs["idle"].as_array().is_some_and(|rows| rows.len() >= 8),
            "a trace that says something"
        );
    }
}

/// Runs a program of `tests/programs` that writes its traces to a folder.
fn run_ranks(python: &Python, ranks: usize, program: &str, folder: &Path) {
    let _turn = turn::take();
    let mut command = python.torchrun(ranks);
    command
        .arg(artefacts::root().join("tests/programs").join(program))
        .arg(folder);
    let ended = process::run(command, Duration::from_secs(200));
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

#[test]
fn traces_of_the_current_pytorch_are_imported() {
    let Some(python) = Python::wheel() else { return };
    let work = tempfile::tempdir().expect("a folder");
    run_ranks(&python, 2, "profiled_job.py", work.path());
    // The folder itself is named, as a user would do.
    let session = import(&[work.path().to_path_buf()], &work.path().join("run"), &[]);
    assert_eq!(session["coverage"]["ranks_seen"], 2);
    assert_eq!(session["coverage"]["ranks_expected"]["value"], 2);
    assert_eq!(
        session["hosts"].as_array().map(Vec::len),
        Some(1),
        "both name the same host"
    );
    assert_eq!(session["losses"].as_array().map(Vec::len), Some(0));
    assert_eq!(session["problems"]["total"], 0, "{}", session["problems"]);
    let classes = session["operations"].as_array().expect("operations");
    let count = |operation: &str| -> u64 {
        classes
            .iter()
            .filter(|class| class["operation"] == operation)
            .filter_map(|class| class["operations"].as_u64())
            .sum()
    };
    // Two ranks, four steps. DDP adds one all-reduce per step.
    assert_eq!(count("all-reduce"), 16);
    for operation in ["all-gather", "barrier", "broadcast"] {
        assert_eq!(count(operation), 8, "{operation}");
    }
    assert_eq!((count("send"), count("receive")), (4, 4));
    assert_eq!(session["matching"]["incomplete"], 0);
    assert_eq!(session["matching"]["mismatched"], 0);
    // Rank 1 is 30 ms late at each barrier. The median over both ranks is therefore rank 0's wait.
    let barrier = classes
        .iter()
        .find(|class| class["operation"] == "barrier")
        .expect("barriers");
    let waited = barrier["exposed_wait_rank_ns"].as_i64().unwrap_or(0)
        + barrier["hidden_wait_rank_ns"].as_i64().unwrap_or(0);
    assert!(
        (100_000_000..400_000_000).contains(&waited),
        "four times 30 ms: {waited}"
    );
    assert_eq!(session["steps"]["source"], "marks");
    let trace = work.path().join("run/trace.pftrace");
    if let Some(found) = engine(&["check", &trace.display().to_string()]) {
        assert_eq!(found, "");
    }
}

#[test]
fn a_trace_of_one_of_many_ranks_names_the_missing_ranks_and_gives_advice() {
    let work = tempfile::tempdir().expect("a folder");
    let session = import(
        &[fixture("cpu_only_gloo_rank34.json.gz")],
        &work.path().join("run"),
        &[],
    );
    assert_eq!(session["coverage"]["ranks_seen"], 1);
    assert_eq!(session["coverage"]["ranks_expected"]["value"], 300);
    assert_eq!(session["ranks"][0]["number"]["value"], 34);
    let advice = session["coverage"]["advice"].as_str().expect("advice");
    assert!(advice.contains("import"), "{advice}");
    assert_eq!(session["totals"]["operations"], 10);
}

#[test]
fn wrong_usage_says_what_to_do_and_a_recording_is_never_overwritten() {
    let work = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let output = Command::new(artefacts::program())
            .args(arguments)
            .output()
            .expect("the program runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let trace = fixture("cpu_only_gloo_rank34.json.gz").display().to_string();
    let (code, reported) = run(&["import", "kineto", &trace]);
    assert_eq!(code, Some(2));
    assert!(reported.contains("-o DIR"), "{reported}");
    let empty = work.path().display().to_string();
    let (code, reported) = run(&["import", "kineto", &empty]);
    assert_eq!(code, Some(2));
    assert!(reported.contains("export_chrome_trace"), "{reported}");
    let (code, reported) = run(&["import", "kineto", "/no/such/file.json", "-o", &empty]);
    assert_eq!(code, Some(2));
    assert!(reported.contains("/no/such/file.json"), "{reported}");
    let recording = work.path().join("recording");
    fs::create_dir(&recording).expect("made");
    let log = recording.join("someone.rslog");
    fs::write(&log, "a recording that cannot be read").expect("written");
    let (code, reported) = run(&["import", "kineto", &trace, "-o", &recording.display().to_string()]);
    assert_eq!(code, Some(2));
    assert!(reported.contains("recording") && log.is_file(), "{reported}");
    // An earlier import is replaced.
    let again = work.path().join("again");
    for _ in 0..2 {
        let session = import(
            &[
                fixture("two_ranks_rank0.json.gz"),
                fixture("two_ranks_rank1.json.gz"),
            ],
            &again,
            &[],
        );
        assert_eq!(session["coverage"]["ranks_seen"], 2);
    }
    let session = import(&[fixture("two_ranks_rank0.json.gz")], &again, &[]);
    assert_eq!(
        session["coverage"]["ranks_seen"], 1,
        "nothing of the earlier import is left"
    );
}

#[test]
fn dumps_of_the_current_pytorch_name_the_rank_that_never_called() {
    let Some(python) = Python::wheel() else { return };
    let work = tempfile::tempdir().expect("a folder");
    run_ranks(&python, 3, "flight_recorder_job.py", work.path());
    for (encoding, dumps) in [
        ("pickle", work.path().to_path_buf()),
        ("JSON", work.path().join("json")),
    ] {
        let run = work.path().join(encoding);
        let mut command = Command::new(artefacts::program());
        command.args(["import", "flight-recorder", "--json", "--one-host", "-o"]);
        let output = command.arg(&run).arg(&dumps).output().expect("the program runs");
        let session: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!(session["coverage"]["ranks_seen"], 3, "{encoding}");
        let findings = session["findings"].as_array().expect("findings");
        let hang = findings
            .iter()
            .find(|finding| finding["kind"] == "never-finished");
        let evidence = &hang.expect("a hang")["evidence"];
        assert_eq!(
            evidence[0], "all-reduce 4 of default_pg: no call of rank 2",
            "{encoding}"
        );
    }
}
