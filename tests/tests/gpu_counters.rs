//! Counters of GPUs, from a double of NVML (`tests/doubles/nvml.c`) to the session. The ranks run on the doubles of the
//! driver and of NCCL, which give their devices addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rankscope_formats::session::{CounterRow, TableReader, rank_path};
use rankscope_tests::{artefacts, compile, process, results, turn};
use serde_json::Value;

/// Numbers of steps, of 2.5 ms or more: enough for several samples, and enough for the start of the sampler.
const STEPS: &str = "1500";
const FEW_STEPS: &str = "400";
const LIMIT: Duration = Duration::from_secs(120);
/// Starts one process per rank, each on another GPU.
const START: &str = r#"
program=$1; store=$2; steps=$3
for rank in 0 1; do CUDA_DOUBLE_FIRST_BUS=$rank "$program" $rank 2 "$store" $steps >/dev/null & started="$started $!"; done
for process in $started; do wait $process || exit 1; done"#;

/// Records the job with these options, and with this behaviour of NVML's initialisation. Returns the run directory.
fn run(options: &[&str], initialisation: Option<&str>) -> Option<tempfile::TempDir> {
    timed(options, initialisation, FEW_STEPS).map(|(directory, _)| directory)
}

/// Records the job as [`run`] does, with this number of steps, and returns how long it took. The wait for the turn does not count.
fn timed(
    options: &[&str],
    initialisation: Option<&str>,
    steps: &str,
) -> Option<(tempfile::TempDir, Duration)> {
    let turn = turn::take();
    let program = compile::nccl_loading("cupti_job.cc")?;
    let (cupti, cupti_name) = compile::cupti_double(130_500)?;
    let nvml = compile::shared("nvml.c")?;
    let libraries = tempfile::tempdir().expect("a directory");
    std::fs::copy(nvml, libraries.path().join("libnvidia-ml.so.1")).expect("a copy");
    let scratch = |_: &str| tempfile::tempdir_in(process::memory()).expect("a directory");
    let (store, meet, truth) = (scratch("store"), scratch("meet"), scratch("truth"));
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(artefacts::program());
    process::clean(&mut command);
    command
        .arg("run")
        .arg("-o")
        .arg(directory.path())
        .args(options)
        .args(["--", "sh", "-c", START, "sh"])
        .arg(program)
        .arg(store.path())
        .arg(steps)
        .env(
            "LD_LIBRARY_PATH",
            format!("{}:{}", libraries.path().display(), cupti.display()),
        )
        .env("CUPTI_JOB_LIBRARY", cupti_name)
        .env("NCCL_DOUBLE_MEET", meet.path())
        .env("CUDA_DOUBLE_TRUTH", truth.path())
        .env("RANKSCOPE_LIVE_DIR", process::memory())
        .envs(initialisation.map(|outcome| ("NVML_DOUBLE_INIT", outcome)));
    let began = Instant::now();
    let ended = process::run(command, LIMIT);
    let took = began.elapsed();
    assert_eq!(ended.code(), 0, "{}{}", ended.text(), ended.complaints());
    drop(turn);
    Some((directory, took))
}

fn counters(run: &Path, rank: u32) -> BTreeMap<String, Vec<f64>> {
    let rows = TableReader::<CounterRow>::read_all(&rank_path::<CounterRow>(&run.join("session"), rank));
    let mut out: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in rows.unwrap_or_default() {
        if row.name.starts_with("gpu_") {
            out.entry(row.name).or_default().push(row.value);
        }
    }
    out
}

#[test]
fn each_rank_has_the_samples_of_its_own_gpu() {
    let Some((directory, _)) = timed(&[], None, STEPS) else {
        return;
    };
    let session = results::session(directory.path());
    assert_eq!(session["problems"]["total"], 0, "{}", session["problems"]);
    for (rank, clock, reduced, celsius) in [(0, 1980.0, 0.0, 60.0), (1, 1200.0, 1.0, 91.0)] {
        let counters = counters(directory.path(), rank);
        let expected = BTreeMap::from([
            ("gpu_memory_clock_mhz", 2619.0),
            ("gpu_memory_used_bytes", f64::from(30 << 20) * 1024.0),
            ("gpu_power_watts", 512.5),
            ("gpu_sm_clock_mhz", clock),
            ("gpu_temperature_celsius", celsius),
            ("gpu_throttled_by_hardware", 0.0),
            ("gpu_throttled_by_power", 0.0),
            ("gpu_throttled_by_temperature", reduced),
            ("gpu_utilization_percent", 97.0),
        ]);
        let found: BTreeSet<&str> = counters.keys().map(String::as_str).collect();
        assert_eq!(found, expected.keys().copied().collect(), "rank {rank}");
        for (name, values) in &counters {
            // The job takes 4 s or more.
            assert!(values.len() >= 3, "rank {rank}, {name}: {values:?}");
            assert!(
                values.iter().all(|value| *value == expected[name.as_str()]),
                "rank {rank}, {name}: {values:?}"
            );
        }
    }
    let gpus = session["gpus"].as_array().expect("GPUs");
    let owners: Vec<(&Value, &Value)> = gpus.iter().map(|gpu| (&gpu["address"], &gpu["rank"])).collect();
    let expected = [
        ("00000000:17:00.0", Value::from(0)),
        ("00000000:18:00.0", Value::from(1)),
        ("00000000:19:00.0", Value::Null),
        ("00000000:1A:00.0", Value::Null),
    ];
    let expected: Vec<(Value, Value)> = expected.map(|(address, rank)| (address.into(), rank)).into();
    assert_eq!(
        owners,
        expected
            .iter()
            .map(|(address, rank)| (address, rank))
            .collect::<Vec<_>>()
    );
    assert_eq!(
        gpus[1]["throttled_by_temperature"]["value"]["numerator"],
        gpus[1]["busy_samples"]
    );
    assert_eq!(gpus[1]["busy_sm_clock_mhz"]["value"], 1200.0);
    assert_eq!(gpus[2]["busy_samples"], 0);
    assert!(
        gpus[3]["samples"].as_u64() > Some(2),
        "a lost GPU keeps its place: {}",
        gpus[3]
    );
    assert_eq!(gpus[3]["busy_sm_clock_mhz"]["value"], Value::Null);
}

#[test]
fn no_gpu_is_sampled_if_counters_are_off() {
    let Some(directory) = run(&["--counters", "off"], None) else {
        return;
    };
    for rank in 0..2 {
        assert!(!rank_path::<CounterRow>(&directory.path().join("session"), rank).exists());
    }
    assert_eq!(results::session(directory.path())["gpus"], Value::Null);
    let entries = std::fs::read_dir(directory.path()).expect("a directory");
    let names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(!names.iter().any(|name| name.starts_with("gpus-")), "{names:?}");
}

#[test]
fn a_failure_of_nvml_is_a_problem_and_a_missing_driver_is_none() {
    // 999 is an unknown error, and 9 a driver that is not loaded.
    for (outcome, problems) in [("999", 1), ("9", 0)] {
        let Some(directory) = run(&[], Some(outcome)) else {
            return;
        };
        let session = results::session(directory.path());
        assert_eq!(session["problems"]["total"], problems, "{}", session["problems"]);
        let is_named = session["problems"].to_string().contains("were not sampled: ");
        assert_eq!(is_named, problems > 0, "{}", session["problems"]);
        assert_eq!(session["gpus"], Value::Null);
    }
}

#[test]
fn a_gpu_that_does_not_answer_delays_nothing() {
    let Some((_, usual)) = timed(&[], None, FEW_STEPS) else {
        return;
    };
    let (directory, took) = timed(&[], Some("hang"), FEW_STEPS).expect("as before");
    // The launcher waits for the sampler, for half a second. The rest is noise of this machine.
    assert!(
        took < usual + Duration::from_secs(4),
        "{took:?} instead of {usual:?}"
    );
    let session = results::session(directory.path());
    assert_eq!(session["coverage"]["ranks_seen"], 2);
    let own = format!("sample-gpus\0{}", directory.path().display());
    let is_left = std::fs::read_dir("/proc")
        .expect("processes")
        .flatten()
        .any(|process| {
            std::fs::read(process.path().join("cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&own))
        });
    assert!(!is_left, "a call that can be interrupted is killed");
}
