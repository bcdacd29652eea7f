//! Operations, kernels and pauses that take longer or shorter, by the mean step.

use super::{timed, untimed};
use crate::Run;
use crate::judge::Judged;
use crate::metrics::{
    COPY_TIME, KERNEL_TIME, OPERATION_TRANSFER, OPERATION_WAIT, PAUSE, STEP_TIME, STREAM_IDLE, TRANSFER_TIME,
    Unit,
};
use crate::shown;
use crate::summarise::MOST_KERNELS;
use rankscope_formats::comparison::{Change, MetricResult};
use std::collections::BTreeSet;

/// Changes below this share of a step are not listed.
const NOTABLE_SHARE: f64 = 0.001;

/// What takes longer or shorter.
pub struct Times {
    /// Each that is significant.
    pub all: Vec<Change>,
    /// The class that waits longest beyond the base.
    pub waits: Option<(String, f64)>,
    /// The class that transfers longest beyond the base.
    pub transfers: Option<(String, f64)>,
}

/// By the metrics with times.
pub fn changes(judged: &Judged, base: &[&Run], new: &[&Run]) -> Times {
    let step = judged.metrics.iter().find(|result| result.metric == STEP_TIME);
    let notable_ns = step.map_or(0.0, |step| step.base * NOTABLE_SHARE);
    let mut all = Vec::new();
    for result in &judged.metrics {
        let is_change = ["regressed", "improved"].contains(&result.verdict.as_str());
        // What one side alone has is a change of the program, not of how long something takes.
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

/// `9.1 ms longer (+40 %)`.
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

/// Kernels that all runs of one side have and none of the other.
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

/// Kernels of a run, and their time by the mean step.
fn kernels(run: &Run) -> impl Iterator<Item = (&str, f64)> {
    let measured = run
        .summary
        .metrics
        .iter()
        .filter(|measured| measured.metric == KERNEL_TIME);
    measured.filter_map(|measured| Some((measured.subject.as_deref()?, measured.value.value?.all.mean)))
}

/// True if a run has no such kernel. Of many kernels a run keeps those that take most time: one that takes little may be left out.
fn is_surely_lacking(run: &Run, name: &str, others: &[&Run]) -> bool {
    // More than all that are left out can each take.
    const MUCH_OF_THE_STEP: f64 = 1.0 / MOST_KERNELS as f64;
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
    kernels(run).all(|(known, _)| known != name) && (kernels(run).count() < MOST_KERNELS || takes_much)
}

/// The subject of a metric that grew most, if it did.
fn most(judged: &Judged, metric: &str) -> Option<(String, f64)> {
    // A change that is as likely noise names nothing.
    const LIKELY: f64 = 0.05;
    judged
        .metrics
        .iter()
        .filter(|result| result.base != 0.0 && result.new != 0.0)
        .filter(|result| result.metric == metric && result.p_value.is_some_and(|p| p <= LIKELY))
        .max_by(|one, other| one.change.abs().total_cmp(&other.change.abs()))
        .and_then(|result| Some((result.subject.clone()?, result.change)))
}
