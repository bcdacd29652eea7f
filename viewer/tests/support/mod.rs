//! Sessions for tests: a training over real Gloo, a synthetic one, and traces of other jobs.
#![allow(dead_code, reason = "each test program takes what it needs")]

use rankscope_analysis::{MergeOptions, index, merge};
use rankscope_fixtures::logs::Ddp;
use rankscope_import::ImportOptions;
use rankscope_tests::artefacts::root;
use rankscope_tests::job::Job;
use rankscope_tests::{compile, results, turn};
use std::path::{Path, PathBuf};

/// Records a training of four ranks over real Gloo in which rank 1 is late in every step. Returns the run directory;
/// `None` without Gloo.
pub fn gloo(directory: &Path) -> Option<PathBuf> {
    gloo_for(directory, 40, 10_000)
}

/// Records like [`gloo`], with this number of steps, each of this intended duration in microseconds.
pub fn gloo_for(directory: &Path, steps: u32, step_us: u32) -> Option<PathBuf> {
    let turn = turn::take();
    let program = compile::gloo("gloo_train.cc")?;
    let mut job = Job::program(&program, 4);
    job = job.arg("ddp").arg(steps.to_string()).arg(step_us.to_string());
    for argument in ["persistent", "1", "300", "3"] {
        job = job.arg(argument);
    }
    job.record_into(directory).run(&turn).expect_status(0);
    results::merge(directory);
    Some(directory.to_path_buf())
}

/// Writes a synthetic training. Returns the run directory.
pub fn made(directory: &Path, ranks: u32, steps: u32) -> PathBuf {
    let job = Ddp {
        ranks,
        steps,
        noise: 1,
        slow: Some((ranks / 2, 50_000)),
        ..Ddp::default()
    };
    job.write(directory).expect("a run");
    merged(directory)
}

/// Imports torch.profiler traces. Returns the run directory.
pub fn imported(directory: &Path, traces: &[&str]) -> PathBuf {
    let folder = root().join("tests/fixtures/hta");
    let files = traces.iter().map(|name| folder.join(name)).collect();
    let options = ImportOptions {
        files,
        output: directory.to_path_buf(),
        ..ImportOptions::default()
    };
    rankscope_import::kineto(&options, &|_| {}).expect("imported");
    merged(directory)
}

fn merged(directory: &Path) -> PathBuf {
    let options = MergeOptions::of_run(directory);
    let session = merge(&options, &mut |_| {}).expect("merged");
    let ranks = 0..session.ranks.len() as u32;
    index::ensure(&options.output, &session, ranks, &mut |_, _| {}).expect("indexed");
    directory.to_path_buf()
}
