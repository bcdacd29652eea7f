//! Comparison of runs: whether a change made training or communication worse, by how much, where, and with which
//! certainty.
//!
//! Files in the order of the data: [`metrics`] lists what is compared, [`summarise`] makes the summary of one [`run`],
//! [`comparable`] checks that runs may be compared, and [`layout`] groups them. `candidates` are the metrics that all
//! runs have. [`estimate`] computes their changes and the errors with [`statistics`]. [`gate`] and [`settings`] hold the
//! declared limits, and [`judge`] gives verdicts.
//! [`attribution`] and [`changes`] explain a change, [`headline`] describes it in one sentence, and [`shown`] formats
//! amounts. [`compare`] calls them in this order. [`baseline`] stores the summaries of earlier runs.

pub mod attribution;
pub mod baseline;
pub mod bench;
mod candidates;
pub mod changes;
pub mod comparable;
pub mod estimate;
pub mod gate;
pub mod headline;
pub mod judge;
pub mod layout;
pub mod metrics;
pub mod run;
pub mod settings;
pub mod shown;
pub mod statistics;
pub mod summarise;

pub use run::Run;

use layout::{Layout, Side, Unit};
use metrics::STEP_TIME;
use rankscope_formats::comparison::{
    COMPARISON_VERSION, Comparison, Difference, Method, OutlierEffect, RunSummary, RunUsed, SideSummary,
};
use rankscope_formats::comparison::{DifferenceEffect, GateVerdict, Verdict};
use rankscope_formats::session::{Figure, Tool};
use settings::{Inconclusive, Settings};
use std::collections::{BTreeMap, BTreeSet};

/// Error that makes any comparison of the sides impossible.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A side is empty.
    #[error("{side} has no runs")]
    Empty {
        /// `BASE` or `NEW`.
        side: &'static str,
    },
    /// A run appears twice: it would look like a repeat without noise.
    #[error("{first} and {second} are the same run")]
    SameRun {
        /// First occurrence.
        first: String,
        /// Second occurrence.
        second: String,
    },
}

/// Compares two sides. `noise` has batches of other runs that supply the noise between runs.
pub fn compare(
    base: &[Run],
    new: &[Run],
    noise: &[Vec<Run>],
    settings: &Settings,
) -> Result<Comparison, CompareError> {
    for (side, runs) in [("BASE", base), ("NEW", new)] {
        if runs.is_empty() {
            return Err(CompareError::Empty { side });
        }
    }
    same_runs(base, new)?;
    let noise = &others(base, new, noise);
    let layout = Layout::of(base, new, noise.iter().any(|batch| batch.len() > 1));
    let compared_base: Vec<&Run> = layout.compared(Side::Base).iter().map(|&at| &base[at]).collect();
    let compared_new: Vec<&Run> = layout.compared(Side::New).iter().map(|&at| &new[at]).collect();
    let differences =
        comparable::differences(&compared_base, &compared_new, &noise.concat(), &settings.accepted);
    let judged = judge::judge(base, new, noise, &layout, settings);
    let attribution = attribution::attribution(base, new, &layout);
    let changes = changes::changes(base, new, &layout, &judged);
    let (verdict, reasons) = verdict(&judged, &differences, layout.unit);
    let mut headline = headline::headline(&judged, &attribution, &changes);
    if let Some(blocking) = differences
        .iter()
        .find(|difference| difference.effect == DifferenceEffect::Blocks)
    {
        headline = format!("the runs cannot be compared: {}", blocking.text);
    }
    Ok(Comparison {
        version: COMPARISON_VERSION,
        tool: Tool {
            name: "rankscope".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        verdict,
        exit_status: exit_status(
            verdict,
            is_left_open_by_noise(&judged, &differences),
            settings.inconclusive,
        ),
        headline,
        reasons,
        cautions: {
            let mut all = cautions(base, new, &layout);
            all.extend(coarse(&judged));
            all
        },
        base: side(base, &layout.base_batches, &layout.compared(Side::Base)),
        new: side(new, &layout.new_batches, &layout.compared(Side::New)),
        method: method(base, new, &layout, &judged, settings),
        detectable: judged.detectable,
        gates: judged.gates,
        metrics: judged.metrics,
        not_compared: judged.not_compared,
        attribution,
        changes: changes.all,
        differences,
    })
}

/// Returns the noise runs without those that are compared or already listed. A run that counts twice would show less
/// noise.
fn others(base: &[Run], new: &[Run], noise: &[Vec<Run>]) -> Vec<Vec<Run>> {
    let mut seen: BTreeSet<&str> = base
        .iter()
        .chain(new)
        .map(|run| run.summary.run.id.as_str())
        .collect();
    let mut out = Vec::new();
    for batch in noise {
        let batch: Vec<Run> = batch
            .iter()
            .filter(|run| seen.insert(&run.summary.run.id))
            .cloned()
            .collect();
        out.push(batch);
    }
    out
}

/// Rejects a run that appears twice.
fn same_runs(base: &[Run], new: &[Run]) -> Result<(), CompareError> {
    let mut seen: BTreeMap<&str, String> = BTreeMap::new();
    for (side, runs) in [("BASE", base), ("NEW", new)] {
        for (at, run) in runs.iter().enumerate() {
            let name = format!("{side} {} ({})", at + 1, run.summary.run.directory);
            if let Some(first) = seen.insert(&run.summary.run.id, name.clone()) {
                return Err(CompareError::SameRun { first, second: name });
            }
        }
    }
    Ok(())
}

/// Returns the overall verdict, and why there is none.
fn verdict(judged: &judge::Judged, differences: &[Difference], unit: Unit) -> (Verdict, Vec<String>) {
    let of_effect = |effect: DifferenceEffect| -> Vec<String> {
        let found = differences
            .iter()
            .filter(|difference| difference.effect == effect);
        found
            .map(|difference| {
                format!(
                    "{} (--accept {} compares anyway)",
                    difference.text, difference.what
                )
            })
            .collect()
    };
    let blocking = of_effect(DifferenceEffect::Blocks);
    if !blocking.is_empty() {
        return (Verdict::Inconclusive, blocking);
    }
    if judged.gates.iter().any(|gate| gate.verdict == GateVerdict::Fail) {
        return (Verdict::Regressed, Vec::new());
    }
    let mut reasons = of_effect(DifferenceEffect::CannotPass);
    reasons.extend(
        judged
            .gates
            .iter()
            .filter(|gate| gate.verdict == GateVerdict::Inconclusive)
            .map(|gate| {
                let needed = gate.runs_needed.map_or_else(String::new, |runs| {
                    let repeats = if unit == Unit::Batches { "batches" } else { "runs" };
                    format!("; about {runs} {repeats} per side would decide")
                });
                format!("{}: {}{needed}", gate.rule, gate.reason)
            }),
    );
    if judged.gates.is_empty() {
        reasons.push("no limit is declared".to_owned());
    }
    if reasons.is_empty() {
        (Verdict::Fine, reasons)
    } else {
        (Verdict::Inconclusive, reasons)
    }
}

/// Whether only noise prevents a verdict on the limits: all data exists and may be compared.
fn is_left_open_by_noise(judged: &judge::Judged, differences: &[Difference]) -> bool {
    let has_noise = judged
        .detectable
        .iter()
        .all(|detectable| detectable.change.value.is_some());
    !judged.gates.is_empty()
        && has_noise
        && differences
            .iter()
            .all(|difference| difference.effect == DifferenceEffect::Accepted)
}

fn exit_status(verdict: Verdict, is_left_open_by_noise: bool, inconclusive: Inconclusive) -> u8 {
    match (verdict, inconclusive) {
        (Verdict::Fine, _) => 0,
        (Verdict::Regressed, _) | (Verdict::Inconclusive, Inconclusive::Fail) => 1,
        // Limits without data, or without comparable runs, never pass.
        (Verdict::Inconclusive, Inconclusive::Pass) if is_left_open_by_noise => 0,
        _ => 3,
    }
}

fn cautions(base: &[Run], new: &[Run], layout: &Layout) -> Vec<String> {
    let mut out = layout.cautions.clone();
    if layout.unit == Unit::Blocks {
        out.push(
            "one run per side: the noise between runs is that of the named baseline, and widens every interval"
                .to_owned(),
        );
    }
    let several = base
        .iter()
        .chain(new)
        .map(|run| run.summary.world.worlds)
        .max()
        .unwrap_or(1);
    if several > 1 {
        out.push(format!(
            "the job has {several} worlds; the one with the most steps is compared"
        ));
    }
    let failed: u64 = new
        .iter()
        .fold(0, |sum, run| u64::saturating_add(sum, run.summary.world.failed));
    if failed > 0 {
        out.push(format!("{failed} operations failed in the new runs"));
    }
    let steps = |runs: &[Run]| {
        let counted = runs.iter().map(|run| run.summary.steps.counted);
        counted.sum::<u64>() as f64 / runs.len() as f64
    };
    let (before, after) = (steps(base), steps(new));
    if before.max(after) > 2.0 * before.min(after) {
        out.push(format!(
            "base runs have {before:.0} counted steps and new runs {after:.0}"
        ));
    }
    let machines = |runs: &[Run]| {
        let hosts = runs.iter().flat_map(|run| run.summary.world.hosts.clone());
        hosts.collect::<BTreeSet<_>>()
    };
    if machines(base).is_disjoint(&machines(new)) {
        out.push("base and new runs ran on different hosts".to_owned());
    }
    out
}

/// Returns cautions about limits that hold, but where only changes several times as large could have been found.
fn coarse(judged: &judge::Judged) -> Vec<String> {
    const COARSE: f64 = 4.0;
    let gates = judged.gates.iter().zip(&judged.detectable);
    gates
        .filter_map(|(gate, detectable)| {
            let (limit, found) = (gate.limit.value?, detectable.change.value?.abs());
            let is_coarse = gate.verdict == GateVerdict::Pass && limit > 0.0 && found > COARSE * limit;
            let metric = metrics::find(gate.metric.split('[').next()?)?;
            let sign = metric.better.worse_sign();
            is_coarse.then(|| {
                format!(
                    "{} holds, but only a change from {} on would certainly have been found: more or longer runs \
                     find smaller changes",
                    gate.rule,
                    shown::amount(metric.unit, sign * found)
                )
            })
        })
        .collect()
}

fn side(runs: &[Run], batches: &[Vec<usize>], compared: &[usize]) -> SideSummary {
    let mut out = Vec::new();
    for (batch, members) in batches.iter().enumerate() {
        for &at in members {
            let run = &runs[at];
            let quantiles = run
                .summary
                .measured(STEP_TIME, None)
                .and_then(|measured| measured.quantiles);
            out.push(RunUsed {
                name: run.summary.run.clone(),
                batch: batch as u32,
                is_compared: compared.contains(&at),
                is_stored: run.entry.is_some(),
                steps: run.summary.steps.counted,
                warm_up: run.summary.steps.warm_up,
                outliers: run.summary.steps.outliers,
                step_time: quantiles.map(Into::into),
                worst_steps: run.worst_steps.clone(),
            });
        }
    }
    SideSummary {
        label: None,
        runs: out,
        batches: batches.len() as u32,
    }
}

fn method(base: &[Run], new: &[Run], layout: &Layout, judged: &judge::Judged, settings: &Settings) -> Method {
    let outliers = |runs: &[Run]| {
        runs.iter()
            .fold(0, |sum: u64, run| sum.saturating_add(run.summary.steps.outliers))
    };
    let step = judged.metrics.iter().find(|result| result.metric == STEP_TIME);
    let rule = |of: fn(&RunSummary) -> &String| {
        let rules: BTreeSet<&String> = base.iter().chain(new).map(|run| of(&run.summary)).collect();
        rules.into_iter().cloned().collect::<Vec<_>>().join("; or ")
    };
    Method {
        unit: layout.unit.name().to_owned(),
        is_interleaved: layout.is_interleaved,
        degrees_of_freedom: judged.degrees_of_freedom.map_or_else(
            || Figure::unknown("the noise of the step time is unknown"),
            Figure::known,
        ),
        family_alpha: settings.family_alpha,
        gate_alpha: judged.gate_alpha,
        pass_alpha: judge::PASS_ALPHA,
        false_discovery_rate: judge::FALSE_DISCOVERIES,
        confidence: 1.0 - 2.0 * judge::TAIL,
        margin: settings.margin,
        warm_up_rule: rule(|summary| &summary.steps.warm_up_rule),
        outlier_rule: rule(|summary| &summary.steps.outlier_rule),
        outlier_effect: step.map_or_else(
            || Figure::unknown("the step time cannot be compared"),
            |step| {
                Figure::known(OutlierEffect {
                    base_outliers: outliers(base),
                    new_outliers: outliers(new),
                    change_with: step.change / step.base,
                    change_without: step.change_without_outliers / step.base,
                })
            },
        ),
        noise: noise(layout),
    }
}

/// Describes the estimate of the noise.
fn noise(layout: &Layout) -> String {
    match layout.unit {
        Unit::Runs => "variance of run means, pooled over the batches of both sides; Student's t",
        Unit::Batches => "variance of the means of the base's batches, or that of runs where it is larger; Student's t",
        Unit::Blocks => {
            "variance of block means of the steps of each run plus the stored variance between runs; Student's t with \
             Satterthwaite's degrees of freedom"
        }
        Unit::None => "none: one run per side, and no baseline supplies the noise between runs",
    }
    .to_owned()
}
