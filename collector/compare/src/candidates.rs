//! Metrics that all compared runs have, with their estimates.

use super::Run;
use super::estimate::{Estimate, Steps, Values};
use super::layout::{Layout, Side};
use super::metrics::{
    self, COPY_BYTES, COPY_TIME, KERNEL_TIME, Metric, OPERATION_TRANSFER, OPERATION_WAIT, STALL_CAUSE,
    STALL_TIME, STREAM_IDLE,
};
use super::summarise::MAX_KERNELS;
use rankscope_formats::comparison::{NotCompared, RunSummary, Value, full_name};
use std::collections::BTreeSet;

/// Metric with all its data.
pub struct Candidate {
    /// The metric.
    pub metric: &'static Metric,
    /// What it is measured of, such as a class of operations.
    pub subject: Option<String>,
    /// Estimate over all steps.
    pub all: Estimate,
    /// Estimate without outliers.
    pub without_outliers: Estimate,
    /// Mean of each compared base run.
    pub base_runs: Vec<f64>,
    /// Mean of each compared new run.
    pub new_runs: Vec<f64>,
}

/// Returns all metrics that all compared runs have, and why others are not compared. `noise` has batches of other runs
/// that supply the noise between runs.
pub fn candidates(
    base: &[Run],
    new: &[Run],
    noise: &[Vec<Run>],
    layout: &Layout,
) -> (Vec<Candidate>, Vec<NotCompared>) {
    let sides = Sides::new(base, new, noise, layout);
    let mut out = Vec::new();
    let mut not_compared = Vec::new();
    for metric in metrics::ALL {
        for subject in sides.subjects(metric) {
            match sides.candidate(metric, subject) {
                Ok(candidate) => out.push(candidate),
                Err(reason) => not_compared.push(NotCompared {
                    metric: full_name(metric.name, subject),
                    reason,
                }),
            }
        }
    }
    (out, not_compared)
}

/// The runs of a comparison.
struct Sides<'a> {
    base: &'a [Run],
    new: &'a [Run],
    noise: &'a [Vec<Run>],
    layout: &'a Layout,
    /// Positions of the compared runs.
    compared_base: Vec<usize>,
    compared_new: Vec<usize>,
    /// The compared runs with their names in messages.
    compared: Vec<(String, &'a Run)>,
}

impl<'a> Sides<'a> {
    fn new(base: &'a [Run], new: &'a [Run], noise: &'a [Vec<Run>], layout: &'a Layout) -> Self {
        let compared_base = layout.compared(Side::Base);
        let compared_new = layout.compared(Side::New);
        let name = |side: &str, at: usize| format!("{side} {}", at + 1);
        let base_named = compared_base.iter().map(|&at| (name("BASE", at), &base[at]));
        let new_named = compared_new.iter().map(|&at| (name("NEW", at), &new[at]));
        Self {
            compared: base_named.chain(new_named).collect(),
            base,
            new,
            noise,
            layout,
            compared_base,
            compared_new,
        }
    }

    /// Returns the subjects of a metric in any compared run.
    fn subjects(&self, metric: &Metric) -> BTreeSet<Option<&'a str>> {
        let measured = self.compared.iter().flat_map(|(_, run)| &run.summary.metrics);
        measured
            .filter(|measured| measured.metric == metric.name)
            .map(|measured| measured.subject.as_deref())
            .collect()
    }

    /// Estimates a metric, or returns the reason why it is not compared.
    fn candidate(&self, metric: &'static Metric, subject: Option<&str>) -> Result<Candidate, String> {
        let value = |run: &Run| match run.summary.measured(metric.name, subject) {
            Some(measured) => measured.value.value,
            None => is_zero_where_absent(metric.name, subject, &run.summary).then(|| Value::once(0.0)),
        };
        if let Some((name, run)) = self.compared.iter().find(|(_, run)| value(run).is_none()) {
            let measured = run.summary.measured(metric.name, subject);
            return Err(match measured.map(|measured| measured.value.get()) {
                Some(Err(reason)) => format!("{name}: {reason}"),
                _ => format!("{name} lacks this metric"),
            });
        }
        let of = |runs: &[Run]| -> Vec<Option<Value>> { runs.iter().map(&value).collect() };
        let values = Values {
            base: of(self.base),
            new: of(self.new),
            noise: self
                .noise
                .iter()
                .map(|batch| of(batch).into_iter().flatten().collect())
                .collect(),
        };
        let estimate =
            |steps: Steps| Estimate::of(&values, self.layout, steps).ok_or("a value is not a finite number");
        let mean = |value: &Option<Value>| value.map(|value| value.all.mean);
        let means = |compared: &[usize], values: &[Option<Value>]| {
            compared.iter().filter_map(|&at| mean(&values[at])).collect()
        };
        Ok(Candidate {
            metric,
            subject: subject.map(str::to_owned),
            all: estimate(Steps::All)?,
            without_outliers: estimate(Steps::WithoutOutliers)?,
            base_runs: means(&self.compared_base, &values.base),
            new_runs: means(&self.compared_new, &values.new),
        })
    }
}

/// Whether a missing value of a run means zero: a stall that did not occur took no time.
fn is_zero_where_absent(metric: &str, subject: Option<&str>, run: &RunSummary) -> bool {
    let has_devices = ["device", "kineto", "nsys"].contains(&run.kind.as_str());
    run.steps.reason.is_none()
        && match metric {
            STALL_TIME | STALL_CAUSE | STREAM_IDLE | COPY_TIME | COPY_BYTES => has_devices,
            KERNEL_TIME => {
                // With many kernels, a run keeps only those with the longest time.
                let kernels = run
                    .metrics
                    .iter()
                    .filter(|measured| measured.metric == KERNEL_TIME)
                    .count();
                has_devices && kernels < MAX_KERNELS
            }
            OPERATION_WAIT | OPERATION_TRANSFER => run
                .operations
                .iter()
                .all(|operation| Some(operation.class.as_str()) != subject),
            _ => false,
        }
}
