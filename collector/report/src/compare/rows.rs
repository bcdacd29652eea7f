//! Rows of a comparison's tables, shared by the terminal, the pull request and the page.

use super::shown;
use crate::compare::{phrases, severities};
use crate::figures;
use crate::figures::{quoted, time};
use crate::prose::{Prose, prose};
use crate::reasons::Reasons;
use crate::sentences::Level;
use rankscope_formats::comparison::MetricVerdict;
use rankscope_formats::comparison::{Comparison, MetricResult, RankChange};

/// Maximum number of parts of a rank's change that are named.
const MAX_PARTS: usize = 2;

/// Row of a gate.
#[derive(Debug)]
pub struct GateRow {
    /// Severity of the verdict.
    pub level: Level,
    /// `pass`, `fail` or `inconclusive`.
    pub verdict: Prose,
    /// Rule as declared.
    pub rule: Prose,
    /// Value of the base.
    pub base: Prose,
    /// Value of the new runs.
    pub new: Prose,
    /// Change and its uncertainty.
    pub change: Prose,
    /// Reason for the verdict, and the number of runs that would decide.
    pub reason: Prose,
}

/// Returns the gates in the order of their declaration.
pub fn gates(comparison: &Comparison, reasons: &mut Reasons) -> Vec<GateRow> {
    let gates = comparison.gates.iter().enumerate();
    gates
        .map(|(at, gate)| {
            let of = |field: &str| format!("/gates/{at}/{field}");
            let known = phrases::metric(comparison, &gate.metric);
            let mut cells = match &known {
                Some((from, metric)) => values(metric, from),
                None => {
                    let dash = reasons.dash(why_unknown(comparison, &gate.metric));
                    [dash.clone(), dash.clone(), dash]
                }
            };
            let [base, new, change] = &mut cells;
            GateRow {
                level: severities::of_gate(gate.verdict),
                verdict: quoted(gate.verdict, of("verdict")).into(),
                rule: phrases::gate_name(comparison, at),
                base: std::mem::take(base),
                new: std::mem::take(new),
                change: std::mem::take(change),
                reason: phrases::gate_reason(comparison, at),
            }
        })
        .collect()
}

fn why_unknown(comparison: &Comparison, metric: &str) -> Prose {
    let mut not_compared = comparison.not_compared.iter().enumerate();
    match not_compared.find(|(_, not)| not.metric == metric) {
        Some((at, not)) => quoted(&not.reason, format!("/not_compared/{at}/reason")).into(),
        None => "one of the sides lacks this metric".into(),
    }
}

/// Returns base, new and change.
fn values(metric: &MetricResult, at: &str) -> [Prose; 3] {
    [
        shown::value(metric.base, &metric.unit, format!("{at}/base")),
        shown::value(metric.new, &metric.unit, format!("{at}/new")),
        shown::change(metric, at),
    ]
}

/// Row of a metric.
#[derive(Debug)]
pub struct MetricRow {
    /// Severity of the verdict.
    pub level: Level,
    /// `improved`, `unchanged`, `regressed` or `inconclusive`.
    pub verdict: Prose,
    /// Metric and subject.
    pub name: Prose,
    /// Value of the base.
    pub base: Prose,
    /// Value of the new runs.
    pub new: Prose,
    /// Change and its uncertainty.
    pub change: Prose,
    /// Number of runs per side that would decide, or the margin within which it is unchanged. Empty if neither is
    /// known.
    pub note: Prose,
}

/// Returns the metric at this position of the list.
pub fn metric(comparison: &Comparison, metric: &MetricResult, at: usize) -> MetricRow {
    let from = format!("/metrics/{at}");
    let [base, new, change] = values(metric, &from);
    let note = match (metric.verdict, metric.runs_needed, metric.within) {
        (MetricVerdict::Inconclusive, Some(runs), _) => prose![
            "needs ",
            phrases::repeats(comparison, runs, format!("{from}/runs_needed"))
        ],
        (MetricVerdict::Inconclusive, None, _) if metric.interval.is_some() => "needs too many runs".into(),
        (MetricVerdict::Unchanged, _, Some(within)) if within.is_finite() => {
            prose!["within ", figures::relative(within, format!("{from}/within"))]
        }
        _ => Prose::default(),
    };
    MetricRow {
        level: severities::of_metric(metric.verdict),
        verdict: quoted(metric.verdict, format!("{from}/verdict")).into(),
        name: phrases::name(metric, &from),
        base,
        new,
        change,
        note,
    }
}

/// Returns notable metrics that were not declared, in the order of the list.
pub fn notable(comparison: &Comparison) -> Vec<(usize, &MetricResult)> {
    let metrics = comparison.metrics.iter().enumerate();
    metrics
        .filter(|(_, metric)| !metric.is_declared && metric.verdict != MetricVerdict::Unchanged)
        .collect()
}

/// Returns the number of the other metrics that were not declared.
pub fn unchanged(comparison: &Comparison) -> usize {
    let metrics = comparison.metrics.iter();
    metrics
        .filter(|metric| !metric.is_declared && metric.verdict == MetricVerdict::Unchanged)
        .count()
}

/// Returns the ranks with their positions, sorted by the largest deviation of one of their parts from the median rank.
/// Ranks that wait for each other all have longer steps. The cause is visible only in the parts.
pub fn ranks_by_difference(comparison: &Comparison) -> Vec<(usize, &RankChange)> {
    let ranks = &comparison.attribution.ranks;
    let medians: Vec<i64> = (0..comparison.attribution.parts.len())
        .map(|part| {
            let mut changes: Vec<i64> = ranks
                .iter()
                .filter_map(|rank| rank.parts_ns.get(part).copied())
                .collect();
            changes.sort_unstable();
            changes.get(changes.len() / 2).copied().unwrap_or(0)
        })
        .collect();
    let unlike = |rank: &RankChange| {
        let parts = rank.parts_ns.iter().zip(&medians);
        parts.map(|(ns, median)| ns.abs_diff(*median)).max().unwrap_or(0)
    };
    let mut ordered: Vec<_> = ranks.iter().enumerate().collect();
    ordered.sort_by_key(|(_, rank)| std::cmp::Reverse(unlike(rank)));
    ordered
}

/// Returns the median rank by the change of its step.
pub fn median_of_ranks(comparison: &Comparison) -> Option<(usize, &RankChange)> {
    let mut ranks: Vec<_> = comparison.attribution.ranks.iter().enumerate().collect();
    ranks.sort_by_key(|(_, rank)| rank.change_ns);
    ranks.get(ranks.len() / 2).copied()
}

/// Returns name, host, change, and main parts of a rank.
pub fn rank(comparison: &Comparison, at: usize, rank: &RankChange) -> [Prose; 4] {
    let of = |field: &str| format!("/attribution/ranks/{at}/{field}");
    let mut parts: Vec<(usize, i64)> = rank.parts_ns.iter().copied().enumerate().collect();
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(ns.unsigned_abs()));
    let most = parts.iter().map(|(_, ns)| ns.unsigned_abs()).max().unwrap_or(0);
    let named = parts
        .iter()
        // Parts below a tenth of the largest explain nothing.
        .filter(|(_, ns)| *ns != 0 && ns.unsigned_abs().saturating_mul(10) >= most)
        .take(MAX_PARTS)
        .filter_map(|&(part, ns)| {
            let name = &comparison.attribution.parts.get(part)?.part;
            Some(prose![
                quoted(name, format!("/attribution/parts/{part}/part")),
                " ",
                change_ns(ns, of(&format!("parts_ns/{part}")))
            ])
        });
    [
        prose!["rank ", figures::plain(rank.rank, of("rank"))],
        quoted(&rank.host, of("host")).into(),
        change_ns(rank.change_ns, of("change_ns")),
        Prose::join(named, ", "),
    ]
}

/// Formats a change of a time, with its sign.
pub fn change_ns(ns: i64, from: String) -> Prose {
    figures::change(ns as f64, "ns", from).into()
}

/// Returns name, base, new and change of a part of the mean step.
pub fn part(comparison: &Comparison, at: usize) -> Option<[Prose; 4]> {
    let part = comparison.attribution.parts.get(at)?;
    let of = |field: &str| format!("/attribution/parts/{at}/{field}");
    Some([
        quoted(&part.part, of("part")).into(),
        time(part.base_ns, of("base_ns")).into(),
        time(part.new_ns, of("new_ns")).into(),
        change_ns(part.change_ns, of("change_ns")),
    ])
}

/// Returns the step that the parts add up to.
pub fn whole(comparison: &Comparison) -> [Prose; 4] {
    let of = |field: &str| format!("/attribution/{field}");
    let attribution = &comparison.attribution;
    [
        "whole step".into(),
        time(attribution.base_step_ns, of("base_step_ns")).into(),
        time(attribution.new_step_ns, of("new_step_ns")).into(),
        change_ns(attribution.change_ns, of("change_ns")),
    ]
}

/// Returns the time of the mean step for which a change accounts, or nothing if it has none.
pub fn step_share(comparison: &Comparison, at: usize) -> Prose {
    let change = comparison.changes.get(at);
    let ns = change
        .and_then(|change| change.step_ns.value)
        .filter(|ns| ns.is_finite());
    ns.map(|ns| figures::change(ns, "ns", format!("/changes/{at}/step_ns/value")))
        .into()
}
