//! Operations, kernels and pauses with a different time in the mean step.

use super::change::{timed, untimed};
use crate::Run;
use crate::judge::Judged;
use crate::metrics::{
    COPY_TIME, KERNEL_TIME, OPERATION_TRANSFER, OPERATION_WAIT, PAUSE, STEP_TIME, STREAM_IDLE, TRANSFER_TIME,
    Unit,
};
use crate::shown;
use crate::summarise::MAX_KERNELS;
use rankscope_formats::comparison::MetricVerdict;
use rankscope_formats::comparison::{Change, MetricResult};
use std::collections::BTreeSet;

/// Smallest listed change, as a share of the step.
const NOTABLE_SHARE: f64 = 0.001;

/// Changes of times.
pub struct Times {
    /// All significant changes.
    pub all: Vec<Change>,
    /// Class whose wait grew most.
    pub waits: Option<(String, f64)>,
    /// Class whose transfer time grew most.
    pub transfers: Option<(String, f64)>,
}

/// Finds the changes in metrics with times.
pub fn changes(judged: &Judged, base: &[&Run], new: &[&Run]) -> Times {
    let step = judged.metrics.iter().find(|result| result.metric == STEP_TIME);
    let notable_ns = step.map_or(0.0, |step| step.base * NOTABLE_SHARE);
    let mut all = Vec::new();
    for result in &judged.metrics {
        let is_change = matches!(result.verdict, MetricVerdict::Regressed | MetricVerdict::Improved);
        // If only one side has it, this is a change of the program, not of a duration.
        let is_of_both = result.base != 0.0 && result.new != 0.0;
        if !is_change || !is_of_both || result.change.abs() < notable_ns {
            continue;
        }
        let Some(subject) = result
            .subject
            .as_deref()
            .or((result.metric == COPY_TIME).then_some("copies"))
        else {
            continue;
        };
        let (kind, text) = match result.metric.as_str() {
            OPERATION_WAIT => (
                "operation-waits",
                format!("{subject} waits {} per step", longer(result)),
            ),
            OPERATION_TRANSFER => {
                let each = judged
                    .metrics
                    .iter()
                    .find(|other| other.metric == TRANSFER_TIME && other.subject == result.subject)
                    .map(|each| {
                        format!(
                            " ({} each)",
                            shown::change(Unit::Nanoseconds, each.change, each.base)
                        )
                    });
                (
                    "operation",
                    format!(
                        "{subject} takes {} per step to transfer{}",
                        longer(result),
                        each.unwrap_or_default()
                    ),
                )
            }
            KERNEL_TIME => (
                "kernel",
                format!("kernel {subject} takes {} per step", longer(result)),
            ),
            COPY_TIME => ("copies", format!("copies take {} per step", longer(result))),
            PAUSE => (
                "pause",
                format!("{subject} takes {} of host time per step", longer(result)),
            ),
            STREAM_IDLE => (
                "idle",
                format!(
                    "streams are idle {} per step for the cause {subject}",
                    longer(result)
                ),
            ),
            _ => continue,
        };
        let direction = if result.change > 0.0 { "slower" } else { "faster" };
        all.push(timed(&format!("{kind}-{direction}"), text, result.change));
    }
    all.extend(come_and_gone(base, new));
    Times {
        all,
        waits: most(judged, OPERATION_WAIT),
        transfers: most(judged, OPERATION_TRANSFER),
    }
}

/// Formats `9.1 ms longer (+40 %)`.
fn longer(result: &MetricResult) -> String {
    let direction = if result.change > 0.0 { "longer" } else { "shorter" };
    let share = result
        .relative
        .map_or_else(String::new, |share| format!(" ({})", shown::percent(share)));
    format!(
        "{} {direction}{share}",
        shown::value(Unit::Nanoseconds, result.change.abs())
    )
}

/// Returns the kernels that all runs of one side have and none of the other.
fn come_and_gone(base: &[&Run], new: &[&Run]) -> Vec<Change> {
    let names: BTreeSet<&str> = base
        .iter()
        .chain(new)
        .flat_map(|run| kernels(run))
        .map(|(name, _)| name)
        .collect();
    let only = |name: &str, side: &[&Run], other: &[&Run]| {
        let is_here = side
            .iter()
            .all(|run| kernels(run).any(|(known, _)| known == name));
        is_here && other.iter().all(|run| is_surely_lacking(run, name, side))
    };
    names
        .into_iter()
        .filter_map(|name| {
            if only(name, new, base) {
                Some(untimed("kernel-new", format!("new kernel: {name}"), None))
            } else if only(name, base, new) {
                Some(untimed("kernel-gone", format!("kernel gone: {name}"), None))
            } else {
                None
            }
        })
        .collect()
}

/// Returns the kernels of a run, and their time in the mean step.
fn kernels(run: &Run) -> impl Iterator<Item = (&str, f64)> {
    let measured = run
        .summary
        .metrics
        .iter()
        .filter(|measured| measured.metric == KERNEL_TIME);
    measured.filter_map(|measured| Some((measured.subject.as_deref()?, measured.value.value?.all.mean)))
}

/// Whether a run certainly has no such kernel. With many kernels a run keeps only those with the longest time, so a
/// short one may be left out.
fn is_surely_lacking(run: &Run, name: &str, others: &[&Run]) -> bool {
    // No kernel that was left out can exceed this share.
    const MUCH_OF_THE_STEP: f64 = 1.0 / MAX_KERNELS as f64;
    let step = |run: &Run| {
        run.summary
            .measured(STEP_TIME, None)
            .and_then(|step| step.value.value)
    };
    let takes_much = others.iter().all(|other| {
        let time = kernels(other)
            .find(|(known, _)| *known == name)
            .map_or(0.0, |(_, ns)| ns);
        step(other).is_some_and(|step| time > MUCH_OF_THE_STEP * step.all.mean)
    });
    kernels(run).all(|(known, _)| known != name) && (kernels(run).count() < MAX_KERNELS || takes_much)
}

/// Returns the subject of a metric that grew most, if any grew.
fn most(judged: &Judged, metric: &str) -> Option<(String, f64)> {
    // A change that is equally likely noise is not named.
    const LIKELY: f64 = 0.05;
    judged
        .metrics
        .iter()
        .filter(|result| result.base != 0.0 && result.new != 0.0)
        .filter(|result| result.metric == metric && result.p_value.is_some_and(|p| p <= LIKELY))
        .max_by(|one, other| one.change.abs().total_cmp(&other.change.abs()))
        .and_then(|result| Some((result.subject.clone()?, result.change)))
}
