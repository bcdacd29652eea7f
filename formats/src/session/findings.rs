//! Findings and the scorecard (METRICS.md, sections 8 and 9).

#[cfg(doc)]
use super::Session;
use super::figure::{Figure, Ratio};
use super::waits::Lateness;
use crate::vocabulary::vocabulary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

vocabulary! {
    /// Severity of a finding. The most severe one is the least value.
    Severity {
        /// The run failed, hangs, or loses a large part of its time.
        Critical = "critical",
        /// The run loses time, or its figures are limited.
        Warning = "warning",
        /// Worth knowing; nothing is lost.
        Note = "note",
        /// A severity that this version does not know.
        #[serde(other)]
        Unknown = "unknown",
    }
}

/// Finding about the run. `rankscope rules` prints the meaning of each kind, its condition, and when it stays silent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Rule that fired, such as `late-rank` or `small-buckets`. `rankscope rules` lists all of them.
    pub kind: String,
    /// Severity, which orders the findings.
    pub severity: Severity,
    /// Subject for the first sentence of a report, such as `rank 3` or `host b`.
    #[serde(default)]
    pub subject: Option<String>,
    /// Title: one sentence with numbers and units.
    pub title: String,
    /// Evidence, one sentence each.
    pub evidence: Vec<String>,
    /// Probable cause; `null` if unknown.
    #[serde(default)]
    pub cause: Option<String>,
    /// Advice; `null` if there is none.
    pub advice: Option<String>,
    /// Conditions that were checked, in order. All of them hold.
    #[serde(default)]
    pub path: Vec<Condition>,
    /// Affected ranks: indices into [`Session::ranks`].
    pub ranks: Vec<u32>,
    /// Affected hosts: indices into [`Session::hosts`].
    #[serde(default)]
    pub hosts: Vec<u32>,
    /// Time spans to inspect in the trace, the most significant first; at most [`Finding::MAX_TO_LOOK_AT`].
    #[serde(default)]
    pub look_at: Vec<LookAt>,
    /// Cost in the job's time, in nanoseconds; unknown if it cannot be determined.
    pub cost_ns: Figure<i64>,
    /// Formula of the cost; `null` if the cost is unknown.
    #[serde(default)]
    pub cost_basis: Option<String>,
    /// Parts of the job's time that contain the cost: `waiting`, `transfer`, `host`, `device-idle` or `outside-steps`.
    #[serde(default)]
    pub lies_in: Vec<String>,
    /// Part of the cost that the findings of `shared_with` may contain too, in nanoseconds. Findings are ordered by the
    /// rest, so that no second counts twice.
    #[serde(default)]
    pub shared_ns: i64,
    /// Kinds of the findings that may contain the shared part too.
    #[serde(default)]
    pub shared_with: Vec<String>,
    /// Cost per step as a share of the mean step, both in nanoseconds; at most 1. Both are means, because a cost
    /// includes the few long steps, too.
    pub cost_of_step: Figure<Ratio>,
    /// Cost as a share of the run, both in nanoseconds.
    #[serde(default = "no_cost")]
    pub cost_of_run: Figure<Ratio>,
    /// Details of a finding about lateness.
    pub lateness: Option<Lateness>,
}

fn no_cost() -> Figure<Ratio> {
    Figure::unknown(Finding::NO_COST)
}

impl Finding {
    /// Maximum number of time spans to inspect.
    pub const MAX_TO_LOOK_AT: usize = 3;
    /// Reason why most findings without a cost have none.
    pub const NO_COST: &str = "this finding has no cost of its own";

    /// Creates a finding with default values for everything else.
    pub fn new(kind: &str, severity: Severity, title: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            severity,
            subject: None,
            title: title.into(),
            evidence: Vec::new(),
            cause: None,
            advice: None,
            path: Vec::new(),
            ranks: Vec::new(),
            hosts: Vec::new(),
            look_at: Vec::new(),
            cost_ns: Figure::unknown(Self::NO_COST),
            cost_basis: None,
            lies_in: Vec::new(),
            shared_ns: 0,
            shared_with: Vec::new(),
            cost_of_step: Figure::unknown(Self::NO_COST),
            cost_of_run: Figure::unknown(Self::NO_COST),
            lateness: None,
        }
    }

    /// Returns the cost without the part that other findings may contain, in nanoseconds; 0 if the cost is unknown.
    pub fn own_cost_ns(&self) -> i64 {
        (self.cost_ns.value.unwrap_or(0) - self.shared_ns).max(0)
    }
}

/// Condition that was checked and holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// Checked quantity.
    pub what: String,
    /// Value of the quantity.
    pub value: f64,
    /// Comparison: `>=`, `>`, `<=`, `<` or `=`.
    pub is: String,
    /// Limit of the comparison.
    pub limit: f64,
    /// Unit of both numbers: `ns`, `%`, `bytes`, or empty for numbers without a unit.
    pub unit: String,
}

/// Time span to inspect in the trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LookAt {
    /// Short description of what happens there.
    pub what: String,
    /// Index into [`Session::ranks`], if a rank is concerned.
    pub rank: Option<u32>,
    /// Number of the instance in the table `instances`, if the time span is an instance.
    pub instance: Option<u64>,
    /// Step that contains the time span, if any.
    pub step: Option<u64>,
    /// Start, in nanoseconds on the axis.
    pub start_ns: i64,
    /// End, in nanoseconds on the axis.
    pub end_ns: i64,
}

/// Scorecard of a run (METRICS.md, section 9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scorecard {
    /// The four dimensions: `bandwidth`, `latency`, `balance` and `stability`.
    pub dimensions: Vec<Score>,
    /// Total by weights. If a dimension is unknown, the other weights are scaled to 100 %. A missing value, displayed
    /// as "–", has a reason.
    pub total: Figure<f64>,
    /// Total without the cap; unknown if it was not capped.
    pub uncapped: Figure<f64>,
    /// Kind of the finding that caps the total at 69. It does so while it costs more than 10 % of the run.
    pub capped_by: Option<String>,
    /// Grade: `excellent` (≥ 85), `good` (70–84) or `needs work` (< 70); `null` without a total.
    pub grade: Option<String>,
}

/// One dimension of a scorecard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// Name of the dimension.
    pub name: String,
    /// Score from 0 to 100. A missing value, displayed as "–", has a reason.
    pub score: Figure<f64>,
    /// Weight in METRICS.md, in percent.
    pub weight_percent: u32,
    /// Weight in this total, in percent; unknown if the dimension or the total is unknown.
    pub applied_percent: Figure<f64>,
    /// Numerator of the score's ratio, in `unit`; unknown if the score is unknown.
    pub numerator: Figure<f64>,
    /// Denominator of the score's ratio, in `unit`; unknown if the score is unknown.
    pub denominator: Figure<f64>,
    /// Unit of numerator and denominator: `ns` or `bytes`.
    pub unit: String,
    /// Definition of the ratio and of the score that follows from it, in one sentence with the figures.
    pub basis: String,
}
