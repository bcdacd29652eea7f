//! Tests trainings over real Gloo with a fault of known size.
//!
//! Steps are cut where the program ends them. A late rank is named, and none is named without a fault. `fault_study`
//! asks the same of hundreds of trainings (BENCHMARKS.md).

use std::time::Duration;

use rankscope_tests::disturbed::once_more;
use rankscope_tests::network::{Link, Network};
use rankscope_tests::training::{Fault, Outcome, Training};
use rankscope_tests::{compile, turn};

fn training(pattern: &'static str, fault: Fault) -> Training {
    Training {
        pattern,
        ranks: 2,
        per_host: None,
        is_routed: false,
        steps: 60,
        step_us: 40_000,
        fault,
        victim: 1,
        // A busy machine adds lateness: twice the 5 % that is required on a quiet one.
        permille: 100,
        seed: 7,
    }
}

fn of_kind<'a>(outcome: &'a Outcome, kind: &str) -> Vec<&'a serde_json::Value> {
    let findings = outcome.findings().iter();
    findings.filter(|finding| finding["kind"] == kind).collect()
}

#[test]
fn steps_end_where_the_program_ends_them() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    for (pattern, ranks) in [
        ("ddp", 2),
        ("fsdp", 2),
        ("accumulate", 2),
        ("evaluate", 2),
        ("pipeline", 4),
    ] {
        let training = Training {
            ranks,
            ..training(pattern, Fault::None)
        };
        let outcome = training.run(&turn, &program);
        let (equal, all) = outcome.cuts();
        // 99 % on a quiet machine. Here a rank may be interrupted between the end of the operation and its reading of
        // the clock.
        assert!(
            equal * 100 >= all * 95 && all >= ranks * 56,
            "{pattern}: {equal} of {all} ends, by {}",
            outcome.report["steps"]
        );
        if pattern == "evaluate" {
            let evaluations = &outcome.truth[0].evaluated_ns;
            assert_eq!(evaluations.len(), 1);
        }
        let late = of_kind(&outcome, "late-rank");
        assert!(late.is_empty(), "{pattern}, with nothing wrong: {late:?}");
    }
}

#[test]
fn a_late_rank_is_named_with_its_class_and_its_cost() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    for (pattern, fault) in [
        ("ddp", Fault::Persistent),
        ("fsdp", Fault::Persistent),
        ("ddp", Fault::Recurrent),
        ("ddp", Fault::Transient),
    ] {
        let training = Training {
            steps: if fault == Fault::Persistent { 60 } else { 120 },
            step_us: 30_000,
            ..training(pattern, fault)
        };
        let outcome = training.run(&turn, &program);
        let late = of_kind(&outcome, "late-rank");
        let reported: Vec<&serde_json::Value> = outcome
            .findings()
            .iter()
            .map(|finding| &finding["title"])
            .collect();
        assert_eq!(late.len(), 1, "{pattern}, {fault:?}: {reported:?}");
        assert_eq!(late[0]["ranks"], serde_json::json!([1]), "{reported:?}");
        let (_, class) = fault.finding().expect("a fault");
        assert_eq!(late[0]["lateness"]["class"].as_str(), class, "{}", late[0]);
        // The time that the fault adds is known. The time that the machine adds is not.
        let added_ns = 30_000.0 * 1e3 * 0.1 * training.steps as f64;
        let cost_ns = late[0]["cost_ns"]["value"].as_f64().expect("a cost");
        assert!(
            (0.6..1.5).contains(&(cost_ns / added_ns)),
            "{pattern}, {fault:?}: {cost_ns} ns of {added_ns} ns"
        );
    }
}

#[test]
fn a_slow_link_is_named_with_both_its_ends() {
    once_more(|_| slow_link());
}

fn slow_link() {
    let turn = turn::take();
    let Some(program) = compile::gloo("gloo_train.cc") else {
        return;
    };
    let at_once = Link {
        least_delay: Duration::ZERO,
        mean_jitter: Duration::ZERO,
        bytes_per_second: None,
    };
    if Network::new(1, 1, |_, _| at_once).is_none() {
        return;
    }
    for fault in [Fault::None, Fault::Link] {
        let training = Training {
            ranks: 3,
            per_host: Some(1),
            is_routed: true,
            // If other work keeps the processors busy, every message takes milliseconds, independent of the length of a
            // step. With longer steps the same 10 % are visible.
            steps: 40,
            step_us: 200_000,
            ..training("exchange", fault)
        };
        let outcome = training.run(&turn, &program);
        let found = of_kind(&outcome, "slow-link");
        let ranks: Vec<&serde_json::Value> = found.iter().map(|finding| &finding["ranks"]).collect();
        let expected = match fault {
            Fault::Link => vec![serde_json::json!([1, 2])],
            _ => Vec::new(),
        };
        assert_eq!(
            ranks,
            expected.iter().collect::<Vec<_>>(),
            "{:?}",
            outcome.findings()
        );
        let late = of_kind(&outcome, "late-rank");
        assert!(late.is_empty(), "a slow link makes nobody late: {late:?}");
    }
}
