//! Operations, kernels and pauses that take longer or shorter, by the mean step.

use super::timed;
use crate::compare::judge::Judged;
use crate::compare::metrics::Unit;
use crate::compare::metrics::{
    COPY_TIME, KERNEL_TIME, OPERATION_TRANSFER, OPERATION_WAIT, PAUSE, STREAM_IDLE, TRANSFER_TIME,
};
use crate::compare::shown;
use rankscope_formats::comparison::{Change, MetricResult};

/// Changes below this share of the change for which one looks are not listed.
const NOTABLE_SHARE: f64 = 0.01;

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
pub fn changes(judged: &Judged) -> Times {
    let step = judged
        .metrics
        .iter()
        .find(|result| result.metric == super::super::metrics::STEP_TIME);
    let notable_ns = step.map_or(0.0, |step| step.base * NOTABLE_SHARE / 10.0);
    let mut all = Vec::new();
    for result in &judged.metrics {
        let is_change = ["regressed", "improved"].contains(&result.verdict.as_str());
        if !is_change || result.change.abs() < notable_ns {
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
    all.extend(come_and_gone(judged));
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

/// Kernels that one side alone has.
fn come_and_gone(judged: &Judged) -> Vec<Change> {
    let kernels = judged.not_compared.iter().filter_map(|missing| {
        let name = missing
            .metric
            .strip_prefix(KERNEL_TIME)?
            .strip_prefix('[')?
            .strip_suffix(']')?;
        let side = missing.reason.strip_suffix(" has none")?;
        Some((name, side.starts_with("BASE")))
    });
    kernels
        .map(|(name, is_new)| {
            let (kind, text) = if is_new {
                ("kernel-new", format!("new kernel: {name}"))
            } else {
                ("kernel-gone", format!("kernel gone: {name}"))
            };
            super::untimed(kind, text, None)
        })
        .collect()
}

/// The subject of a metric that grew most, if it did.
fn most(judged: &Judged, metric: &str) -> Option<(String, f64)> {
    // A change that is as likely noise names nothing.
    const LIKELY: f64 = 0.05;
    judged
        .metrics
        .iter()
        .filter(|result| result.metric == metric && result.p_value.is_some_and(|p| p <= LIKELY))
        .max_by(|one, other| one.change.abs().total_cmp(&other.change.abs()))
        .and_then(|result| Some((result.subject.clone()?, result.change)))
}
