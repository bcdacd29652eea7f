//! Tests comparisons of trainings over real Gloo between two hosts, with changes of known size.
//!
//! A change is found and named if the printed size allows. Otherwise the result is inconclusive, with the number of
//! runs that would decide.

use rankscope_formats::comparison::GateVerdict;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rankscope_formats::comparison::Comparison;
use rankscope_tests::disturbed::once_more;
use rankscope_tests::job::Job;
use rankscope_tests::network::{Link, Network};
use rankscope_tests::turn::Turn;
use rankscope_tests::{compile, process, results, turn};

const ROUNDS: u64 = 5;
const STEPS: u32 = 40;
/// Computing time of a step, in microseconds. Transfers take about twice as long.
const COMPUTE_US: u32 = 10_000;
/// Rate of the link in each direction. A bucket has 32 KiB.
const BYTES_PER_SECOND: u64 = 6_000_000;

/// Factor of the slower link. It is above what can be found on a busy machine, where a tenth is not.
const SLOWER_LINK: f64 = 1.3;

/// A training that differs from the base.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    pattern: &'static str,
    compute_us: u32,
    /// Additional time of rank 1 before each forward pass, in microseconds.
    late_us: u32,
    /// Whether the link is slower by [`SLOWER_LINK`].
    is_link_slow: bool,
}

const BASE: Variant = Variant {
    name: "base",
    pattern: "ddp",
    compute_us: COMPUTE_US,
    late_us: 0,
    is_link_slow: false,
};

const CHANGES: [Variant; 5] = [
    Variant {
        name: "late",
        late_us: 10_000,
        ..BASE
    },
    Variant {
        name: "longer",
        // 5 % of a step of 28 ms.
        compute_us: COMPUTE_US + 1_400,
        ..BASE
    },
    Variant {
        name: "slower-link",
        is_link_slow: true,
        ..BASE
    },
    Variant {
        name: "added",
        pattern: "added",
        ..BASE
    },
    Variant {
        name: "halved",
        pattern: "halved",
        ..BASE
    },
];

impl Variant {
    fn record(&self, turn: &Turn, program: &Path, network: &Arc<Network>, seed: u64, run: &Path) {
        let permille = u64::from(self.late_us) * 1000 / u64::from(self.compute_us);
        let fault = if self.late_us > 0 { "persistent" } else { "none" };
        let mut job = Job::program(program, 2);
        for argument in [
            self.pattern.to_owned(),
            STEPS.to_string(),
            self.compute_us.to_string(),
            fault.to_owned(),
            "1".to_owned(),
            permille.to_string(),
            seed.to_string(),
        ] {
            job = job.arg(argument);
        }
        let finished = job.on_hosts(network, &[0, 1]).record_into(run).run(turn);
        finished.expect_status(0);
        let merged = results::rankscope(["merge", "--only-session", text(run)]);
        assert_eq!(merged.code(), 0, "{}{}", merged.text(), merged.complaints());
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary directories have plain names")
}

fn network(seed: u64, slower: f64) -> Option<Arc<Network>> {
    let link = Link {
        least_delay: Duration::from_micros(100),
        mean_jitter: Duration::from_micros(20),
        bytes_per_second: Some((BYTES_PER_SECOND as f64 / slower) as u64),
    };
    Network::new(2, seed, |_, _| link).map(Arc::new)
}

fn compared(base: &Path, new: &Path) -> Comparison {
    let runs =
        |side: &Path| -> Vec<PathBuf> { (0..ROUNDS).map(|run| side.join(format!("run-{run}"))).collect() };
    let (base, new) = (runs(base), runs(new));
    let words = std::iter::once("compare")
        .chain(base.iter().map(|run| text(run)))
        .chain(["--"])
        .chain(new.iter().map(|run| text(run)))
        .chain(["--json"]);
    let ended = results::rankscope(words);
    let comparison: Comparison = serde_json::from_slice(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", ended.text(), ended.complaints()));
    assert_eq!(i32::from(comparison.exit_status), ended.code());
    comparison
}

/// Asserts that the metric's gate failed, unless the change was below the size that the comparison claims to find.
fn found(comparison: &Comparison, metric: &str, change_ns: f64) {
    let gate = comparison
        .gates
        .iter()
        .find(|gate| gate.metric == metric)
        .expect("a gate");
    if gate.verdict == GateVerdict::Fail {
        assert_eq!(comparison.exit_status, 1);
        return;
    }
    let printed = comparison
        .detectable
        .iter()
        .find(|found| found.metric == metric)
        .expect("a size");
    // A change of the printed size is found in 95 % of cases, and one of 1.5 times that size always.
    let printed_ns = printed.change.value.expect("five runs a side show the noise");
    assert!(
        printed_ns * 1.5 > change_ns,
        "{metric} finds from {printed_ns} ns on, and not {change_ns}: {gate:?}"
    );
    assert_ne!(comparison.exit_status, 0, "{gate:?}");
    assert!(
        gate.verdict != GateVerdict::Inconclusive || gate.runs_needed.is_some(),
        "{gate:?}"
    );
}

fn names(comparison: &Comparison, kind: &str, words: &str) -> bool {
    let mut changes = comparison.changes.iter();
    changes.any(|change| change.kind == kind && change.text.contains(words))
}

#[test]
fn real_changes_are_found_and_named() {
    once_more(|attempt| changes_are_found_and_named(1_000 * attempt));
}

fn changes_are_found_and_named(seed: u64) {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let (Some(link), Some(slow)) = (network(seed + 1, 1.0), network(seed + 2, SLOWER_LINK)) else {
        return;
    };
    let work = tempfile::tempdir_in(process::memory()).expect("a directory");
    let mut variants = vec![BASE];
    variants.extend(CHANGES);
    for round in 0..ROUNDS {
        // The order alternates, so that a drift of the machine affects all variants equally.
        if round > 0 {
            variants.reverse();
        }
        for variant in &variants {
            let run = work.path().join(variant.name).join(format!("run-{round}"));
            let network = if variant.is_link_slow { &slow } else { &link };
            variant.record(&turn, &program, network, seed + 100 * round + 7, &run);
        }
    }
    let base = work.path().join("base");
    for variant in CHANGES {
        let comparison = compared(&base, &work.path().join(variant.name));
        let sizes: Vec<String> = comparison
            .detectable
            .iter()
            .map(|found| {
                format!(
                    "{} from {:.1} %",
                    found.metric,
                    100.0 * found.relative.value.unwrap_or(f64::NAN)
                )
            })
            .collect();
        println!(
            "{}: exit status {}; {}; can find {}",
            variant.name,
            comparison.exit_status,
            comparison.headline,
            sizes.join(", ")
        );
        for change in comparison.changes.iter().take(3) {
            println!("  {}", change.text);
        }
        match variant.name {
            "late" => {
                found(&comparison, "step_time", 10e6);
                if comparison.exit_status == 1 {
                    assert!(comparison.headline.contains("rank 1"), "{}", comparison.headline);
                }
            }
            "longer" => {
                found(&comparison, "step_time", 1.4e6);
                // The change is near the size that can be found. An inconclusive comparison may find no cause.
                if comparison.exit_status == 1 {
                    assert!(comparison.headline.contains("host"), "{}", comparison.headline);
                }
            }
            "slower-link" => {
                let transfer = comparison
                    .metrics
                    .iter()
                    .find(|metric| metric.full_name() == "exposed_transfer");
                found(
                    &comparison,
                    "exposed_transfer",
                    (SLOWER_LINK - 1.0) * transfer.expect("a metric").base,
                );
                // An inconclusive comparison may find no cause.
                if comparison.exit_status == 1 {
                    assert!(
                        names(&comparison, "operation-slower", "all-reduce 32-64 KiB"),
                        "{:?}",
                        comparison.changes
                    );
                }
            }
            "added" => assert!(
                names(&comparison, "operation-added", "all-reduce"),
                "{:?}",
                comparison.changes
            ),
            _ => assert!(
                names(&comparison, "operation-resized", "all-reduce"),
                "{:?}",
                comparison.changes
            ),
        }
    }
}
