//! Measures how often a comparison is wrong if nothing changed, and how surely it finds a change of the printed size:
//! `compare_study DIRECTORY [--runs 5] [--pairs 1000] [--seed 1]`. DIRECTORY holds merged runs of one job.
//!
//! Each pair draws 2 × N different runs at random. Unchanged, they are an A/A pair. Then each gate's printed detectable
//! change is added to the new runs of the same pair (`same`) and of the next pair (`fresh`). The noise of the next pair
//! did not contribute to the printed size.

use rankscope_compare::metrics::{EXPOSED_TRANSFER, EXPOSED_WAIT, STEP_TIME};
use rankscope_compare::settings::Settings;
use rankscope_compare::{Run, compare, summarise};
use rankscope_fixtures::random::Random;
use rankscope_formats::comparison::GateVerdict;
use rankscope_formats::comparison::MetricVerdict;
use rankscope_formats::comparison::{Comparison, Mean, Value};
use rankscope_formats::session::Figure;
use statrs::distribution::{Beta, ContinuousCDF};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

const GATES: [&str; 3] = [STEP_TIME, EXPOSED_WAIT, EXPOSED_TRANSFER];

/// Number of hits among a number of trials.
#[derive(Default)]
struct Rate {
    hits: u64,
    of: u64,
}

impl Rate {
    fn count(&mut self, is_hit: bool) {
        self.hits += u64::from(is_hit);
        self.of += 1;
    }

    /// Formats the rate with its exact 95 % bounds, one for each side (Clopper and Pearson 1934).
    fn shown(&self) -> String {
        let (hits, of) = (self.hits as f64, self.of as f64);
        let bound = |a: f64, b: f64, p: f64| Beta::new(a, b).map_or(f64::NAN, |beta| beta.inverse_cdf(p));
        let low = if self.hits == 0 {
            0.0
        } else {
            bound(hits, of - hits + 1.0, 0.05)
        };
        let high = if self.hits == self.of {
            1.0
        } else {
            bound(hits + 1.0, of - hits, 0.95)
        };
        format!(
            "{} of {}: {:.2} % (95 % bounds, each side: {:.2} and {:.2} %)",
            self.hits,
            self.of,
            100.0 * hits / of.max(1.0),
            100.0 * low,
            100.0 * high
        )
    }
}

/// Returns a run in which one metric is larger by `amount`. The step time grows by the same amount, because the metric
/// may be a part of the step.
fn with(run: &Run, metric: &str, amount: f64) -> Run {
    let mut run = run.clone();
    for measured in &mut run.summary.metrics {
        let is_meant = measured.metric == metric || measured.metric == STEP_TIME;
        if let (true, None, Some(value)) = (is_meant, &measured.subject, measured.value.value) {
            let add = |mean: Mean| Mean {
                mean: mean.mean + amount,
                ..mean
            };
            measured.value = Figure::known(Value {
                all: add(value.all),
                without_outliers: add(value.without_outliers),
            });
        }
    }
    run
}

fn is_found(comparison: &Comparison, metric: &str) -> bool {
    comparison
        .gates
        .iter()
        .any(|gate| gate.metric == metric && gate.verdict == GateVerdict::Fail)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut directory: Option<PathBuf> = None;
    let (mut runs_a_side, mut pairs, mut seed) = (5_usize, 1000_usize, 1_u64);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            arguments
                .next()
                .ok_or("a number is missing")
                .and_then(|text| text.parse().map_err(|_| "no number"))
        };
        match argument.as_str() {
            "--runs" => runs_a_side = number()? as usize,
            "--pairs" => pairs = number()? as usize,
            "--seed" => seed = number()?,
            other => directory = Some(PathBuf::from(other)),
        }
    }
    let directory = directory.ok_or("usage: compare_study DIRECTORY [--runs 5] [--pairs 1000] [--seed 1]")?;
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&directory)?
        .flatten()
        .map(|entry| entry.path().join("session"))
        .collect();
    paths.sort();
    let mut all = Vec::new();
    for path in paths.iter().filter(|path| path.join("session.json").is_file()) {
        all.push(Run::of_session(summarise::summarise(
            path,
            &path.display().to_string(),
        )?));
    }
    let means: Vec<f64> = all
        .iter()
        .filter_map(|run| Some(run.summary.measured(STEP_TIME, None)?.value.value?.all.mean))
        .collect();
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let deviation =
        (means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (means.len() - 1) as f64).sqrt();
    println!(
        "{} runs; step time {:.2} ms, standard deviation between runs {:.2} %; {pairs} pairs of {runs_a_side} + {runs_a_side}, seed {seed}",
        all.len(),
        mean / 1e6,
        100.0 * deviation / mean
    );
    let settings = Settings::default();
    let mut random = Random(seed);
    let mut draw = || {
        let mut order: Vec<usize> = (0..all.len()).collect();
        for at in 0..2 * runs_a_side {
            let other = at + random.below(order.len() - at);
            order.swap(at, other);
        }
        let side = |from: usize| -> Vec<Run> {
            order[from..from + runs_a_side]
                .iter()
                .map(|&at| all[at].clone())
                .collect()
        };
        (side(0), side(runs_a_side))
    };
    let mut rates: BTreeMap<String, Rate> = BTreeMap::new();
    let mut detectable: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut printed: BTreeMap<&str, f64> = BTreeMap::new();
    for _ in 0..pairs {
        let (base, new) = draw();
        let fresh = printed.clone();
        let aa = compare(&base, &new, &[], &settings)?;
        let mut count = |what: String, is_hit: bool| rates.entry(what).or_default().count(is_hit);
        count("A/A: exit 1".to_owned(), aa.exit_status == 1);
        count("A/A: exit 0".to_owned(), aa.exit_status == 0);
        count("A/A: exit 3".to_owned(), aa.exit_status == 3);
        let others = aa.metrics.iter().filter(|result| !result.is_declared);
        count(
            "A/A: any other metric called changed".to_owned(),
            others
                .clone()
                .any(|result| matches!(result.verdict, MetricVerdict::Regressed | MetricVerdict::Improved)),
        );
        for metric in GATES {
            let Some(found) = aa.detectable.iter().find(|found| found.metric == metric) else {
                continue;
            };
            let (Some(change), relative) = (found.change.value, found.relative.value) else {
                continue;
            };
            detectable
                .entry(metric)
                .or_default()
                .push(relative.unwrap_or(f64::NAN));
            printed.insert(metric, change);
            for (which, amount) in [("same", Some(change)), ("fresh", fresh.get(metric).copied())] {
                let Some(amount) = amount else { continue };
                let injected: Vec<Run> = new.iter().map(|run| with(run, metric, amount)).collect();
                let found = is_found(&compare(&base, &injected, &[], &settings)?, metric);
                count(format!("found, {which} pair: {metric}"), found);
            }
        }
    }
    for (what, rate) in &rates {
        println!("{what}: {}", rate.shown());
    }
    for (metric, mut sizes) in detectable {
        sizes.sort_by(f64::total_cmp);
        println!(
            "detectable {metric}: median {:+.1} % of it",
            100.0 * sizes[sizes.len() / 2]
        );
    }
    Ok(())
}
