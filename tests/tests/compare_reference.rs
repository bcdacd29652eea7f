//! Tests comparisons against scipy and statsmodels on the same numbers (`tests/programs/compare_reference.py`).

use rankscope_compare::settings::Settings;
use rankscope_compare::{Run, compare};
use rankscope_fixtures::random::Random;
use rankscope_fixtures::runs::{Job, in_turns};
use rankscope_tests::{artefacts, skip};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::Command;

/// Number of cases of each kind.
const CASES: u64 = 60;

/// Returns gates, each with the same limit in the reference's form.
fn gates() -> [(&'static str, Value); 5] {
    [
        (
            "step_time>+2%",
            json!({"metric": "step_time", "kind": "of_itself", "amount": 0.02}),
        ),
        (
            "exposed_wait>+2%step",
            json!({"metric": "exposed_wait", "kind": "of_step", "amount": 0.02}),
        ),
        (
            "exposed_transfer>+500us",
            json!({"metric": "exposed_transfer", "kind": "by", "amount": 500_000.0}),
        ),
        (
            "host_time>+0%",
            json!({"metric": "host_time", "kind": "of_itself", "amount": 0.0}),
        ),
        (
            "lateness[rank 1]>+1ms",
            json!({"metric": "lateness", "subject": "rank 1", "kind": "by", "amount": 1_000_000.0}),
        ),
    ]
}

fn summaries(runs: &[Run]) -> Vec<Value> {
    runs.iter()
        .map(|run| serde_json::to_value(&run.summary).expect("JSON"))
        .collect()
}

/// Returns base, new and noise of a random case of one of four kinds: in turns, batches at different times, one run a
/// side, uneven sides.
fn case(kind: u64, random: &mut Random) -> (Vec<Run>, Vec<Run>, Vec<Vec<Run>>) {
    let noise = [0.0005, 0.002, 0.01, 0.05][random.below(4)];
    let mut change = |size: f64| {
        if random.below(2) == 0 {
            1.0
        } else {
            1.0 + size * random.normal()
        }
    };
    let base = Job {
        noise,
        ..Job::default()
    };
    let mut new = Job {
        host_ns: base.host_ns * change(0.04),
        wait_ns: base.wait_ns * change(0.3),
        transfer_ns: base.transfer_ns * change(0.1),
        ..base.clone()
    };
    new.late = (random.below(3) == 0).then(|| (1, 3e6 * random.uniform()));
    new.outliers_ns = if random.below(4) == 0 {
        5e6 * random.uniform()
    } else {
        0.0
    };
    match kind {
        0 => {
            let (base, new) = in_turns(&base, &new, 2 + random.below(6), random.next_u64());
            (base, new, Vec::new())
        }
        1 => {
            let mut out = Vec::new();
            for hours in 0..3 + random.below(4) as i64 {
                let drift = Job {
                    host_ns: base.host_ns * (1.0 + 0.01 * random.normal()),
                    ..base.clone()
                };
                out.extend((0..1 + random.below(4) as i64).map(|at| drift.run(random, hours * 120 + at)));
            }
            let new = (0..1 + random.below(4) as i64)
                .map(|at| new.run(random, 5_000 + at))
                .collect();
            (out, new, Vec::new())
        }
        2 => {
            let (noise, _) = in_turns(&base, &base, random.below(6), random.next_u64());
            (vec![base.run(random, 0)], vec![new.run(random, 1)], vec![noise])
        }
        _ => {
            let one = (0..2 + random.below(8) as i64)
                .map(|at| base.run(random, 2 * at))
                .collect();
            let other = (0..1 + random.below(3) as i64)
                .map(|at| new.run(random, 2 * at + 1))
                .collect();
            (one, other, Vec::new())
        }
    }
}

#[test]
fn scipy_and_statsmodels_decide_the_same() {
    let setup = Command::new(artefacts::root().join("tests/setup/scipy.sh"))
        .output()
        .expect("a shell");
    if !setup.status.success() {
        skip("there is no Python with scipy and statsmodels");
        return;
    }
    let python = String::from_utf8(setup.stdout).expect("a path");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("cases.jsonl");
    let mut file = BufWriter::new(File::create(&path).expect("a file"));
    let mut random = Random(20_261_124);
    for number in 0..4 * CASES {
        let (base, new, noise) = case(number % 4, &mut random);
        let count = 1 + random.below(5);
        let settings = Settings {
            gates: gates()[..count]
                .iter()
                .map(|(rule, _)| rule.parse().expect("a limit"))
                .collect(),
            ..Settings::default()
        };
        let comparison = compare(&base, &new, &noise, &settings).expect("sides");
        let line = json!({
            "base": summaries(&base),
            "new": summaries(&new),
            "noise": noise.iter().map(|batch| summaries(batch)).collect::<Vec<_>>(),
            "gates": gates()[..count].iter().map(|(_, gate)| gate).collect::<Vec<_>>(),
            "alpha": settings.family_alpha,
            "margin": settings.margin,
            "comparison": comparison,
        });
        writeln!(file, "{line}").expect("written");
    }
    file.into_inner().expect("flushed");
    let output = Command::new(python.trim())
        .arg(artefacts::root().join("tests/programs/compare_reference.py"))
        .arg(&path)
        .output()
        .expect("Python");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let sums: Value = serde_json::from_str(printed.lines().last().expect("a line")).expect("JSON");
    assert_eq!(sums["cases"], 4 * CASES);
    // The cases included every kind and every decision.
    for what in [
        "runs",
        "batches",
        "blocks",
        "none",
        "pass",
        "fail",
        "inconclusive",
        "regressed",
        "improved",
        "unchanged",
    ] {
        assert!(
            sums["seen"][what].as_u64().unwrap_or(0) > 0,
            "no case of {what}: {sums}"
        );
    }
}
