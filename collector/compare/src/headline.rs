//! Headline of a comparison: the change, the part with most of it, and its probable cause.

use super::changes::Changes;
use super::judge::Judged;
use super::metrics::{STEP_TIME, Unit};
use super::shown;
use rankscope_formats::comparison::{Attribution, Interval, MetricResult};
use rankscope_formats::comparison::{GateVerdict, MetricVerdict};

/// Smallest share of the change that a named part explains.
const MIN_PART: f64 = 0.25;

/// Returns the headline for these results.
pub fn headline(judged: &Judged, attribution: &Attribution, changes: &Changes) -> String {
    let step = judged.metrics.iter().find(|result| result.metric == STEP_TIME);
    let Some(step) = step else {
        let reason = judged
            .not_compared
            .iter()
            .find(|missing| missing.metric == STEP_TIME);
        let reason = reason.map_or_else(
            || "no run has this metric".to_owned(),
            |missing| missing.reason.clone(),
        );
        return format!("the step time cannot be compared: {reason}");
    };
    let first = first(step);
    let worst = judged
        .gates
        .iter()
        .filter(|gate| gate.verdict == GateVerdict::Fail && gate.metric != STEP_TIME)
        .find_map(|gate| {
            judged
                .metrics
                .iter()
                .find(|result| result.full_name() == gate.metric)
        });
    let is_change = matches!(step.verdict, MetricVerdict::Regressed | MetricVerdict::Improved);
    let mut out = first;
    if !is_change && let Some(worst) = worst {
        let unit = super::metrics::find(&worst.metric).map_or(Unit::Count, |metric| metric.unit);
        out = format!(
            "{} {}; {out}",
            worst.full_name(),
            shown::change(unit, worst.change, worst.base)
        );
    }
    let cause = if is_change || worst.is_some() {
        cause(attribution, changes)
    } else {
        None
    };
    let certain = certain(changes).filter(|_| step.verdict == MetricVerdict::Inconclusive);
    match (cause, certain) {
        (Some(cause), _) => format!("{out}: {cause}"),
        (None, Some(certain)) => format!("{out}; certain: {certain}"),
        (None, None) => out,
    }
}

/// Returns a certain change. Even if the step time is lost in noise, changes of the program or of durations may be
/// known.
fn certain(changes: &Changes) -> Option<&str> {
    let is_of_program = |kind: &str| kind.starts_with("operation");
    let mut all = changes.all.iter();
    let first = all.find(|change| is_of_program(&change.kind) || change.step_ns.value.is_some())?;
    Some(&first.text)
}

/// Returns `step time +6.1 % ± 1.2 %`, or that it is unchanged.
fn first(step: &MetricResult) -> String {
    let base = step.base.abs().max(f64::MIN_POSITIVE);
    let half = step
        .interval
        .map(|Interval { low, high }| (high - low) / 2.0 / base);
    let change = shown::percent(step.change / base);
    let interval = half.map_or_else(
        || " (no noise known)".to_owned(),
        |half| format!(" ± {} %", rankscope_analysis::model::units::digits(half * 100.0)),
    );
    match step.verdict {
        MetricVerdict::Unchanged => {
            let within = step.within.unwrap_or(0.0) * 100.0;
            format!(
                "step time unchanged within ± {} %",
                rankscope_analysis::model::units::digits(within)
            )
        }
        MetricVerdict::Inconclusive => format!("step time {change}{interval}, which may be noise"),
        MetricVerdict::Improved | MetricVerdict::Regressed => format!("step time {change}{interval}"),
    }
}

/// Returns the part with the largest change, and its main contributor.
fn cause(attribution: &Attribution, changes: &Changes) -> Option<String> {
    let program: Vec<&str> = changes
        .all
        .iter()
        .filter(|change| {
            change.kind.starts_with("operation-added")
                || change.kind == "operation-resized"
                || change.kind == "operation-count"
                || change.kind == "operation-removed"
        })
        .map(|change| change.text.as_str())
        .take(1)
        .collect();
    let part = attribution
        .parts
        .iter()
        .filter(|part| {
            part.change_ns.saturating_abs() as f64 >= MIN_PART * attribution.change_ns.saturating_abs() as f64
        })
        .max_by_key(|part| part.change_ns.saturating_abs());
    let mut causes: Vec<String> = program.into_iter().map(str::to_owned).collect();
    if let Some(part) = part {
        let amount = shown::value(Unit::Nanoseconds, part.change_ns.saturating_abs() as f64);
        let longer = if part.change_ns > 0 { "longer" } else { "shorter" };
        let text = match (
            part.part.as_str(),
            &changes.waits,
            &changes.transfers,
            changes.slower_rank,
        ) {
            ("exposed-wait", Some((class, ns)), _, rank) if (*ns > 0.0) == (part.change_ns > 0) => {
                let whom = rank
                    .filter(|_| part.change_ns > 0)
                    .map_or_else(String::new, |(rank, _)| format!(" for rank {rank}"));
                format!(
                    "{class} waits {} {longer} per step{whom}",
                    shown::value(Unit::Nanoseconds, ns.abs())
                )
            }
            ("exposed-transfer", _, Some((class, ns)), _) if (*ns > 0.0) == (part.change_ns > 0) => {
                format!(
                    "{class} transfers {} {longer} per step",
                    shown::value(Unit::Nanoseconds, ns.abs())
                )
            }
            (name, _, _, Some((rank, ns))) if name != "exposed-transfer" && part.change_ns > 0 => {
                let own = shown::value(Unit::Nanoseconds, ns);
                format!(
                    "{} {amount} {longer} per step; rank {rank} takes {own} more own time",
                    name.replace('-', " ")
                )
            }
            (name, ..) => {
                let detail = changes.all.iter().find(|change| {
                    change
                        .step_ns
                        .value
                        .is_some_and(|ns| (ns > 0.0) == (part.change_ns > 0))
                        && ["kernel-slower", "kernel-faster", "pause-slower", "pause-faster"]
                            .contains(&change.kind.as_str())
                });
                let detail = detail.map_or_else(String::new, |change| format!(" ({})", change.text));
                format!("{} {amount} {longer} per step{detail}", name.replace('-', " "))
            }
        };
        causes.push(text);
    }
    (!causes.is_empty()).then(|| causes.join("; "))
}
