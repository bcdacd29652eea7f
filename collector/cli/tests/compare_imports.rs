//! Tests comparisons of runs that other profilers recorded: a slower kernel is named, and other GPUs are no regression.

#[allow(dead_code, reason = "other tests use the rest")]
mod import_support;

use import_support::kineto::{BEGIN, Rank};
use import_support::nsys::report_of;
use rankscope_analysis::{MergeOptions, merge};
use rankscope_compare::settings::Settings;
use rankscope_compare::summarise::summarise;
use rankscope_compare::{Run, compare};
use rankscope_formats::comparison::Comparison;
use rankscope_import::{ImportOptions, ReadOptions};
use serde_json::json;
use std::path::{Path, PathBuf};

const RUNS: u64 = 4;
const STEPS: i64 = 24;

/// Returns a number from −1 to 1 that depends only on the run and the step.
fn noise(run: u64, step: i64) -> f64 {
    let mixed = (run * 7919 + step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

fn options(files: Vec<PathBuf>, output: &Path) -> ImportOptions {
    ImportOptions {
        files,
        output: output.to_path_buf(),
        read: ReadOptions::default(),
        ..ImportOptions::default()
    }
}

fn summarised(run: &Path) -> Run {
    merge(&MergeOptions::of_run(run), &mut |_| {}).expect("merged");
    Run::of_session(summarise(&run.join("session"), "run").expect("a summary"))
}

/// Writes and summarises runs whose first kernel takes `longer_us` more in each step.
fn kineto(work: &Path, side: &str, first: u64, longer_us: f64, model: &str) -> Vec<Run> {
    (first..first + RUNS)
        .map(|run| {
            let directory = work.join(format!("{side}-{run}"));
            std::fs::create_dir_all(&directory).expect("a folder");
            let files = (0..2)
                .map(|number| {
                    let mut rank = Rank::new(number);
                    let mut begin = BEGIN as f64;
                    for step in 1..=STEPS {
                        let more = longer_us + 3.0 * noise(run, step);
                        rank.step_at(step, begin, 150.0 + more, 1000.0 + more);
                        begin += 1000.0 + more;
                    }
                    let mut trace = rank.trace(Some("node"));
                    trace["deviceProperties"] = json!([{"id": 0, "name": model}, {"id": 1, "name": model}]);
                    let path = directory.join(format!("rank{number}.json"));
                    std::fs::write(&path, trace.to_string()).expect("written");
                    path
                })
                .collect();
            let output = directory.join("run");
            rankscope_import::kineto(&options(files, &output), &|_| {}).expect("imported");
            summarised(&output)
        })
        .collect()
}

fn nsys(work: &Path, side: &str, first: u64, longer_us: f64) -> Vec<Run> {
    (first..first + RUNS)
        .map(|run| {
            let path = work.join(format!("{side}-{run}.sqlite"));
            report_of(&path, STEPS, |step| {
                ((longer_us + 3.0 * noise(run, step)) * 1e3) as i64
            });
            let output = work.join(format!("{side}-{run}"));
            rankscope_import::nsys(&options(vec![path], &output), &|_| {}).expect("imported");
            summarised(&output)
        })
        .collect()
}

fn compared(base: &[Run], new: &[Run]) -> Comparison {
    compare(base, new, &[], &Settings::default()).expect("sides")
}

fn names_the_kernel(comparison: &Comparison, kind: &str) {
    assert_eq!(
        comparison.exit_status, 1,
        "{:#?} {:?}",
        comparison.gates, comparison.differences
    );
    assert!(comparison.base.runs.len() == RUNS as usize && comparison.new.runs.len() == RUNS as usize);
    let found = comparison
        .changes
        .iter()
        .any(|change| change.kind.starts_with("kernel") && change.text.contains("gemm"));
    assert!(found, "{kind}: {:#?}", comparison.changes);
    let step = comparison
        .metrics
        .iter()
        .find(|metric| metric.metric == "step_time")
        .expect("a metric");
    assert!((step.change - 100e3).abs() < 5e3, "{kind}: {step:?}");
}

#[test]
fn a_slower_kernel_of_torch_profiler_is_named_and_another_gpu_is_no_regression() {
    let work = tempfile::tempdir().expect("a folder");
    let base = kineto(work.path(), "base", 1, 0.0, "NVIDIA A100-SXM4-80GB");
    names_the_kernel(
        &compared(
            &base,
            &kineto(work.path(), "slower", 11, 100.0, "NVIDIA A100-SXM4-80GB"),
        ),
        "kineto",
    );
    let same = compared(
        &base,
        &kineto(work.path(), "same", 21, 0.0, "NVIDIA A100-SXM4-80GB"),
    );
    assert_eq!(same.exit_status, 0, "{:#?} {:?}", same.gates, same.differences);
    let other = compared(
        &base,
        &kineto(work.path(), "other", 31, 100.0, "NVIDIA H100 80GB HBM3"),
    );
    assert_eq!(other.exit_status, 3);
    assert!(
        other
            .differences
            .iter()
            .any(|found| found.what == "hardware" && found.text.contains("H100")),
        "{:?}",
        other.differences
    );
}

#[test]
fn a_slower_kernel_of_nsight_systems_is_named() {
    let work = tempfile::tempdir().expect("a folder");
    let base = nsys(work.path(), "base", 1, 0.0);
    names_the_kernel(&compared(&base, &nsys(work.path(), "slower", 11, 100.0)), "nsys");
    let same = compared(&base, &nsys(work.path(), "same", 21, 0.0));
    assert_eq!(same.exit_status, 0, "{:#?} {:?}", same.gates, same.differences);
}
