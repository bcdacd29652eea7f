//! Verdicts on metrics and on declared limits.

use super::Run;
use super::candidates::{Candidate, candidates};
use super::estimate::Estimate;
use super::gate::{Gate, Limit};
use super::layout::{Layout, Unit};
use super::metrics::{Metric, STEP_TIME};
use super::settings::Settings;
use super::shown;
use super::statistics::{T, false_discovery};
use rankscope_formats::comparison::{Detectable, GateResult, Interval, MetricResult, NotCompared, full_name};
use rankscope_formats::comparison::{GateVerdict, MetricVerdict};
use rankscope_formats::session::Figure;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Highest probability that a gate passes although the change is at its limit. A change of the detectable size is found
/// in all other cases.
pub const PASS_ALPHA: f64 = 0.05;
/// Expected share of false discoveries among the other metrics that are called changed.
pub const FALSE_DISCOVERIES: f64 = 0.01;
/// Tail of the intervals of metrics that are not gated, on each side.
pub const TAIL: f64 = 0.005;
/// Maximum number of runs that is given as advice.
const MAX_RUNS: u32 = 1000;

/// Verdicts of all metrics.
pub struct Judged {
    /// Declared metrics first, then by certainty of the change.
    pub metrics: Vec<MetricResult>,
    /// Metrics that cannot be compared.
    pub not_compared: Vec<NotCompared>,
    /// Limits in the order of their declaration; a pattern gives one for each subject.
    pub gates: Vec<GateResult>,
    /// Smallest changes that the comparison can find.
    pub detectable: Vec<Detectable>,
    /// Highest probability that one gate fails although nothing changed.
    pub gate_alpha: f64,
    /// Degrees of freedom of the noise of step time; `None` if no noise is known.
    pub degrees_of_freedom: Option<f64>,
}

/// Gate with its candidate, or the reason why it has none.
struct Declared<'a> {
    gate: &'a Gate,
    name: String,
    of: Result<usize, String>,
}

/// Judges all metrics of these runs. `noise` has batches of other runs that supply the noise between runs.
pub fn judge(base: &[Run], new: &[Run], noise: &[Vec<Run>], layout: &Layout, settings: &Settings) -> Judged {
    let (candidates, not_compared) = candidates(base, new, noise, layout);
    let declared = declare(&candidates, &not_compared, &settings.gates);
    let gate_alpha = settings.family_alpha / declared.len().max(1) as f64;
    let step = candidates
        .iter()
        .find(|candidate| candidate.metric.name == STEP_TIME);
    let step_time = step.map(|candidate| candidate.all.base);
    let degrees_of_freedom = step.and_then(|candidate| Some(candidate.all.noise?.degrees));
    let judge = Judge {
        layout,
        gate_alpha,
        margin: settings.margin,
        step_time,
    };
    let declared_at: BTreeSet<usize> = declared
        .iter()
        .filter_map(|declared| declared.of.clone().ok())
        .collect();
    let p_values: Vec<Option<f64>> = candidates
        .iter()
        .map(|candidate| p_value(&candidate.all))
        .collect();
    let significances = significances(&candidates, &p_values, &declared_at, gate_alpha);
    let mut metrics: Vec<MetricResult> = (0..)
        .zip(candidates.iter().zip(significances).zip(&p_values))
        .map(|(at, ((candidate, significance), &p_value))| {
            judge.metric(candidate, declared_at.contains(&at), significance, p_value)
        })
        .collect();
    metrics.sort_by(by_importance);
    let gates = declared
        .iter()
        .map(|declared| judge.gate(declared, &candidates))
        .collect();
    let detectable = declared
        .iter()
        .map(|declared| judge.detectable(declared, &candidates))
        .collect();
    Judged {
        metrics,
        not_compared,
        gates,
        detectable,
        gate_alpha,
        degrees_of_freedom,
    }
}

/// Returns how each candidate's change is separated from noise. Declared ones share the error that gates may have. The
/// others share a false-discovery rate.
fn significances(
    candidates: &[Candidate],
    p_values: &[Option<f64>],
    declared_at: &BTreeSet<usize>,
    gate_alpha: f64,
) -> Vec<Significance> {
    let others: Vec<usize> = (0..candidates.len())
        .filter(|at| !declared_at.contains(at) && p_values[*at].is_some())
        .collect();
    let rates = |of: &dyn Fn(usize) -> Option<f64>| {
        let p_values: Vec<f64> = others.iter().map(|&at| of(at).unwrap_or(1.0)).collect();
        false_discovery(&p_values)
    };
    let all = rates(&|at| p_values[at]);
    let without_outliers = rates(&|at| p_value(&candidates[at].without_outliers));
    let mut out: Vec<Significance> = (0..candidates.len())
        .map(|at| {
            if declared_at.contains(&at) {
                Significance::Tail(gate_alpha)
            } else {
                Significance::Unknown
            }
        })
        .collect();
    for (&at, (&all, &without)) in others.iter().zip(all.iter().zip(&without_outliers)) {
        out[at] = Significance::Rates(all, without);
    }
    out
}

/// Orders metrics: declared ones first, then by certainty and size of the change.
fn by_importance(one: &MetricResult, other: &MetricResult) -> Ordering {
    let key = |result: &MetricResult| {
        (
            !result.is_declared,
            result.verdict == MetricVerdict::Unchanged,
            result.verdict == MetricVerdict::Inconclusive,
        )
    };
    key(one)
        .cmp(&key(other))
        .then(
            one.p_value
                .unwrap_or(1.0)
                .total_cmp(&other.p_value.unwrap_or(1.0)),
        )
        .then_with(|| {
            other
                .relative
                .unwrap_or(0.0)
                .abs()
                .total_cmp(&one.relative.unwrap_or(0.0).abs())
        })
        .then_with(|| one.full_name().cmp(&other.full_name()))
}

fn p_value(estimate: &Estimate) -> Option<f64> {
    let error = estimate.standard_error(1.0)?;
    let change = estimate.change();
    if error > 0.0 {
        Some(T::new(estimate.noise?.degrees)?.two_sided(change / error))
    } else {
        // A number that never varies, such as operations per step.
        Some(if change == 0.0 { 1.0 } else { 0.0 })
    }
}

/// Assigns gates to candidates. A pattern applies to each subject that it matches.
fn declare<'a>(
    candidates: &[Candidate],
    not_compared: &[NotCompared],
    gates: &'a [Gate],
) -> Vec<Declared<'a>> {
    let mut out = Vec::new();
    for gate in gates {
        let mut found = false;
        for (at, candidate) in candidates.iter().enumerate() {
            if gate.is_of(candidate.metric.name, candidate.subject.as_deref()) {
                found = true;
                let name = full_name(candidate.metric.name, candidate.subject.as_deref());
                out.push(Declared {
                    gate,
                    name,
                    of: Ok(at),
                });
            }
        }
        for missing in not_compared {
            let (metric, subject) = match missing.metric.split_once('[') {
                Some((metric, subject)) => (metric, subject.strip_suffix(']')),
                None => (missing.metric.as_str(), None),
            };
            if gate.is_of(metric, subject) {
                found = true;
                out.push(Declared {
                    gate,
                    name: missing.metric.clone(),
                    of: Err(missing.reason.clone()),
                });
            }
        }
        if !found {
            let reason = "no run has this metric".to_owned();
            out.push(Declared {
                gate,
                name: gate.full_name(),
                of: Err(reason),
            });
        }
    }
    out
}

/// Criterion that separates a change from noise.
#[derive(Clone, Copy)]
enum Significance {
    /// Interval with this tail on each side.
    Tail(f64),
    /// False-discovery rate, with all steps and without outliers.
    Rates(f64, f64),
    /// None, because no noise is known.
    Unknown,
}

struct Judge<'a> {
    layout: &'a Layout,
    gate_alpha: f64,
    margin: f64,
    step_time: Option<f64>,
}

/// Verdict from one estimate alone.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Verdict {
    Improved,
    Unchanged(f64),
    Regressed,
    Inconclusive,
}

impl Judge<'_> {
    fn metric(
        &self,
        candidate: &Candidate,
        is_declared: bool,
        significance: Significance,
        p_value: Option<f64>,
    ) -> MetricResult {
        let Candidate {
            metric,
            all,
            without_outliers,
            ..
        } = candidate;
        let tail = match significance {
            Significance::Tail(tail) => tail,
            _ => TAIL,
        };
        let verdict = match significance {
            Significance::Unknown => Verdict::Inconclusive,
            Significance::Tail(_) => agreed(
                self.verdict(metric, all, tail, None),
                self.verdict(metric, without_outliers, tail, None),
            ),
            Significance::Rates(with, without) => agreed(
                self.verdict(metric, all, tail, Some(with)),
                self.verdict(metric, without_outliers, tail, Some(without)),
            ),
        };
        let interval = half_width(all, tail).map(|half| Interval {
            low: all.change() - half,
            high: all.change() + half,
        });
        MetricResult {
            metric: metric.name.to_owned(),
            subject: candidate.subject.clone(),
            meaning: metric.meaning.to_owned(),
            unit: metric.unit.name().to_owned(),
            better: metric.better,
            is_declared,
            base: all.base,
            new: all.new,
            change: all.change(),
            relative: relative(all.change(), all.base),
            interval,
            p_value,
            change_without_outliers: without_outliers.change(),
            verdict: match verdict {
                Verdict::Improved => MetricVerdict::Improved,
                Verdict::Unchanged(_) => MetricVerdict::Unchanged,
                Verdict::Regressed => MetricVerdict::Regressed,
                Verdict::Inconclusive => MetricVerdict::Inconclusive,
            },
            within: match verdict {
                Verdict::Unchanged(within) => Some(within),
                _ => None,
            },
            runs_needed: (verdict == Verdict::Inconclusive)
                .then(|| self.runs_for_verdict(all, tail))
                .flatten(),
            base_runs: candidate.base_runs.clone(),
            new_runs: candidate.new_runs.clone(),
        }
    }

    /// Judges one estimate. `rate`: false-discovery rate that replaces the interval as the criterion of a change.
    fn verdict(&self, metric: &Metric, estimate: &Estimate, tail: f64, rate: Option<f64>) -> Verdict {
        let Some(half) = half_width(estimate, tail) else {
            return Verdict::Inconclusive;
        };
        let change = estimate.change();
        let is_change = match rate {
            Some(rate) => rate <= FALSE_DISCOVERIES && change != 0.0,
            None => change.abs() > half,
        };
        if is_change {
            return if change * metric.better.worse_sign() > 0.0 {
                Verdict::Regressed
            } else {
                Verdict::Improved
            };
        }
        let smaller = estimate.base.abs().min(estimate.new.abs());
        let farthest = change.abs() + half;
        if farthest == 0.0 {
            Verdict::Unchanged(0.0)
        } else if smaller > 0.0 && farthest <= self.margin * smaller {
            Verdict::Unchanged(farthest / smaller)
        } else {
            Verdict::Inconclusive
        }
    }

    /// Returns the number of runs per side that would decide whether this is a change, or none beyond the margin.
    fn runs_for_verdict(&self, estimate: &Estimate, tail: f64) -> Option<u32> {
        let change = estimate.change().abs();
        let smaller = estimate.base.abs().min(estimate.new.abs());
        let tolerance = change.max(self.margin * smaller - change);
        self.runs_for(estimate, 1.0, tolerance, tail)
    }

    /// Returns the number of runs per side with which `new − factor · base` has an error below `tolerance`.
    fn runs_for(&self, estimate: &Estimate, factor: f64, tolerance: f64, tail: f64) -> Option<u32> {
        let of_one = estimate.noise?.of_one;
        if tolerance <= 0.0 || self.layout.unit == Unit::None {
            return None;
        }
        let is_enough = |runs: u32| {
            let variance = of_one * (1.0 + factor * factor) / f64::from(runs);
            T::new(f64::from(2 * (runs - 1))).is_some_and(|t| t.upper(tail) * variance.sqrt() < tolerance)
        };
        // Precision grows with the number of runs, so the smallest sufficient number is found by bisection.
        let (mut too_few, mut enough) = (1, MAX_RUNS);
        if !is_enough(enough) {
            return None;
        }
        while enough - too_few > 1 {
            let middle = u32::midpoint(too_few, enough);
            if is_enough(middle) {
                enough = middle
            } else {
                too_few = middle
            }
        }
        Some(enough)
    }

    /// Returns the largest change for the worse that a gate allows, in the metric's unit.
    fn allowed(&self, gate: &Gate, estimate: &Estimate) -> Result<f64, String> {
        match gate.limit {
            Limit::OfItself(share) => Ok(share * estimate.base.abs()),
            Limit::OfStep(share) => {
                let step = self.step_time.ok_or("step_time is unknown")?;
                Ok(share * step)
            }
            Limit::By(amount) => Ok(amount),
        }
    }

    /// Returns the factor of the base in the gate's difference: a limit in percent moves with the base.
    fn factor(gate: &Gate, metric: &Metric) -> f64 {
        match gate.limit {
            Limit::OfItself(share) => 1.0 + metric.better.worse_sign() * share,
            Limit::OfStep(_) | Limit::By(_) => 1.0,
        }
    }

    fn gate(&self, declared: &Declared<'_>, candidates: &[Candidate]) -> GateResult {
        let mut result = GateResult {
            rule: declared.gate.rule.clone(),
            metric: declared.name.clone(),
            limit: Figure::unknown("the metric cannot be compared"),
            at_most: Figure::unknown("the metric cannot be compared"),
            verdict: GateVerdict::Inconclusive,
            reason: String::new(),
            runs_needed: None,
        };
        let candidate = match &declared.of {
            Ok(at) => &candidates[*at],
            Err(reason) => {
                result.reason = format!("{} cannot be compared: {reason}", declared.name);
                return result;
            }
        };
        let allowed = match self.allowed(declared.gate, &candidate.all) {
            Ok(allowed) => allowed,
            Err(reason) => {
                result.reason = reason;
                return result;
            }
        };
        result.limit = Figure::known(allowed);
        let metric = candidate.metric;
        let decide = |estimate: &Estimate| self.decide(declared.gate, metric, estimate);
        let (all, without) = (decide(&candidate.all), decide(&candidate.without_outliers));
        let worse = metric.better.worse_sign();
        let change = shown::change(metric.unit, candidate.all.change(), candidate.all.base);
        let limit = shown::amount(metric.unit, worse * allowed);
        let at_most = |estimate: &Estimate| self.at_most(declared.gate, metric, estimate);
        let at_most = at_most(&candidate.all)
            .zip(at_most(&candidate.without_outliers))
            .map(|(all, without)| all.max(without));
        result.at_most = at_most.map_or_else(|| Figure::unknown(self.no_noise()), Figure::known);
        let bound = at_most.map_or_else(String::new, |bound| shown::amount(metric.unit, worse * bound));
        let (verdict, reason) = match (all, without) {
            (Some(Decision::Fail), Some(Decision::Fail)) => {
                (GateVerdict::Fail, format!("{change} is beyond {limit}"))
            }
            (Some(Decision::Pass), Some(Decision::Pass)) => (
                GateVerdict::Pass,
                format!("{change}, at most {bound} with 95 % confidence, which is within {limit}"),
            ),
            (None, _) | (_, None) => (GateVerdict::Inconclusive, self.no_noise()),
            (Some(one), Some(other)) if one != other => (
                GateVerdict::Inconclusive,
                format!(
                    "the result depends on outliers: {change} with them, {} without",
                    {
                        let without = &candidate.without_outliers;
                        shown::change(metric.unit, without.change(), without.base)
                    }
                ),
            ),
            _ => (
                GateVerdict::Inconclusive,
                format!(
                    "{change} is too uncertain: up to {bound} cannot be excluded, and the limit is {limit}"
                ),
            ),
        };
        (result.verdict, result.reason) = (verdict, reason);
        if result.verdict == GateVerdict::Inconclusive {
            result.runs_needed = self.runs_for_gate(declared.gate, metric, &candidate.all, allowed);
        }
        result
    }

    fn runs_for_gate(&self, gate: &Gate, metric: &Metric, estimate: &Estimate, allowed: f64) -> Option<u32> {
        let distance = metric.better.worse_sign() * estimate.change() - allowed;
        let tail = if distance > 0.0 {
            self.gate_alpha
        } else {
            PASS_ALPHA
        };
        self.runs_for(estimate, Self::factor(gate, metric), distance.abs(), tail)
    }

    fn no_noise(&self) -> String {
        "one run per side shows no noise between runs: record at least two runs per side, or name a baseline with \
         --noise-from".to_owned()
    }

    /// Returns the largest change for the worse that is not excluded at [`PASS_ALPHA`]; positive is worse.
    fn at_most(&self, gate: &Gate, metric: &Metric, estimate: &Estimate) -> Option<f64> {
        let error = estimate.standard_error(Self::factor(gate, metric))?;
        let t = T::new(estimate.noise?.degrees)?;
        Some(metric.better.worse_sign() * estimate.change() + t.upper(PASS_ALPHA) * error)
    }

    fn decide(&self, gate: &Gate, metric: &Metric, estimate: &Estimate) -> Option<Decision> {
        let allowed = self.allowed(gate, estimate).ok()?;
        let beyond = metric.better.worse_sign() * estimate.change() - allowed;
        let error = estimate.standard_error(Self::factor(gate, metric))?;
        let t = T::new(estimate.noise?.degrees)?;
        Some(if beyond - t.upper(self.gate_alpha) * error > 0.0 {
            Decision::Fail
        } else if self.at_most(gate, metric, estimate)? <= allowed {
            Decision::Pass
        } else {
            Decision::Inconclusive
        })
    }

    /// Returns the change that fails the gate in all but [`PASS_ALPHA`] of cases, with and without outliers.
    fn detectable(&self, declared: &Declared<'_>, candidates: &[Candidate]) -> Detectable {
        let found = declared.of.clone().and_then(|at| {
            let candidate = &candidates[at];
            let of = |estimate: &Estimate| -> Result<f64, String> {
                let allowed = self.allowed(declared.gate, estimate)?;
                let factor = Self::factor(declared.gate, candidate.metric);
                let error = estimate.standard_error(factor).ok_or_else(|| self.no_noise())?;
                let t = estimate
                    .noise
                    .and_then(|noise| T::new(noise.degrees))
                    .ok_or_else(|| self.no_noise())?;
                Ok(allowed + (t.upper(self.gate_alpha) + t.upper(PASS_ALPHA)) * error)
            };
            let change = of(&candidate.all)?.max(of(&candidate.without_outliers)?);
            Ok((change * candidate.metric.better.worse_sign(), candidate.all.base))
        });
        match found {
            Ok((change, base)) => Detectable {
                metric: declared.name.clone(),
                change: Figure::known(change),
                relative: relative(change, base)
                    .map_or_else(|| Figure::unknown("the base is 0"), Figure::known),
            },
            Err(reason) => Detectable {
                metric: declared.name.clone(),
                change: Figure::unknown(reason.clone()),
                relative: Figure::unknown(reason),
            },
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Decision {
    Pass,
    Fail,
    Inconclusive,
}

/// If outliers change the verdict, the result is inconclusive.
fn agreed(all: Verdict, without: Verdict) -> Verdict {
    match (all, without) {
        (Verdict::Unchanged(one), Verdict::Unchanged(other)) => Verdict::Unchanged(one.max(other)),
        (one, other) if one == other => one,
        _ => Verdict::Inconclusive,
    }
}

fn half_width(estimate: &Estimate, tail: f64) -> Option<f64> {
    let t = T::new(estimate.noise?.degrees)?;
    Some(t.upper(tail) * estimate.standard_error(1.0)?)
}

fn relative(change: f64, base: f64) -> Option<f64> {
    let share = change / base.abs();
    share.is_finite().then_some(share)
}
