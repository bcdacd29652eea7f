//! Counters of the system, against what the ranks measured of themselves.

use std::collections::BTreeMap;
use std::path::Path;

use rankscope_formats::session::{CounterRow, TableReader, rank_path};
use rankscope_tests::job::{Finished, Job};
use rankscope_tests::python::Python;
use rankscope_tests::results;
use rankscope_tests::turn::{self, Turn};
use serde_json::Value;

const SECONDS: &str = "7";
const KEPT_MIB_PER_S: f64 = 40.0;
const MEMORY: &str = "process_resident_memory_bytes";
const MAIN_THREAD: &str = "processors_main_thread";
const RECEIVED: &str = "network_lo_received_bytes_per_s";

/// Samples of one rank by counter: time and value.
type Samples = BTreeMap<String, Vec<(i64, f64)>>;

fn samples(run: &Path, rank: u32) -> Samples {
    let path = rank_path::<CounterRow>(&run.join("session"), rank);
    let mut out = Samples::new();
    if path.exists() {
        for row in TableReader::<CounterRow>::read_all(&path).expect("a table") {
            out.entry(row.name).or_default().push((row.at_ns, row.value));
        }
    }
    out
}

fn mean(samples: &[(i64, f64)]) -> f64 {
    samples.iter().map(|(_, value)| value).sum::<f64>() / samples.len() as f64
}

/// What a rank measured of itself, in the order of time.
struct Truth(Vec<Value>);

impl Truth {
    fn of(job: &Finished, rank: usize) -> Self {
        let text = job.reported(&format!("steady{rank}.jsonl"));
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line"));
        Self(lines.collect())
    }

    fn number(&self, line: usize, field: &str) -> f64 {
        self.0[line][field].as_f64().expect("a number")
    }

    /// Growth per second over the whole time.
    fn per_s(&self, field: &str) -> f64 {
        let last = self.0.len() - 1;
        let grown = |field: &str| self.number(last, field) - self.number(0, field);
        grown(field) / grown("wall_s")
    }
}

fn run(turn: &Turn, variables: &[(&str, &str)]) -> Option<(tempfile::TempDir, Finished)> {
    let python = Python::wheel()?;
    let directory = tempfile::tempdir().expect("a directory");
    let mut job = Job::torch(&python, "steady.py", 2)
        .arg(SECONDS)
        .arg((KEPT_MIB_PER_S as u32).to_string())
        .record_into(directory.path());
    for (name, value) in variables {
        job = job.env(name, value);
    }
    let job = job.run(turn);
    job.expect_status(0);
    let merged = results::merge(directory.path());
    assert_eq!(merged.code(), 0, "{}", merged.complaints());
    Some((directory, job))
}

#[test]
fn samples_are_what_the_ranks_measured_of_themselves() {
    let turn = turn::take();
    let Some((directory, job)) = run(&turn, &[]) else {
        return;
    };
    drop(turn);
    for rank in 0..2 {
        let truth = Truth::of(&job, rank);
        let samples = samples(directory.path(), rank as u32);
        let context = format!("rank {rank}: {samples:?}");
        // One per second. The process also starts PyTorch before, and ends after.
        let memory = &samples[MEMORY];
        assert!((5..=30).contains(&memory.len()), "{context}");
        for pair in memory.windows(2) {
            let apart_ns = pair[1].0 - pair[0].0;
            assert!((900_000_000..3_000_000_000).contains(&apart_ns), "{context}");
        }
        let private = &samples["process_private_memory_bytes"];
        for (all, private) in memory.iter().zip(private) {
            assert!(private.1 < all.1 && private.1 > 0.2 * all.1, "{context}");
        }
        // A sample that is taken while the process ends shows that it frees its memory.
        let memory = match memory.as_slice() {
            [kept @ .., before, last] if last.1 < before.1 => [kept, &[*before]].concat(),
            all => all.to_vec(),
        };
        // The last sample is less than two intervals old, and memory grows by 40 MiB in each.
        let resident = truth.number(truth.0.len() - 1, "resident_bytes");
        let last = memory.last().expect("a sample").1;
        let interval = KEPT_MIB_PER_S * f64::from(1 << 20);
        assert!(
            (resident - 3.0 * interval..=resident + interval).contains(&last),
            "{resident} {context}"
        );
        // The first second has the start of PyTorch.
        let steady = |name: &str| mean(&samples[name][1..]);
        let main = steady(MAIN_THREAD);
        let measured = truth.per_s("main_s");
        assert!((main - measured).abs() < 0.1, "{main} {measured} {context}");
        let classes: f64 = samples
            .keys()
            .filter(|name| name.starts_with("processors_"))
            .map(|name| steady(name))
            .sum();
        let measured = truth.per_s("process_s");
        assert!(
            (classes - measured).abs() < 0.15,
            "{classes} {measured} {context}"
        );
        assert!(steady("processors_rankscope") < 0.05, "{context}");
        // Gloo's threads move the payload.
        assert!(steady("processors_communication") > 0.0, "{context}");
    }
    let truth = Truth::of(&job, 0);
    let rank_0 = samples(directory.path(), 0);
    let received = mean(&rank_0[RECEIVED][1..]);
    let measured = truth.per_s("received_bytes");
    assert!(measured > 1e6, "{measured}");
    assert!(
        (received / measured - 1.0).abs() < 0.3,
        "{received} {measured} {rank_0:?}"
    );
    assert!(
        rank_0["host_available_memory_bytes"]
            .iter()
            .all(|(_, left)| *left > 0.0)
    );
    // Local rank 0 samples the host.
    let of_host = |name: &String| name.starts_with("network_") || name.starts_with("host_");
    assert!(!samples(directory.path(), 1).keys().any(of_host));
    let session = results::session(directory.path());
    let counters = session["counters"].as_array().expect("counters");
    assert!(
        counters.iter().all(|counter| counter["source"] == "system"),
        "{counters:?}"
    );
    assert_eq!(session["losses"].as_array().map(Vec::len), Some(0));
    let printed = results::rankscope(["report", directory.path().to_str().expect("a path")]);
    assert!(printed.text().contains("System"), "{}", printed.text());
}

#[test]
fn samples_can_be_switched_off_and_rarer() {
    // Each job runs for the same seconds, whatever is sampled.
    let turn = turn::share();
    turn::side_by_side(["off", "3"], |counters| {
        let Some((directory, _)) = run(&turn, &[("RANKSCOPE_COUNTERS", counters)]) else {
            return;
        };
        let samples = samples(directory.path(), 0);
        if counters == "off" {
            assert_eq!(samples, Samples::new());
            return;
        }
        let memory = &samples[MEMORY];
        assert!(memory.len() >= 2, "{memory:?}");
        for pair in memory.windows(2) {
            let apart_ns = pair[1].0 - pair[0].0;
            assert!((2_700_000_000..6_000_000_000).contains(&apart_ns), "{memory:?}");
        }
    });
}
