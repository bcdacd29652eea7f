//! Sessions for tests: a training over real Gloo, a synthetic one, and traces of other jobs.
#![allow(dead_code, reason = "each test program takes what it needs")]

use rankscope_analysis::{MergeOptions, index, merge};
use rankscope_fixtures::logs::Ddp;
use rankscope_fixtures::logs::counters::{self, CounterSamples};
use rankscope_fixtures::logs::pipeline::Pipelined;
use rankscope_formats::session::RESIDENT_MEMORY;
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
    of(directory, &job)
}

/// Writes a training and merges it. Returns the run directory.
pub fn of(directory: &Path, job: &Ddp) -> PathBuf {
    job.write(directory).expect("a run");
    merged(directory)
}

/// Writes a training with pipeline stages and merges it. Returns the run directory.
pub fn pipelined(directory: &Path, job: &Pipelined) -> PathBuf {
    std::fs::create_dir_all(directory).expect("a folder");
    job.write(directory);
    merged(directory)
}

/// Writes a training of two ranks that report counters: a queue with many samples, a loss with a gap, a balance that is
/// also negative, and `more` counters with one sample. Returns the run directory.
pub fn counted(directory: &Path, more: usize) -> PathBuf {
    let job = Ddp {
        ranks: 2,
        steps: 40,
        ..Ddp::default()
    };
    counters::write(directory, &job, |rank| counters_of(rank, more)).expect("a run");
    merged(directory)
}

/// Records a run whose ranks also have a counter of the system.
pub fn counted_with_system(directory: &Path) -> PathBuf {
    let job = Ddp {
        ranks: 2,
        steps: 40,
        ..Ddp::default()
    };
    let counters = |rank| {
        let mut counters = counters_of(rank, 0);
        counters.push(CounterSamples {
            name: RESIDENT_MEMORY.to_owned(),
            samples: (0..10u64)
                .map(|at| (at * 4_000_000, (5 + at) as f64 * 1e8))
                .collect(),
        });
        counters
    };
    counters::write(directory, &job, counters).expect("a run");
    merged(directory)
}

fn counters_of(rank: u32, more: usize) -> Vec<CounterSamples> {
    let samples = |name: &str, samples: Vec<(u64, f64)>| CounterSamples {
        name: name.to_owned(),
        samples,
    };
    // Pseudo-random numbers.
    let noise = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1 << 24) as f64;
    let queue = (0..20_000).map(|at| {
        let wave = (at as f64 / 1500.0 + f64::from(rank)).sin() + 1.2;
        (at * 2_000, (wave * (2.0 + noise(at)) * 1e6).round())
    });
    let loss = (0..40u64).map(|step| {
        let value = if (18..22).contains(&step) {
            f64::NAN
        } else {
            2.5 / (1.0 + step as f64 / 6.0) + 0.1 * noise(step)
        };
        (1_000_000 + step * 1_000_000, value)
    });
    let balance = (0..400u64).map(|at| {
        (
            at * 100_000,
            (at as f64 / 40.0).sin() * (40.0 + f64::from(rank) * 20.0),
        )
    });
    let mut counters = vec![
        samples("queue_bytes", queue.collect()),
        samples("loss", loss.collect()),
        samples("balance", balance.collect()),
    ];
    counters.extend((0..more).map(|number| samples(&format!("more_{number:02}"), vec![(5_000_000, 1.0)])));
    counters
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
