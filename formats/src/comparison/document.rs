//! What a comparison says: `rankscope compare --json`.

use super::{COMPARISON_VERSION, RunName};
use crate::session::{Figure, Tool, schema_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

/// Everything that a comparison says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// [`COMPARISON_VERSION`].
    pub version: u32,
    /// Name and version of the program.
    pub tool: Tool,
    /// `fine`, `regressed` or `inconclusive`.
    pub verdict: String,
    /// The exit status that says the same: 0, 1 or 3; 0 or 1 for what is inconclusive where that was asked for.
    pub exit_status: u8,
    /// The result in one sentence.
    pub headline: String,
    /// Why it is inconclusive; empty otherwise.
    pub reasons: Vec<String>,
    /// What to keep in mind; nothing here changes the verdict.
    pub cautions: Vec<String>,
    /// What is compared with.
    pub base: SideSummary,
    /// What is judged.
    pub new: SideSummary,
    /// How it was decided.
    pub method: Method,
    /// The smallest change of each gated metric that this comparison finds in 95 % of cases.
    pub detectable: Vec<Detectable>,
    /// What was declared to fail on; these alone decide the verdict.
    pub gates: Vec<GateResult>,
    /// Every metric that both sides have: the declared ones first, then by how sure and how large the change is.
    pub metrics: Vec<MetricResult>,
    /// Metrics that cannot be compared, and why.
    pub not_compared: Vec<NotCompared>,
    /// Why the step time changed.
    pub attribution: Attribution,
    /// What the program, its ranks and its findings do otherwise, the most telling first.
    pub changes: Vec<Change>,
    /// Differences between the runs that bear on whether they may be compared.
    pub differences: Vec<Difference>,
}

/// One side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SideSummary {
    /// What people call it, where that is known: `branch main, commit 3f2a91c, machine a100`; `null` where only directories were given.
    #[serde(default)]
    pub label: Option<String>,
    /// Its runs in order of time.
    pub runs: Vec<RunUsed>,
    /// Batches of runs: more than an hour lies between two.
    pub batches: u32,
}

/// A run of a side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunUsed {
    /// The run.
    #[serde(flatten)]
    pub name: RunName,
    /// Its batch, from 0.
    pub batch: u32,
    /// It is in the means. A run of an earlier batch may serve to know the noise alone.
    pub is_compared: bool,
    /// It is of a baseline, which keeps a summary of some kilobytes: its directory may be gone.
    #[serde(default)]
    pub is_stored: bool,
    /// Steps that count.
    pub steps: u64,
    /// Steps that were left out as warm-up.
    pub warm_up: u64,
    /// Counted steps that are outliers.
    pub outliers: u64,
    /// Percentiles of its step time, ns; `null` without steps.
    pub step_time: Option<StepQuantiles>,
    /// Its longest steps, the longest first; empty for a stored run.
    pub worst_steps: Vec<WorstStep>,
}

/// Percentiles over steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepQuantiles {
    /// Shortest.
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
    /// Longest.
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

/// A long step, to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorstStep {
    /// Its number.
    pub step: u64,
    /// Earliest start over ranks, ns on the session's axis.
    pub start_ns: i64,
    /// Latest end over ranks, ns on the session's axis.
    pub end_ns: i64,
}

/// How it was decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Method {
    /// What varies independently: `runs`, `batches` (of runs, where base and new were not recorded in turns), `blocks` (of the steps
    /// of one run, and the stored noise between runs), or `none` (one run a side, no noise known).
    pub unit: String,
    /// Base and new were recorded in turns, so that a drift of the machine reaches both.
    pub is_interleaved: bool,
    /// Degrees of freedom of the noise of step time; unknown where no noise is known.
    pub degrees_of_freedom: Figure<f64>,
    /// Highest probability that any gate fails although nothing changed.
    pub family_alpha: f64,
    /// The same for each gate: the above divided by their number (Bonferroni).
    pub gate_alpha: f64,
    /// Highest probability that a gate passes although the change is at its limit.
    pub pass_alpha: f64,
    /// Expected share of false ones among the other metrics that are called changed (Benjamini–Hochberg).
    pub false_discovery_rate: f64,
    /// Confidence of the intervals of metrics that are not gated.
    pub confidence: f64,
    /// A change within this share of the value is called unchanged, where the interval shows it.
    pub margin: f64,
    /// The rule by which first steps are left out.
    pub warm_up_rule: String,
    /// The rule by which steps are outliers.
    pub outlier_rule: String,
    /// What the outliers do to the step time; unknown without steps.
    pub outlier_effect: Figure<OutlierEffect>,
    /// How the noise was estimated, in a sentence.
    pub noise: String,
}

/// The step time with and without outliers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutlierEffect {
    /// Outliers among the counted steps of the base.
    pub base_outliers: u64,
    /// Among those of the new runs.
    pub new_outliers: u64,
    /// Change of the step time with all counted steps, as a share of the base.
    pub change_with: f64,
    /// The same without outliers.
    pub change_without: f64,
}

/// The smallest change that is found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detectable {
    /// Metric, with its subject.
    pub metric: String,
    /// A change for the worse of this size is called a regression in 95 % of cases, in the metric's unit; unknown with the reason.
    pub change: Figure<f64>,
    /// The same as a share of the base; unknown where the base is 0.
    pub relative: Figure<f64>,
}

/// What became of a declared limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateResult {
    /// As written: `step_time>+2%`.
    pub rule: String,
    /// Metric, with its subject.
    pub metric: String,
    /// The largest change for the worse that is allowed, in the metric's unit; positive whichever direction is better. Unknown
    /// without a base.
    pub limit: Figure<f64>,
    /// The largest change for the worse that is not excluded at a one-sided 5 %, in the metric's unit; positive is worse, as in
    /// `limit`. The gate passes if this is at most the limit. Unknown without noise.
    #[serde(default = "at_most_was_not_kept")]
    pub at_most: Figure<f64>,
    /// `pass`, `fail` or `inconclusive`.
    pub verdict: String,
    /// Why, in a sentence.
    pub reason: String,
    /// Runs a side (batches, where [`Method::unit`] says so) that would decide, if the estimates stay what they are; `null` if it is decided or no number would.
    pub runs_needed: Option<u32>,
}

fn at_most_was_not_kept() -> Figure<f64> {
    Figure::unknown("an older rankscope did not keep it")
}

/// From one value to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// One metric of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricResult {
    /// Which.
    pub metric: String,
    /// Of what, where there are several.
    pub subject: Option<String>,
    /// What it means, in words.
    pub meaning: String,
    /// Unit of all values: `ns`, `bytes/s`, `bytes`, `share`, `count`.
    pub unit: String,
    /// Which direction is better: `lower` or `higher`.
    pub better: String,
    /// It is among the gates.
    pub is_declared: bool,
    /// Mean over the base's runs.
    pub base: f64,
    /// Mean over the new runs.
    pub new: f64,
    /// `new` − `base`.
    pub change: f64,
    /// The same as a share of the base; `null` where that is 0.
    pub relative: Option<f64>,
    /// Interval of the change; `null` where no noise is known.
    pub interval: Option<Interval>,
    /// Probability of a change as large, either way, if there were none; `null` where no noise is known.
    pub p_value: Option<f64>,
    /// The change without the steps that are outliers.
    pub change_without_outliers: f64,
    /// `improved`, `unchanged`, `regressed` or `inconclusive`.
    pub verdict: String,
    /// Of `unchanged`: within this share of the smaller value.
    pub within: Option<f64>,
    /// Of `inconclusive`: runs (or batches) a side that would decide; `null` if more than a thousand.
    pub runs_needed: Option<u32>,
    /// Value of each base run that is compared.
    pub base_runs: Vec<f64>,
    /// Value of each new run.
    pub new_runs: Vec<f64>,
}

impl MetricResult {
    /// Metric and subject as people write them: `busbw[all-reduce 1-2 MiB world inside-host]`.
    pub fn full_name(&self) -> String {
        full_name(&self.metric, self.subject.as_deref())
    }
}

/// A metric that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotCompared {
    /// Metric, with its subject.
    pub metric: String,
    /// Why.
    pub reason: String,
}

/// The change of the mean step, by its parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    /// Why there is none; `null` if there is.
    pub reason: Option<String>,
    /// Step time of the base by the mean rank, ns.
    pub base_step_ns: i64,
    /// Step time of the new runs by the mean rank, ns.
    pub new_step_ns: i64,
    /// Change of the step time, ns: exactly the sum of the parts' changes.
    pub change_ns: i64,
    /// The parts of METRICS.md, section 5.
    pub parts: Vec<PartChange>,
    /// The same for each rank.
    pub ranks: Vec<RankChange>,
}

/// The change of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartChange {
    /// Its name: `host`, `compute-only`, `overlapped`, `exposed-wait`, `exposed-transfer`, `exposed-memory`, `other-blocked`, `idle`.
    pub part: String,
    /// In the base's mean step, ns.
    pub base_ns: i64,
    /// In the new runs' mean step, ns.
    pub new_ns: i64,
    /// `new_ns` − `base_ns`.
    pub change_ns: i64,
}

/// The change of one rank's step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankChange {
    /// Its number in its world.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Change of its step time, ns: exactly the sum of the parts' changes.
    pub change_ns: i64,
    /// Change of each part, ns, in the order of [`Attribution::parts`].
    pub parts_ns: Vec<i64>,
}

/// Something that is otherwise in the new runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// `operation-added`, `operation-removed`, `operation-count`, `operation-resized`, `operations-reordered`, `communicators`,
    /// `operation-slower`, `operation-waits`, `kernel-slower`, `kernel-new`, `kernel-gone`, `rank-slower`, `host-slower`,
    /// `pause`, `finding-new`, `finding-gone`, `environment`; and `…-faster` for the better ones.
    pub kind: String,
    /// In a sentence.
    pub text: String,
    /// How much of the mean step it accounts for, ns; unknown for what has no time of its own.
    pub step_ns: Figure<f64>,
    /// It is for the worse (`true`), for the better (`false`), or neither can be said (`null`).
    pub is_worse: Option<bool>,
}

/// A difference between runs that should be alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// What differs: `kind`, `world-size`, `steps`, `operations`, `versions`, `hardware`, `sources`, `coverage`, `losses`, `crowded-host`, `rules`.
    pub what: String,
    /// In a sentence, with both values.
    pub text: String,
    /// `blocks` (no verdict can be given), `cannot-pass` (a regression is one, but no result is fine) or `accepted` (by the user).
    pub effect: String,
}

/// Metric and subject as people write them.
pub fn full_name(metric: &str, subject: Option<&str>) -> String {
    subject.map_or_else(|| metric.to_owned(), |subject| format!("{metric}[{subject}]"))
}

/// The schema of `rankscope compare --json`, of draft 2020-12.
pub fn comparison_schema() -> Json {
    let mut schema =
        schema_of::<Comparison>(&format!("rankscope compare --json, version {COMPARISON_VERSION}"));
    schema["properties"]["version"]["const"] = json!(COMPARISON_VERSION);
    schema
}
