//! `rankscope selftest`: Gloo is real, NCCL's host code is real, and the device and CUPTI are doubles.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use flate2::read::GzDecoder;
use rankscope_tests::host_nccl::HostNccl;
use rankscope_tests::process::{self, Ended};
use rankscope_tests::python::Python;
use rankscope_tests::{artefacts, compile, cupti_run, turn};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(240);

/// Runs the selftest with a Python in front of the search path.
fn selftest(python: Option<&Python>, arguments: &[&str], variables: &[(&str, &str)]) -> (Ended, Value) {
    let mut command = Command::new(artefacts::program());
    process::clean(&mut command);
    command.args(["selftest", "--json"]).args(arguments);
    if let Some(folder) = python.and_then(|python| python.path.parent()) {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", folder.display()));
    }
    for (name, value) in variables {
        command.env(name, value);
    }
    let ended = process::run(command, LIMIT);
    let document = serde_json::from_slice(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", ended.text(), ended.complaints()));
    (ended, document)
}

fn part<'a>(document: &'a Value, name: &str) -> &'a Value {
    let parts = document["parts"].as_array().expect("parts");
    parts
        .iter()
        .find(|part| part["name"] == name)
        .unwrap_or_else(|| panic!("no {name}: {document}"))
}

fn figure(part: &Value, name: &str) -> f64 {
    part["figures"][name]
        .as_f64()
        .unwrap_or_else(|| panic!("no {name}: {part}"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn without_a_gpu_it_says_so_and_checks_gloo() {
    let Some(python) = Python::wheel() else { return };
    let turn = turn::take();
    let folder = tempfile::tempdir_in(process::memory()).expect("a directory");
    let bundle = folder.path().join("bundle.tar.gz");
    let arguments = [
        "--parts",
        "gloo,gloo-killed,nccl,kernels,price",
        "--bundle",
        text(&bundle),
    ];
    let (ended, document) = selftest(Some(&python), &arguments, &[]);
    assert_eq!(ended.code(), 0, "{document}");
    assert_eq!(document["machine"]["gpus"], 0);
    for name in ["gloo", "gloo-killed"] {
        assert_eq!(part(&document, name)["verdict"], "passed", "{document}");
        assert!(figure(part(&document, name), "operations") > 100.0);
    }
    for name in ["nccl", "kernels"] {
        assert_eq!(part(&document, name)["verdict"], "skipped");
        assert_eq!(part(&document, name)["seen"][0], "there is no GPU here");
    }
    let price = part(&document, "price");
    assert_eq!(price["verdict"], "measured", "{price}");
    assert!(figure(price, "gloo_call_ratio") > 0.2);
    let file = File::open(&bundle).expect("the bundle");
    let mut archive = tar::Archive::new(GzDecoder::new(file));
    let names: Vec<String> = archive
        .entries()
        .expect("an archive")
        .map(|entry| {
            entry
                .expect("an entry")
                .path()
                .expect("a path")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert!(names.contains(&"selftest/results.json".to_owned()), "{names:?}");
    let logs = names
        .iter()
        .filter(|name| name.starts_with("selftest/gloo/") && name.ends_with(".rslog"));
    assert_eq!(logs.count(), 2, "{names:?}");
    drop(turn);
}

#[test]
fn where_nothing_can_run_the_status_says_so() {
    let nothing = tempfile::tempdir().expect("a directory");
    let path = [("PATH", text(nothing.path()))];
    let (ended, document) = selftest(None, &["--parts", "nccl,kernels"], &path);
    assert_eq!(ended.code(), 3, "{document}");
}

/// Runs parts on the doubles of NCCL, the driver and CUPTI. The doubles execute the kernels that the programs bring.
fn on_doubles(parts: &str, more: &[(&str, &str)]) -> Option<(Ended, Value)> {
    let nccl = compile::nccl_double()?;
    let (cupti, name) = compile::cupti_double(cupti_run::NEWEST)?;
    // A Python in the search path may have the real one.
    let cupti_file = cupti.join(name);
    let meet = tempfile::tempdir_in(process::memory()).expect("a directory");
    let libraries = format!("{}:{}", nccl.display(), cupti.display());
    let library = nccl.join("libnccl.so.2");
    let mut variables = vec![
        ("LD_LIBRARY_PATH", libraries.as_str()),
        ("NCCL_DOUBLE_MEET", text(meet.path())),
        ("RANKSCOPE_CUPTI", text(&cupti_file)),
    ];
    variables.extend(more);
    let arguments = ["--library", text(&library), "--parts", parts];
    Some(selftest(None, &arguments, &variables))
}

#[test]
fn known_device_work_is_held_against_the_recording() {
    let turn = turn::share();
    // Each part sleeps for seconds until the recording has begun.
    let parts = [
        "kernels",
        "early-graph",
        "kernels-exit",
        "kernels-killed",
        "other-profiler",
    ];
    turn::side_by_side(parts, |name| {
        let Some((ended, document)) = on_doubles(name, &[]) else {
            return;
        };
        assert_eq!(ended.code(), 0, "{document:#}");
        assert_eq!(document["machine"]["gpu_model"], "Double of a GPU");
        let part = part(&document, name);
        let expected = if name == "early-graph" {
            "measured"
        } else {
            "passed"
        };
        assert_eq!(part["verdict"], expected, "{name}: {document:#}");
        match name {
            "early-graph" => {
                assert_eq!(figure(part, "early_graph_kernels_launched"), 500.0);
                // The double of CUPTI knows all nodes.
                assert_eq!(figure(part, "early_graph_kernels_recorded"), 500.0);
            }
            "other-profiler" => assert!(
                figure(part, "works_recorded") >= 800.0,
                "the recording goes on: {part}"
            ),
            "kernels" => {
                assert_eq!(
                    figure(part, "works_launched"),
                    figure(part, "works_recorded") + figure(part, "works_lost")
                );
                assert!(figure(part, "works_launched") > 20_000.0);
                assert!(figure(part, "shortest_launch_to_start_ns") >= 0.0);
            }
            _ => {}
        }
    });
    drop(turn);
}

/// A wrong recording must fail.
#[test]
fn wrong_times_are_found() {
    let turn = turn::share();
    // The recorded kernels are 50 us longer than the kernels themselves say.
    let Some((ended, document)) = on_doubles("kernels", &[("CUDA_DOUBLE_SPIN_OFF_NS", "50000")]) else {
        return;
    };
    assert_eq!(ended.code(), 1, "{document:#}");
    let failures = part(&document, "kernels")["failures"].to_string();
    assert!(failures.contains("durations are wrong"), "{failures}");
    drop(turn);
}

/// NCCL's host code is real. The device is a stand-in.
#[test]
fn nccl_is_checked_by_calls_plugin_and_events() {
    let turn = turn::take();
    // The newest version, and the oldest, whose plugin reports no times.
    let all = HostNccl::all();
    for nccl in all
        .first()
        .into_iter()
        .chain(all.last().filter(|_| all.len() > 1))
    {
        let library = nccl.directory.join("libnccl.so.2");
        let variables = [
            ("LD_LIBRARY_PATH", text(&nccl.directory)),
            ("HOST_NCCL_DEVICES", "2"),
        ];
        let arguments = [
            "--library",
            text(&library),
            "--parts",
            "nccl,nccl-calls,nccl-events",
        ];
        let (ended, document) = selftest(None, &arguments, &variables);
        assert_eq!(ended.code(), 0, "NCCL {}: {document:#}", nccl.version);
        for name in ["nccl", "nccl-calls", "nccl-events"] {
            assert_eq!(
                part(&document, name)["verdict"],
                "passed",
                "NCCL {}: {document:#}",
                nccl.version
            );
        }
        let mut with_times = vec!["nccl-events"];
        if HostNccl::with_device_times().any(|other| other.version == nccl.version) {
            with_times.push("nccl");
        }
        for (name, rank) in with_times.iter().flat_map(|name| [(name, 0), (name, 1)]) {
            let timed = figure(part(&document, name), &format!("timed_operations_rank_{rank}"));
            assert!(timed > 0.0, "NCCL {} {name}: {document:#}", nccl.version);
        }
    }
    drop(turn);
}
