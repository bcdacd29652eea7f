//! Tests comparisons of runs of a small model of a job: changes that are found and named, refusals, and open verdicts.

use proptest::prelude::*;
use rankscope_compare::metrics::{EXPOSED_WAIT, LATENESS, STEP_TIME};
use rankscope_compare::settings::{Inconclusive, Settings};
use rankscope_compare::{Run, compare};
use rankscope_fixtures::random::Random;
use rankscope_fixtures::runs::{Job, in_turns, measured};
use rankscope_formats::comparison::DifferenceEffect;
use rankscope_formats::comparison::GateVerdict;
use rankscope_formats::comparison::MetricVerdict;
use rankscope_formats::comparison::Verdict;
use rankscope_formats::comparison::{Comparison, Mean, MetricResult, Value};
use rankscope_formats::session::{Figure, Surrounding};

fn compared(base: &[Run], new: &[Run]) -> Comparison {
    compare(base, new, &[], &Settings::default()).expect("comparable sides")
}

fn of(base: &Job, new: &Job) -> Comparison {
    let (base, new) = in_turns(base, new, 5, 7);
    compared(&base, &new)
}

fn step_time(comparison: &Comparison) -> &MetricResult {
    comparison
        .metrics
        .iter()
        .find(|result| result.metric == STEP_TIME)
        .expect("a step time")
}

fn with_gates(rules: &[&str]) -> Settings {
    Settings {
        gates: rules.iter().map(|rule| rule.parse().expect("a limit")).collect(),
        ..Settings::default()
    }
}

#[test]
fn the_same_job_twice_is_fine() {
    let comparison = of(&Job::default(), &Job::default());
    assert_eq!(
        (comparison.verdict.name(), comparison.exit_status),
        ("fine", 0),
        "{:#?}",
        comparison.reasons
    );
    assert_eq!(step_time(&comparison).verdict, MetricVerdict::Unchanged);
    assert!(
        comparison.headline.contains("unchanged"),
        "{}",
        comparison.headline
    );
    assert!(comparison.method.is_interleaved);
}

#[test]
fn a_late_rank_fails_and_is_named() {
    let new = Job {
        late: Some((3, 10e6)),
        ..Job::default()
    };
    let comparison = of(&Job::default(), &new);
    assert_eq!(
        (comparison.verdict.name(), comparison.exit_status),
        ("regressed", 1)
    );
    assert!(comparison.headline.contains("rank 3"), "{}", comparison.headline);
    assert!(
        comparison.headline.contains("all-reduce 1-2 MiB"),
        "{}",
        comparison.headline
    );
    let wait = comparison
        .attribution
        .parts
        .iter()
        .find(|part| part.part == "exposed-wait")
        .expect("a part");
    assert!((7.0e6..8.0e6).contains(&(wait.change_ns as f64)), "{wait:?}");
    assert!(
        comparison
            .changes
            .iter()
            .any(|change| change.kind == "rank-slower" && change.text.contains("rank 3"))
    );
}

#[test]
fn an_added_operation_and_a_halved_bucket_are_named_and_never_pass() {
    let mut added = Job::default();
    added
        .operations
        .push(("all-reduce 4-8 B world inside-host".to_owned(), 1.0, 4.0));
    let comparison = of(&Job::default(), &added);
    assert_eq!(comparison.exit_status, 3);
    let first = &comparison.changes[0];
    let mut timed = comparison
        .changes
        .iter()
        .filter(|change| change.step_ns.value.is_some());
    assert!(
        timed.all(|change| !change.text.contains("4-8 B")),
        "what is new takes no longer than before: {:?}",
        comparison.changes
    );
    assert_eq!(
        (first.kind.as_str(), first.text.as_str()),
        (
            "operation-added",
            "added: 1 all-reduce 4-8 B world inside-host per step"
        )
    );
    let halved = Job {
        operations: vec![(
            "all-reduce 512-1024 KiB world inside-host".to_owned(),
            8.0,
            750_000.0,
        )],
        ..Job::default()
    };
    let comparison = of(&Job::default(), &halved);
    assert_eq!(comparison.exit_status, 3);
    assert_eq!(comparison.changes[0].kind, "operation-resized");
    assert!(
        comparison.changes[0]
            .text
            .contains("in 8 instead of 4 operations"),
        "{}",
        comparison.changes[0].text
    );
    let settings = Settings {
        accepted: vec!["operations".to_owned()],
        ..Settings::default()
    };
    let (base, new) = in_turns(&Job::default(), &halved, 5, 7);
    assert_eq!(
        compare(&base, &new, &[], &settings).expect("sides").exit_status,
        0
    );
}

#[test]
fn noise_is_inconclusive_and_the_number_of_runs_needed_is_reported() {
    let noisy = Job {
        noise: 0.05,
        ..Job::default()
    };
    let comparison = of(
        &noisy,
        &Job {
            host_ns: 85e6,
            ..noisy.clone()
        },
    );
    assert_eq!(
        (comparison.verdict.name(), comparison.exit_status),
        ("inconclusive", 3)
    );
    let gate = &comparison.gates[0];
    assert_eq!(gate.verdict, GateVerdict::Inconclusive);
    let needed = gate.runs_needed.expect("a number of runs");
    assert!((6..=1000).contains(&needed), "{needed}");
    let detectable = comparison.detectable[0].relative.value.expect("noise is known");
    assert!(detectable > 0.05, "{detectable}");
    // With `needed` runs there is a verdict.
    let (base, new) = in_turns(
        &noisy,
        &Job {
            host_ns: 85e6,
            ..noisy.clone()
        },
        4 * needed as usize,
        11,
    );
    assert_ne!(compared(&base, &new).gates[0].verdict, GateVerdict::Inconclusive);
    for (how, status) in [(Inconclusive::Pass, 0), (Inconclusive::Fail, 1)] {
        let settings = Settings {
            inconclusive: how,
            ..Settings::default()
        };
        let (base, new) = in_turns(&noisy, &noisy, 3, 5);
        assert_eq!(
            compare(&base, &new, &[], &settings).expect("sides").exit_status,
            status
        );
    }
}

#[test]
fn differences_between_runs_block_a_verdict() {
    type Change = fn(&mut Run);
    let changes: [(&str, Change); 9] = [
        ("kind", |run| run.summary.kind = "device".to_owned()),
        ("world-size", |run| {
            (run.summary.world.size, run.summary.world.ranks_seen) = (8, 8)
        }),
        ("coverage", |run| run.summary.world.ranks_seen = 3),
        ("steps", |run| run.summary.steps.source = "marks".to_owned()),
        ("steps", |run| run.summary.steps.evaluate = 5),
        ("losses", |run| run.summary.world.lost = 100),
        ("crowded-host", |run| run.summary.world.crowded_hosts = 1),
        ("hardware", |run| {
            run.summary.surroundings[0].value = "another processor".to_owned()
        }),
        ("versions", |run| {
            run.summary.surroundings.push(Surrounding {
                property: "library.nccl.version".to_owned(),
                value: "2.28.3".to_owned(),
                ranks: 4,
            });
        }),
    ];
    for (what, change) in changes {
        let (base, mut new) = in_turns(
            &Job::default(),
            &Job {
                host_ns: 120e6,
                ..Job::default()
            },
            5,
            7,
        );
        new.iter_mut().for_each(change);
        let comparison = compared(&base, &new);
        assert_eq!(comparison.exit_status, 3, "{what}");
        assert!(
            comparison.headline.contains("cannot be compared"),
            "{}",
            comparison.headline
        );
        assert!(
            comparison
                .differences
                .iter()
                .any(|difference| difference.what == what && difference.effect == DifferenceEffect::Blocks)
        );
        let settings = Settings {
            accepted: vec![what.to_owned()],
            ..Settings::default()
        };
        let accepted = compare(&base, &new, &[], &settings).expect("sides");
        assert!(
            accepted
                .differences
                .iter()
                .all(|difference| difference.effect == DifferenceEffect::Accepted),
            "{what}"
        );
        assert_eq!(accepted.exit_status, 1, "{what}");
    }
}

#[test]
fn one_run_per_side_gives_no_verdict_without_known_noise() {
    let slow = Job {
        host_ns: 100e6,
        ..Job::default()
    };
    let (base, new) = in_turns(&Job::default(), &slow, 1, 7);
    let comparison = compared(&base, &new);
    assert_eq!(
        (comparison.exit_status, comparison.method.unit.as_str()),
        (3, "none")
    );
    assert!(
        comparison.reasons[0].contains("one run per side"),
        "{:?}",
        comparison.reasons
    );
    assert!(comparison.detectable[0].change.value.is_none());
    let (noise, _) = in_turns(&Job::default(), &slow, 8, 9);
    let comparison = compare(&base, &new, &[noise], &Settings::default()).expect("sides");
    assert_eq!(
        (comparison.exit_status, comparison.method.unit.as_str()),
        (1, "blocks")
    );
    assert!(
        comparison
            .cautions
            .iter()
            .any(|caution| caution.contains("widens every interval"))
    );
}

#[test]
fn batches_of_another_time_are_compared_as_batches() {
    let mut random = Random(3);
    let job = Job::default();
    // Each batch has its own drift, much larger than the noise between its runs.
    let mut batch = |hours: i64, host_ns: f64| -> Vec<Run> {
        let job = Job {
            host_ns,
            ..job.clone()
        };
        (0..5).map(|at| job.run(&mut random, hours * 60 + at)).collect()
    };
    let base: Vec<Run> = [(0, 80e6), (10, 82e6), (20, 78.5e6), (30, 81e6)]
        .into_iter()
        .flat_map(|(hours, ns)| batch(hours, ns))
        .collect();
    let new = batch(40, 83e6);
    let comparison = compared(&base, &new);
    assert_eq!(
        (comparison.method.unit.as_str(), comparison.base.batches),
        ("batches", 4)
    );
    assert!(!comparison.method.is_interleaved);
    assert_ne!(
        step_time(&comparison).verdict,
        MetricVerdict::Regressed,
        "a drift is no change"
    );
    // Compared with the last batch alone, the same runs look like a change. A caution reports that they were not
    // recorded in turns.
    let comparison = compared(&base[15..], &new);
    assert_eq!(comparison.method.unit, "runs");
    assert_eq!(step_time(&comparison).verdict, MetricVerdict::Regressed);
    assert!(
        comparison
            .cautions
            .iter()
            .any(|caution| caution.contains("drift"))
    );
}

#[test]
fn a_change_that_depends_on_outliers_is_inconclusive() {
    let new = Job {
        outliers_ns: 20e6,
        ..Job::default()
    };
    let comparison = of(&Job::default(), &new);
    assert_eq!(comparison.gates[0].verdict, GateVerdict::Inconclusive);
    assert!(
        comparison.gates[0].reason.contains("depends on outliers"),
        "{}",
        comparison.gates[0].reason
    );
    let effect = comparison.method.outlier_effect.value.expect("steps");
    assert!(effect.change_with > 0.15 && effect.change_without.abs() < 0.01);
}

#[test]
fn missing_and_infinite_numbers_never_pass() {
    for value in [f64::NAN, f64::INFINITY] {
        let (base, mut new) = in_turns(&Job::default(), &Job::default(), 5, 7);
        let mean = Mean {
            mean: value,
            variance: None,
            blocks: 1,
        };
        new[2].summary.metrics[0].value = Figure::known(Value {
            all: mean,
            without_outliers: mean,
        });
        let comparison = compared(&base, &new);
        assert_eq!(comparison.exit_status, 3);
        let text = serde_json::to_string(&comparison).expect("JSON");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
    let (base, mut new) = in_turns(&Job::default(), &Job::default(), 5, 7);
    new[0].summary.metrics.clear();
    assert_eq!(compared(&base, &new).exit_status, 3);
    for run in &mut new {
        run.summary.metrics[..]
            .iter_mut()
            .for_each(|measured| measured.value = Figure::unknown("it has no steps"));
    }
    let comparison = compared(&base, &new);
    assert_eq!(comparison.exit_status, 3);
    assert!(
        comparison.headline.contains("cannot be compared"),
        "{}",
        comparison.headline
    );
}

#[test]
fn the_same_run_twice_is_refused() {
    let (base, new) = in_turns(&Job::default(), &Job::default(), 2, 7);
    let error = compare(&base, &base, &[], &Settings::default()).expect_err("the same runs");
    assert!(error.to_string().contains("the same run"), "{error}");
    assert!(compare(&[], &new, &[], &Settings::default()).is_err());
    assert!(compare(&base, &[], &[], &Settings::default()).is_err());
}

#[test]
fn a_pattern_gates_each_subject_and_shares_alpha() {
    let (base, new) = in_turns(
        &Job::default(),
        &Job {
            late: Some((2, 5e6)),
            ..Job::default()
        },
        5,
        7,
    );
    let comparison = compare(
        &base,
        &new,
        &[],
        &with_gates(&["lateness[*]>+1ms", "busbw[*]<-5%"]),
    )
    .expect("sides");
    assert_eq!(comparison.gates.len(), 5, "{:#?}", comparison.gates);
    assert!((comparison.method.gate_alpha - 0.002).abs() < 1e-12);
    let failed: Vec<&str> = comparison
        .gates
        .iter()
        .filter(|gate| gate.verdict == GateVerdict::Fail)
        .map(|gate| gate.metric.as_str())
        .collect();
    assert_eq!(failed, ["lateness[rank 2]"]);
    assert_eq!(comparison.exit_status, 1);
    let missing = compare(&base, &new, &[], &with_gates(&["busbw[*]<-5%"])).expect("sides");
    assert_eq!(missing.exit_status, 3, "what no run has cannot pass");
}

#[test]
fn an_accepted_doubt_passes_noise_and_nothing_else() {
    let settings = Settings {
        inconclusive: Inconclusive::Pass,
        ..Settings::default()
    };
    let (base, mut new) = in_turns(&Job::default(), &Job::default(), 5, 7);
    new[0].summary.kind = "device".to_owned();
    assert_eq!(
        compare(&base, &new, &[], &settings).expect("sides").exit_status,
        3
    );
    let (base, mut new) = in_turns(&Job::default(), &Job::default(), 5, 7);
    new[0].summary.metrics.clear();
    assert_eq!(
        compare(&base, &new, &[], &settings).expect("sides").exit_status,
        3
    );
    let (base, new) = in_turns(&Job::default(), &Job::default(), 1, 7);
    assert_eq!(
        compare(&base, &new, &[], &settings).expect("sides").exit_status,
        3
    );
    let (base, mut new) = in_turns(&Job::default(), &Job::default(), 5, 7);
    new.iter_mut().for_each(|run| run.summary.steps.partial = 50);
    assert_eq!(
        compare(&base, &new, &[], &settings).expect("sides").exit_status,
        3
    );
}

#[test]
fn entries_of_a_baseline_are_batches_of_another_time_than_the_new_runs() {
    let mut random = Random(5);
    let mut base = Vec::new();
    for entry in 0..4 {
        for run in 0..3 {
            let mut run = Job::default().run(&mut random, 10 * i64::from(entry) + run);
            run.entry = Some(entry);
            base.push(run);
        }
    }
    let new: Vec<Run> = (0..3)
        .map(|run| Job::default().run(&mut random, 45 + run))
        .collect();
    let comparison = compared(&base, &new);
    assert_eq!(
        (comparison.method.unit.as_str(), comparison.base.batches),
        ("batches", 4)
    );
    assert!(
        comparison
            .base
            .runs
            .iter()
            .all(|run| run.is_compared && run.is_stored)
    );
}

#[test]
fn compared_runs_are_not_used_as_noise() {
    let (base, new) = in_turns(&Job::default(), &Job::default(), 1, 7);
    let noise = [base.clone(), new.clone(), base.clone()].concat();
    let comparison = compare(&base, &new, &[noise], &Settings::default()).expect("sides");
    assert_eq!(comparison.method.unit, "none");
    let (mut other, _) = in_turns(&Job::default(), &Job::default(), 5, 9);
    other.iter_mut().for_each(|run| run.summary.world.size = 64);
    let comparison = compare(&base, &new, &[other], &Settings::default()).expect("sides");
    assert_eq!(comparison.exit_status, 3);
    assert!(
        comparison.headline.contains("NOISE 1–5"),
        "{}",
        comparison.headline
    );
}

/// Returns the verdict with base and new exchanged.
fn mirrored(verdict: MetricVerdict) -> MetricVerdict {
    match verdict {
        MetricVerdict::Improved => MetricVerdict::Regressed,
        MetricVerdict::Regressed => MetricVerdict::Improved,
        other => other,
    }
}

fn jobs() -> impl Strategy<Value = (Job, Job, u64)> {
    let change = || prop_oneof![Just(0.0), -0.3..0.3_f64];
    (
        0.0005..0.05_f64,
        change(),
        change(),
        change(),
        prop_oneof![Just(None), (0..4_u32, 1e6..2e7).prop_map(Some)],
        any::<u64>(),
    )
        .prop_map(|(noise, host, wait, transfer, late, seed)| {
            let base = Job {
                noise,
                ..Job::default()
            };
            let new = Job {
                host_ns: base.host_ns * (1.0 + host),
                wait_ns: base.wait_ns * (1.0 + wait),
                transfer_ns: base.transfer_ns * (1.0 + transfer),
                late,
                ..base.clone()
            };
            (base, new, seed)
        })
}

fn verdicts(comparison: &Comparison) -> Vec<(String, MetricVerdict)> {
    let mut out: Vec<_> = comparison
        .metrics
        .iter()
        .map(|result| (result.full_name(), result.verdict))
        .collect();
    out.sort();
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn swapping_the_sides_mirrors_every_verdict((base, new, seed) in jobs(), runs in 1..7_usize) {
        let (base, new) = in_turns(&base, &new, runs, seed);
        let (one, other) = (compared(&base, &new), compared(&new, &base));
        let mirror: Vec<_> =
            verdicts(&other).into_iter().map(|(name, verdict)| (name, mirrored(verdict))).collect();
        prop_assert_eq!(verdicts(&one), mirror);
        prop_assert_eq!(one.attribution.change_ns, -other.attribution.change_ns);
    }

    #[test]
    fn sides_of_several_batches_are_mirrored_too(
        (base, new, seed) in jobs(),
        hours in prop::collection::vec((0..4_i64, 0..4_i64, any::<bool>()), 2..14),
    ) {
        let mut random = Random(seed);
        let (mut one, mut other) = (vec![base.run(&mut random, 0)], vec![new.run(&mut random, 900)]);
        for (hour, minute, is_new) in hours {
            let at = 180 * hour + minute;
            if is_new { other.push(new.run(&mut random, at)) } else { one.push(base.run(&mut random, at)) }
        }
        let (here, there) = (compared(&one, &other), compared(&other, &one));
        let mirror: Vec<_> =
            verdicts(&there).into_iter().map(|(name, verdict)| (name, mirrored(verdict))).collect();
        prop_assert_eq!(&here.method.unit, &there.method.unit);
        prop_assert_eq!(verdicts(&here), mirror);
        prop_assert_eq!(here.attribution.change_ns, -there.attribution.change_ns);
    }

    #[test]
    fn a_change_of_unit_changes_no_verdict((base, new, seed) in jobs(), factor in prop_oneof![Just(1000.0), Just(0.001), 0.1..10.0_f64]) {
        let (base, new) = in_turns(&base, &new, 4, seed);
        let scaled = |runs: &[Run]| -> Vec<Run> {
            let mut runs = runs.to_vec();
            for measured in runs.iter_mut().flat_map(|run| &mut run.summary.metrics) {
                measured.value = Figure::known(measured.value.value.expect("a value").scaled(factor));
            }
            runs
        };
        let one = compared(&base, &new);
        let other = compared(&scaled(&base), &scaled(&new));
        prop_assert_eq!(verdicts(&one), verdicts(&other));
        let gates = |of: &Comparison| of.gates.iter().map(|gate| gate.verdict).collect::<Vec<_>>();
        prop_assert_eq!(gates(&one), gates(&other));
    }

    #[test]
    fn another_noisy_rank_causes_no_regression((base, new, seed) in jobs()) {
        let (mut base, mut new) = in_turns(&base, &new, 5, seed);
        let before = compared(&base, &new);
        let mut random = Random(seed ^ 0xABCD);
        for run in base.iter_mut().chain(&mut new) {
            let noise = 1e5 * (1.0 + 0.3 * random.normal());
            run.summary.metrics.push(measured(LATENESS, Some("rank 99"), noise, noise, 0.01));
        }
        let after = compared(&base, &new);
        if before.verdict == Verdict::Inconclusive {
            prop_assert_ne!(after.verdict, Verdict::Regressed);
        }
    }

    #[test]
    fn parts_add_up_exactly((base, new, seed) in jobs(), runs in 1..6_usize) {
        let (base, new) = in_turns(&base, &new, runs, seed);
        let comparison = compared(&base, &new);
        let found = &comparison.attribution;
        prop_assert_eq!(found.reason.clone(), None);
        prop_assert_eq!(found.parts.iter().map(|part| part.change_ns).sum::<i64>(), found.change_ns);
        prop_assert_eq!(found.new_step_ns - found.base_step_ns, found.change_ns);
        for rank in &found.ranks {
            prop_assert_eq!(rank.parts_ns.iter().sum::<i64>(), rank.change_ns);
        }
        let step = step_time(&comparison);
        prop_assert!((step.change - found.change_ns as f64).abs() <= 2.0);
    }

    #[test]
    fn a_change_in_one_gate_alone_is_found_there((base, _, seed) in jobs()) {
        let quiet = Job { noise: 0.001, ..base };
        let slow = Job { wait_ns: quiet.wait_ns + 5e6, host_ns: quiet.host_ns - 5e6, ..quiet.clone() };
        let (base, new) = in_turns(&quiet, &slow, 5, seed);
        let comparison = compared(&base, &new);
        let gate = comparison.gates.iter().find(|gate| gate.metric == EXPOSED_WAIT).expect("a gate");
        prop_assert_eq!(gate.verdict.name(), "fail");
        prop_assert_eq!(comparison.exit_status, 1);
    }
}
