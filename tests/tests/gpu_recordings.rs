//! Results on recordings of a real GPU (`tests/fixtures/gpu_h200`).
//!
//! Test doubles show that the code does what its authors expect of CUPTI and NCCL. These recordings show what CUPTI and
//! NCCL really did.

use flate2::read::GzDecoder;
use rankscope_cupti_sys::dump::Dump;
use rankscope_cupti_sys::record::Activity;
use rankscope_formats::session::{NameRow, TableReader, WorkRow, rank_path};
use rankscope_tests::artefacts::root;
use rankscope_tests::results;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

fn fixtures() -> PathBuf {
    root().join("tests/fixtures/gpu_h200")
}

/// Merges a copy of a recording, because a merge writes beside it.
fn merged(name: &str) -> (tempfile::TempDir, Value) {
    let copy = tempfile::tempdir().expect("a directory");
    for entry in fs::read_dir(fixtures().join(name)).expect("a recording") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, copy.path().join(path.file_name().expect("a name"))).expect("a copy");
    }
    let session = results::session(copy.path());
    assert_eq!(session["problems"]["total"], 0, "{name}: {}", session["problems"]);
    assert_eq!(session["losses"], Value::Array(Vec::new()), "{name}");
    (copy, session)
}

fn works(run: &Path) -> (Vec<WorkRow>, BTreeMap<u32, String>) {
    let session = run.join("session");
    let works = TableReader::<WorkRow>::read_all(&rank_path::<WorkRow>(&session, 0)).expect("works");
    let names = TableReader::<NameRow>::read_all(&rank_path::<NameRow>(&session, 0)).expect("names");
    (
        works,
        names.into_iter().map(|row| (row.number, row.name)).collect(),
    )
}

#[test]
fn trainings_have_a_kernel_per_operation_and_a_launch_per_kernel() {
    for (name, operations, kernels, works) in [
        ("ddp_kernels", 318, 3441, 4486),
        ("fsdp_kernels", 480, 2198, 3199),
    ] {
        let (_run, session) = merged(name);
        assert_eq!(session["totals"]["instances"], operations, "{name}");
        assert_eq!(session["totals"]["operations"], 2 * operations, "{name}");
        assert_eq!(session["matching"]["incomplete"], 0, "{name}");
        assert_eq!(session["matching"]["mismatched"], 0, "{name}");
        for rank in 0..2 {
            let activity = &session["activity"][rank];
            for (figure, expected) in [
                ("kernels", kernels),
                ("communication_kernels", operations),
                ("with_launch", works),
                ("launches_without_work", 0),
                ("calls_without_kernel", 0),
                ("without_call", 0),
                ("by_order", 0),
                ("lost", 0),
            ] {
                assert_eq!(activity[figure], expected, "{name}, rank {rank}: {figure}");
            }
            assert_eq!(activity["adds_up"], true, "{name}");
            // The device's times are on the axis of the host: no kernel begins before its launch, and none ends after
            // the call that waited for it.
            for figure in ["shortest_launch_ns", "shortest_wait_ns"] {
                let shortest = activity[figure]["value"].as_i64().expect("a time");
                assert!(
                    (1_000..100_000).contains(&shortest),
                    "{name}, rank {rank}: {figure} {shortest}"
                );
            }
        }
    }
}

#[test]
fn kernels_have_the_times_that_they_stored_themselves() {
    let (run, session) = merged("kernels");
    let truth: Value =
        serde_json::from_slice(&fs::read(fixtures().join("kernels/truth.json")).expect("the truth"))
            .expect("JSON");
    let activity = &session["activity"][0];
    for kind in ["kernels", "copies", "sets"] {
        assert_eq!(activity[kind], truth[kind], "{kind}");
    }
    let (works, names) = works(run.path());
    let mut streams: BTreeMap<Option<u32>, Vec<&WorkRow>> = BTreeMap::new();
    for work in &works {
        if work.name.is_some_and(|name| names[&name] == "rankscope_spin") {
            streams.entry(work.stream).or_default().push(work);
        }
    }
    let mut streams: Vec<_> = streams.into_values().collect();
    streams.sort_by_key(|works| works[0].start_ns);
    assert_eq!(streams.len(), 2);
    let known = truth["known"].as_array().expect("kernels");
    let ns = |kernel: &Value, name: &str| kernel[name].as_i64().expect("a time");
    let (mut checked, mut offsets) = (0, Vec::new());
    for (stream, works) in streams.iter().enumerate() {
        let own: Vec<&Value> = known.iter().filter(|one| one["stream"] == stream).collect();
        assert_eq!(own.len(), works.len());
        for (kernel, work) in own.iter().zip(works) {
            let lasted = ns(kernel, "end_ns") - ns(kernel, "start_ns");
            // A kernel begins before its first instruction, and ends after its last one.
            let more = work.end_ns - work.start_ns - lasted;
            assert!((0..=1_500).contains(&more), "{more} ns more than {lasted}");
            offsets.push(ns(kernel, "start_ns") - work.start_ns);
            checked += 1;
        }
    }
    assert_eq!(checked, 400);
    // The device's timer and the axis drift apart by some parts per million, during two seconds.
    let spread = offsets.iter().max().expect("offsets") - offsets.iter().min().expect("offsets");
    assert!(spread < 50_000, "starts are {spread} ns apart");
}

#[test]
fn samples_of_the_gpu_belong_to_its_rank() {
    let (_run, session) = merged("load");
    let gpus = session["gpus"].as_array().expect("GPUs");
    assert_eq!(gpus.len(), 1);
    let gpu = &gpus[0];
    assert_eq!(gpu["rank"], 0);
    assert_eq!(gpu["model"], "NVIDIA H200");
    assert_eq!(gpu["max_sm_clock_mhz"], 1980);
    assert_eq!(gpu["busy_samples"], 15);
    let power = &gpu["throttled_by_power"]["value"];
    assert_eq!(
        (&power["numerator"], &power["denominator"]),
        (&Value::from(15), &Value::from(15))
    );
    let clock = gpu["busy_sm_clock_mhz"]["value"].as_f64().expect("a clock");
    assert!((1_400.0..1_600.0).contains(&clock), "{clock}");
    // Products of large matrices and nothing else.
    let activity = &session["activity"][0];
    let ratio = activity["compute_only_ns"].as_f64().expect("a time")
        / activity["window_ns"].as_f64().expect("a time");
    assert!((0.98..=1.0).contains(&ratio), "{ratio}");
}

#[test]
fn records_of_cupti_are_read() {
    let file = fs::File::open(fixtures().join("torch_profiler.cuptidump.gz")).expect("records");
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes).expect("records");
    let dump = Dump::open(&bytes).expect("a dump");
    assert_eq!(dump.version, 130_001);
    let (mut kernels, mut calls, mut overheads) = (BTreeMap::new(), BTreeMap::new(), 0);
    for record in dump {
        match record.expect("a whole record").0 {
            Activity::Kernel(kernel) => {
                assert!(kernel.span.start < kernel.span.end);
                assert!(kernels.insert(kernel.correlation, kernel).is_none());
            }
            Activity::Call(call) => {
                assert!(call.span.start < call.span.end);
                calls.insert(call.correlation, call);
            }
            Activity::Overhead(_) => overheads += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((kernels.len(), calls.len(), overheads), (4_400, 4_406, 16));
    for (correlation, kernel) in &kernels {
        let call = &calls[correlation];
        // `cudaLaunchKernel` of the runtime library. The call inside it is not recorded.
        assert_eq!((call.function, call.is_runtime, call.returned), (211, true, 0));
        assert!(call.span.start < kernel.span.start);
        assert_eq!((kernel.place.device, kernel.place.context), (0, 1));
    }
}

#[test]
fn a_report_says_how_far_device_times_can_be_wrong() {
    let (run, session) = merged("ddp_kernels");
    let path = run.path().to_str().expect("a plain name");
    let text = results::rankscope(["report", path]).text();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(
            "kernels start at least 4.46 µs after their launch; they end at least 25.8 µs before a call that waits for \
             them returns"
        ),
        "{words}"
    );
    assert!(!words.contains("device times are too"), "{words}");
    // As on a GPU whose CUPTI converted its times wrongly.
    for (figure, expected) in [
        (
            "shortest_launch_ns",
            "a kernel starts before its launch: device times are too early",
        ),
        (
            "shortest_wait_ns",
            "a kernel ends after the wait for it: device times are too late",
        ),
    ] {
        let mut wrong = session.clone();
        wrong["activity"][1][figure]["value"] = Value::from(-67_000);
        let file = run.path().join("session/session.json");
        fs::write(&file, serde_json::to_vec(&wrong).expect("JSON")).expect("a session");
        let text = results::rankscope(["report", path]).text();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(expected), "{words}");
    }
}

#[test]
fn a_hang_on_the_device_names_the_operation_and_who_never_called_it() {
    let (run, session) = merged("hang");
    let pending = &session["ranks"][0]["pending_on_device"];
    assert_eq!(pending["operation"], "all-reduce");
    assert_eq!(
        (&pending["sequence"], &pending["later"]),
        (&Value::from(10), &Value::from(0))
    );
    // The ranks were killed after 30 s, and the start of PyTorch took some of them.
    for figure in ["for_ns", "silent_for_ns"] {
        let ns = pending[figure].as_i64().expect("a time");
        assert!((10_000_000_000..30_000_000_000).contains(&ns), "{figure}: {ns}");
    }
    assert_eq!(session["ranks"][1]["pending_on_device"], Value::Null);
    let findings = session["findings"].as_array().expect("findings");
    let finding = findings
        .iter()
        .find(|one| one["kind"] == "never-finished")
        .expect("a finding");
    assert_eq!(finding["severity"], "critical");
    assert_eq!(finding["ranks"], serde_json::json!([0]));
    let evidence = finding["evidence"].to_string();
    assert!(
        evidence.contains("all-reduce 10 of communicator 0 (2 members): no call of rank 1"),
        "{evidence}"
    );
    assert!(
        evidence.contains("was enqueued on the device, and has not completed for"),
        "{evidence}"
    );
    // The first sentence of the report is about it.
    let text = results::rankscope(["report", run.path().to_str().expect("a plain name")]).text();
    assert!(
        text.contains("1 rank was waiting for an operation on the device when the log ended"),
        "{text}"
    );
}

#[test]
fn jobs_that_made_progress_to_their_end_are_not_stuck_on_their_devices() {
    for name in ["ddp_kernels", "fsdp_kernels", "load", "killed"] {
        let (_run, session) = merged(name);
        // The device of a killed job still had work.
        let pending = &session["ranks"][0]["pending_on_device"];
        assert_eq!(pending.is_object(), name == "killed", "{name}: {pending}");
        let findings = session["findings"].as_array().expect("findings");
        assert!(
            findings.iter().all(|one| one["kind"] != "never-finished"),
            "{name}"
        );
    }
}
