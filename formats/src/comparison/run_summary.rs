//! Run summary: the data of one run that is kept so that it can be compared with others.

use crate::session::{Figure, Surrounding, Tool};
use crate::session::{Scope, Severity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Summary of one run: means over its counted steps, and the properties that it must share with a run that it is
/// compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunSummary {
    /// Name and version of the program that made the summary.
    pub tool: Tool,
    /// Identity of the run.
    pub run: RunName,
    /// Recorded data: `host`, `nccl` (operations on devices, but no kernels) or `device` (kernels too). For an imported
    /// run, the profiler that recorded it: `kineto` or `nsys`.
    pub kind: String,
    /// Hardware, versions and environment.
    pub surroundings: Vec<Surrounding>,
    /// Ranks and hosts.
    pub world: WorldOfRun,
    /// Steps that count.
    pub steps: StepsUsed,
    /// Names of the parts of a step (METRICS.md, section 5), in the order of [`RankOfRun::parts_ns`]. The parts add up
    /// to the step.
    pub parts: Vec<String>,
    /// Ranks of the compared world, in the order of their numbers.
    pub ranks: Vec<RankOfRun>,
    /// All metrics of the run.
    pub metrics: Vec<Measured>,
    /// Operations of a step, by class.
    pub operations: Vec<OperationOfRun>,
    /// Communicators by role, scope and size.
    pub communicators: Vec<CommunicatorsOfRun>,
    /// Findings of the run's report.
    pub findings: Vec<FindingOfRun>,
}

/// Identity of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunName {
    /// Hash of properties that no other run has: its start, and the identities of its communicators and processes. It
    /// does not depend on the location of the files.
    pub id: String,
    /// Directory of the run, as given.
    pub directory: String,
    /// Time of the first record, in nanoseconds since 1970, by the clock of its host.
    pub started_unix_ns: i64,
    /// Time from the first to the last record, in nanoseconds.
    pub duration_ns: i64,
}

/// Ranks and hosts of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorldOfRun {
    /// Number of worlds in the run. The world with the most training steps is compared.
    pub worlds: u32,
    /// Number of ranks of the compared world.
    pub size: u32,
    /// Number of these ranks that were recorded.
    pub ranks_seen: u32,
    /// Names of the run's hosts.
    pub hosts: Vec<String>,
    /// Number of hosts with more ranks than processors.
    pub crowded_hosts: u32,
    /// Number of records read.
    pub records: u64,
    /// Number of lost records.
    pub lost: u64,
    /// Number of failed operations.
    pub failed: u64,
}

/// Steps of a run that count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepsUsed {
    /// Source of the steps: `marks`, `pattern`, `pattern-with-sizes` or `none`.
    pub source: String,
    /// Reason why there are no steps; `null` if there are steps.
    pub reason: Option<String>,
    /// Number of training steps that all ranks have.
    pub train: u64,
    /// Number of steps that do not count because some ranks lack them, the ranks assign different kinds, or recording
    /// was incomplete.
    #[serde(default)]
    pub partial: u64,
    /// Number of evaluation steps.
    pub evaluate: u64,
    /// Number of steps that mostly write or read a checkpoint.
    pub checkpoint: u64,
    /// Rule by which the first training steps are left out as warm-up.
    pub warm_up_rule: String,
    /// Number of training steps that were left out as warm-up.
    pub warm_up: u64,
    /// Number of counted steps.
    pub counted: u64,
    /// Rule by which steps are outliers.
    pub outlier_rule: String,
    /// Number of counted steps that are outliers.
    pub outliers: u64,
    /// Hash of the sequence of operations that most counted steps have; `null` if no two steps have the same sequence.
    pub sequence: Option<String>,
}

/// One rank of a run. It has sums over the counted steps, so that the parts add up exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankOfRun {
    /// Number of the rank in its world; its index if the number is unknown.
    pub number: u32,
    /// Host of the rank: index into [`WorldOfRun::hosts`].
    pub host: u32,
    /// Number of counted steps.
    pub steps: u64,
    /// Sum of each part over the counted steps, in nanoseconds; see [`RunSummary::parts`].
    pub parts_ns: Vec<i64>,
}

/// One metric of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Name of the metric, such as `step_time`. `rankscope compare --metrics` lists all metrics.
    pub metric: String,
    /// Subject of the metric if there are several: an operation class, a kernel, a rank or a cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Value of the metric, or the reason why it is unknown.
    pub value: Figure<Value>,
    /// The 0th, 5th, 25th, 50th, 75th, 95th and 100th percentile over the counted steps. Absent if the metric has no
    /// value per step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantiles: Option<[f64; 7]>,
}

/// Value of a metric in one run, in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    /// Mean over all counted steps.
    pub all: Mean,
    /// Mean over the counted steps that are not outliers.
    pub without_outliers: Mean,
}

/// Mean, and its accuracy as far as one run can show it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Variance of the mean inside the run, from the means of blocks of consecutive steps, because neighbouring steps
    /// resemble each other. `null` with fewer than four blocks.
    pub variance: Option<f64>,
    /// Number of blocks.
    pub blocks: u32,
}

/// Operations of one class in the counted steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationOfRun {
    /// Operation class as displayed; it is also the subject of the class's metrics.
    pub class: String,
    /// Name of the operation.
    pub operation: String,
    /// Role of the communicators.
    pub role: String,
    /// Scope of the communicators.
    pub scope: Scope,
    /// Smallest payload of the class, in bytes; `null` if sizes are unknown.
    pub size_from_bytes: Option<u64>,
    /// Number of instances in the mean step.
    pub instances_per_step: f64,
    /// Payload of these instances in the mean step, in bytes.
    pub bytes_per_step: f64,
}

/// Communicators of the same library, role, scope and size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CommunicatorsOfRun {
    /// Library of the communicators.
    pub library: String,
    /// Role of the communicators.
    pub role: String,
    /// Scope of the communicators.
    pub scope: Scope,
    /// Number of members of each communicator.
    pub size: u32,
    /// Number of communicators.
    pub count: u32,
}

/// Finding of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingOfRun {
    /// Kind of the finding; see `rankscope rules`.
    pub kind: String,
    /// Subject of the finding, such as a rank or a host.
    pub subject: Option<String>,
    /// Title of the finding, one sentence.
    pub title: String,
    /// Severity: `critical`, `warning` or `note`.
    pub severity: Severity,
    /// Cost as a share of the median step; `null` if unknown.
    pub cost_of_step: Option<f64>,
}

impl Mean {
    /// Returns the mean in another unit.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            variance: self.variance.map(|variance| variance * factor * factor),
            blocks: self.blocks,
        }
    }
}

impl Value {
    /// Returns the value of something that a run has only once. Steps and blocks then show nothing about its accuracy.
    pub fn once(mean: f64) -> Self {
        let mean = Mean {
            mean,
            variance: None,
            blocks: 1,
        };
        Self {
            all: mean,
            without_outliers: mean,
        }
    }

    /// Returns the value in another unit.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            all: self.all.scaled(factor),
            without_outliers: self.without_outliers.scaled(factor),
        }
    }
}

impl RunSummary {
    /// Finds a metric by its name and subject.
    pub fn measured(&self, metric: &str, subject: Option<&str>) -> Option<&Measured> {
        self.metrics
            .iter()
            .find(|measured| measured.metric == metric && measured.subject.as_deref() == subject)
    }
}
