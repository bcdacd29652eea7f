//! Result of a comparison: the output of `rankscope compare --json`.

use super::{COMPARISON_VERSION, RunName};
use crate::session::{Figure, Tool, schema_of};
use crate::vocabulary::vocabulary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

vocabulary! {
    /// Verdict of a comparison.
    Verdict {
        /// Every gate passes.
        Fine = "fine",
        /// A gate fails.
        Regressed = "regressed",
        /// Neither can be decided, or the runs may not be compared.
        #[serde(other)]
        Inconclusive = "inconclusive",
    }
    /// Verdict of a gate.
    GateVerdict {
        /// The change is within the limit.
        Pass = "pass",
        /// The change is beyond the limit.
        Fail = "fail",
        /// Neither can be decided.
        #[serde(other)]
        Inconclusive = "inconclusive",
    }
    /// Verdict of a metric.
    MetricVerdict {
        /// It changed for the better.
        Improved = "improved",
        /// It is the same within [`MetricResult::within`].
        Unchanged = "unchanged",
        /// It changed for the worse.
        Regressed = "regressed",
        /// Neither can be decided.
        #[serde(other)]
        Inconclusive = "inconclusive",
    }
    /// Direction of an improvement.
    Better {
        /// Higher is better.
        Higher = "higher",
        /// Lower is better.
        #[serde(other)]
        Lower = "lower",
    }
    /// Effect of a difference between runs on the verdict.
    DifferenceEffect {
        /// The user accepted the difference.
        Accepted = "accepted",
        /// A regression counts, but no result is fine.
        CannotPass = "cannot-pass",
        /// No verdict is possible.
        #[serde(other)]
        Blocks = "blocks",
    }
}

impl Better {
    /// Returns 1 if more is worse, −1 if less is worse.
    pub fn worse_sign(self) -> f64 {
        match self {
            Self::Lower => 1.0,
            Self::Higher => -1.0,
        }
    }
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Version of the document: [`COMPARISON_VERSION`].
    pub version: u32,
    /// Name and version of the program.
    pub tool: Tool,
    /// Verdict of the comparison.
    pub verdict: Verdict,
    /// Exit status of the verdict: 0 if fine, 1 if regressed, 3 if inconclusive. The user can choose 0 or 1 for an
    /// inconclusive result instead.
    pub exit_status: u8,
    /// Result in one sentence.
    pub headline: String,
    /// Reasons why the comparison is inconclusive; empty otherwise.
    pub reasons: Vec<String>,
    /// Limitations that the reader should know. They do not change the verdict.
    pub cautions: Vec<String>,
    /// Base side: the runs to compare with.
    pub base: SideSummary,
    /// New side: the runs to judge.
    pub new: SideSummary,
    /// Method of the decision.
    pub method: Method,
    /// Smallest change of each gated metric that this comparison detects in 95 % of cases.
    pub detectable: Vec<Detectable>,
    /// Gates: the declared limits. Only they decide the verdict.
    pub gates: Vec<GateResult>,
    /// All metrics that both sides have. Declared metrics come first, then the others by certainty and size of their
    /// change.
    pub metrics: Vec<MetricResult>,
    /// Metrics that cannot be compared, with the reasons.
    pub not_compared: Vec<NotCompared>,
    /// Attribution of the change of the step time to its parts.
    pub attribution: Attribution,
    /// Changes in the behaviour of the program, its ranks and its findings, the most important first.
    pub changes: Vec<Change>,
    /// Differences between the runs that affect whether they may be compared.
    pub differences: Vec<Difference>,
}

/// One side of the comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SideSummary {
    /// Label of the side, such as `branch main, commit 3f2a91c, machine a100`. `null` if only directories were given.
    #[serde(default)]
    pub label: Option<String>,
    /// Runs of the side, ordered by time.
    pub runs: Vec<RunUsed>,
    /// Number of batches of runs. More than an hour passes between two batches.
    pub batches: u32,
}

/// Run of a side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunUsed {
    /// Identity of the run.
    #[serde(flatten)]
    pub name: RunName,
    /// Index of the run's batch, from 0.
    pub batch: u32,
    /// True if the run is part of the means. A run of an earlier batch may serve only to estimate the noise.
    pub is_compared: bool,
    /// True if the run comes from a baseline. A baseline stores only a summary of a few kilobytes, so the directory of
    /// the run may no longer exist.
    #[serde(default)]
    pub is_stored: bool,
    /// Number of counted steps.
    pub steps: u64,
    /// Number of steps that were left out as warm-up.
    pub warm_up: u64,
    /// Number of counted steps that are outliers.
    pub outliers: u64,
    /// Percentiles of the step time, in nanoseconds; `null` without steps.
    pub step_time: Option<StepQuantiles>,
    /// Longest steps of the run, the longest first; empty for a stored run.
    pub worst_steps: Vec<WorstStep>,
}

/// Percentiles over steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepQuantiles {
    /// Minimum.
    pub min: f64,
    /// 5th percentile.
    pub p5: f64,
    /// Lower quartile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Upper quartile.
    pub p75: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Maximum.
    pub max: f64,
}

impl From<[f64; 7]> for StepQuantiles {
    fn from([min, p5, p25, p50, p75, p95, max]: [f64; 7]) -> Self {
        Self {
            min,
            p5,
            p25,
            p50,
            p75,
            p95,
            max,
        }
    }
}

/// One of the longest steps of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorstStep {
    /// Number of the step.
    pub step: u64,
    /// Earliest start over ranks, in nanoseconds on the session's axis.
    pub start_ns: i64,
    /// Latest end over ranks, in nanoseconds on the session's axis.
    pub end_ns: i64,
}

/// Method of the decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Method {
    /// Unit that varies independently:
    ///
    /// - `runs`: single runs
    /// - `batches`: batches of runs, because base and new were not recorded in turns
    /// - `blocks`: blocks of the steps of one run, and the stored noise between runs
    /// - `none`: one run per side, and the noise is unknown
    pub unit: String,
    /// True if base and new runs were recorded in turns, so that a drift of the machine affects both.
    pub is_interleaved: bool,
    /// Degrees of freedom of the noise of the step time; unknown if the noise is unknown.
    pub degrees_of_freedom: Figure<f64>,
    /// Maximum probability that any gate fails although nothing changed.
    pub family_alpha: f64,
    /// Maximum probability that one gate fails although nothing changed: `family_alpha` / number of gates (Bonferroni).
    pub gate_alpha: f64,
    /// Maximum probability that a gate passes although the change is at its limit.
    pub pass_alpha: f64,
    /// Expected share of false positives among the other metrics that are reported as changed (Benjamini–Hochberg).
    pub false_discovery_rate: f64,
    /// Confidence of the intervals of metrics without a gate.
    pub confidence: f64,
    /// Margin as a share of the value. A metric is unchanged if the interval shows that the change is within the
    /// margin.
    pub margin: f64,
    /// Rule by which the first steps are left out as warm-up.
    pub warm_up_rule: String,
    /// Rule by which steps are outliers.
    pub outlier_rule: String,
    /// Effect of the outliers on the step time; unknown without steps.
    pub outlier_effect: Figure<OutlierEffect>,
    /// Method by which the noise was estimated, in one sentence.
    pub noise: String,
}

/// Step time with and without outliers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutlierEffect {
    /// Number of outliers among the counted steps of the base runs.
    pub base_outliers: u64,
    /// Number of outliers among the counted steps of the new runs.
    pub new_outliers: u64,
    /// Change of the step time over all counted steps, as a share of the base.
    pub change_with: f64,
    /// Change of the step time without outliers, as a share of the base.
    pub change_without: f64,
}

/// Smallest change that the comparison detects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detectable {
    /// Metric with its subject.
    pub metric: String,
    /// Size of the change, in the metric's unit. A change for the worse of this size is reported as a regression in 95
    /// % of cases.
    pub change: Figure<f64>,
    /// Size of the change as a share of the base; unknown if the base is 0.
    pub relative: Figure<f64>,
}

/// Result of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateResult {
    /// Rule as the user wrote it, such as `step_time>+2%`.
    pub rule: String,
    /// Metric with its subject.
    pub metric: String,
    /// Maximum allowed change for the worse, in the metric's unit. It is positive for both directions of improvement.
    /// Unknown without a base.
    pub limit: Figure<f64>,
    /// Largest change for the worse that a one-sided test at 5 % does not exclude, in the metric's unit. Positive is
    /// worse, as in `limit`. The gate passes if the value is at most the limit. Unknown without noise.
    #[serde(default = "at_most_was_not_kept")]
    pub at_most: Figure<f64>,
    /// Verdict of the gate.
    pub verdict: GateVerdict,
    /// Reason of the verdict, in one sentence.
    pub reason: String,
    /// Number of runs per side that would decide the gate if the estimates stay the same. They are batches if
    /// [`Method::unit`] says so. `null` if the gate is decided, or if no number would decide it.
    pub runs_needed: Option<u32>,
}

fn at_most_was_not_kept() -> Figure<f64> {
    Figure::unknown("an older rankscope did not keep it")
}

/// Interval between two values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Result for one metric of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricResult {
    /// Name of the metric.
    pub metric: String,
    /// Subject of the metric, if there are several.
    pub subject: Option<String>,
    /// Meaning of the metric, in words.
    pub meaning: String,
    /// Unit of all values: `ns`, `bytes/s`, `bytes`, `share`, `count`.
    pub unit: String,
    /// Direction of an improvement.
    pub better: Better,
    /// True if the metric has a gate.
    pub is_declared: bool,
    /// Mean over the base runs.
    pub base: f64,
    /// Mean over the new runs.
    pub new: f64,
    /// `new` − `base`.
    pub change: f64,
    /// `change` as a share of the base; `null` if the base is 0.
    pub relative: Option<f64>,
    /// Confidence interval of the change; `null` if the noise is unknown.
    pub interval: Option<Interval>,
    /// Probability of a change at least this large in either direction if nothing changed; `null` if the noise is
    /// unknown.
    pub p_value: Option<f64>,
    /// Change without the outlier steps.
    pub change_without_outliers: f64,
    /// Verdict of the metric.
    pub verdict: MetricVerdict,
    /// For `unchanged`: the change is within this share of the smaller value.
    pub within: Option<f64>,
    /// For `inconclusive`: number of runs (or batches) per side that would decide. `null` if it exceeds 1000.
    pub runs_needed: Option<u32>,
    /// Value of each compared base run.
    pub base_runs: Vec<f64>,
    /// Value of each new run.
    pub new_runs: Vec<f64>,
}

impl MetricResult {
    /// Returns metric and subject as displayed: `busbw[all-reduce 1-2 MiB world inside-host]`.
    pub fn full_name(&self) -> String {
        full_name(&self.metric, self.subject.as_deref())
    }
}

/// Metric that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotCompared {
    /// Metric with its subject.
    pub metric: String,
    /// Reason.
    pub reason: String,
}

/// Change of the mean step, attributed to its parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    /// Reason why there is no attribution; `null` if there is one.
    pub reason: Option<String>,
    /// Step time of the mean rank in the base runs, in nanoseconds.
    pub base_step_ns: i64,
    /// Step time of the mean rank in the new runs, in nanoseconds.
    pub new_step_ns: i64,
    /// Change of the step time, in nanoseconds. It is exactly the sum of the changes of the parts.
    pub change_ns: i64,
    /// Changes of the parts of METRICS.md, section 5.
    pub parts: Vec<PartChange>,
    /// Changes per rank.
    pub ranks: Vec<RankChange>,
}

/// Change of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartChange {
    /// Name of the part: `host`, `compute-only`, `overlapped`, `exposed-wait`, `exposed-transfer`, `exposed-memory`,
    /// `other-blocked` or `idle`.
    pub part: String,
    /// Time in the mean step of the base, in nanoseconds.
    pub base_ns: i64,
    /// Time in the mean step of the new runs, in nanoseconds.
    pub new_ns: i64,
    /// `new_ns` − `base_ns`, in nanoseconds.
    pub change_ns: i64,
}

/// Change of the step of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankChange {
    /// Number of the rank in its world.
    pub rank: u32,
    /// Host of the rank.
    pub host: String,
    /// Change of the rank's step time, in nanoseconds. It is exactly the sum of the changes of the parts.
    pub change_ns: i64,
    /// Change of each part, in nanoseconds, in the order of [`Attribution::parts`].
    pub parts_ns: Vec<i64>,
}

/// Something that is different in the new runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Kind of the change. Changes of the program are `operation-added`, `operation-removed`, `operation-count`,
    /// `operation-resized`, `operations-reordered` and `communicators`. Changes of times are `operation`,
    /// `operation-waits`, `kernel`, `copies`, `pause`, `idle`, `rank` and `host`, each followed by `-slower` or
    /// `-faster`. Others are `kernel-new`, `kernel-gone`, `finding-new`, `finding-gone` and `environment`.
    pub kind: String,
    /// Description in one sentence.
    pub text: String,
    /// Contribution to the change of the mean step, in nanoseconds; unknown if the change has no separate time.
    pub step_ns: Figure<f64>,
    /// True if the change is for the worse, false if it is for the better; `null` if this cannot be decided.
    pub is_worse: Option<bool>,
}

/// Difference between runs that should agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Property that differs: `kind`, `world-size`, `steps`, `operations`, `versions`, `hardware`, `sources`,
    /// `coverage`, `losses`, `crowded-host` or `rules`.
    pub what: String,
    /// Description in one sentence, with both values.
    pub text: String,
    /// Effect on the verdict.
    pub effect: DifferenceEffect,
}

/// Returns metric and subject as displayed.
pub fn full_name(metric: &str, subject: Option<&str>) -> String {
    subject.map_or_else(|| metric.to_owned(), |subject| format!("{metric}[{subject}]"))
}

/// Returns the schema of `rankscope compare --json`, in draft 2020-12.
pub fn comparison_schema() -> Json {
    let mut schema =
        schema_of::<Comparison>(&format!("rankscope compare --json, version {COMPARISON_VERSION}"));
    schema["properties"]["version"]["const"] = json!(COMPARISON_VERSION);
    schema
}
