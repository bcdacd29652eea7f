//! What is kept of one run so that it can be compared with others.

use crate::session::{Figure, Surrounding, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One run: means over its counted steps, and what it must have in common with a run that it is compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunSummary {
    /// Who made this summary.
    pub tool: Tool,
    /// Which run it is.
    pub run: RunName,
    /// What was recorded: `host`, `nccl` (operations of devices, no kernels), `device` (kernels too), or the profiler that an
    /// import is from: `kineto`, `nsys`.
    pub kind: String,
    /// Hardware, versions, environment.
    pub surroundings: Vec<Surrounding>,
    /// Ranks and hosts.
    pub world: WorldOfRun,
    /// Which steps count.
    pub steps: StepsUsed,
    /// Names of the parts of a step (METRICS.md, section 5), in the order of [`RankOfRun::parts_ns`]. They add up to the step.
    pub parts: Vec<String>,
    /// Ranks of the compared world, in the order of their numbers.
    pub ranks: Vec<RankOfRun>,
    /// Every metric of the run.
    pub metrics: Vec<Measured>,
    /// Operations of a step, by class.
    pub operations: Vec<OperationOfRun>,
    /// Communicators by role, scope and size.
    pub communicators: Vec<CommunicatorsOfRun>,
    /// Findings of the run's report.
    pub findings: Vec<FindingOfRun>,
}

/// Which run a summary is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunName {
    /// Hash of what no other run has: the moment and the identities of its communicators and processes. The same run has the same
    /// one wherever its files are.
    pub id: String,
    /// The directory, as given.
    pub directory: String,
    /// When its first record was written, ns since 1970, by the clock of its host.
    pub started_unix_ns: i64,
    /// From first to last record, ns.
    pub duration_ns: i64,
}

/// Ranks and hosts of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorldOfRun {
    /// Worlds in the run; the one with the most steps is compared.
    pub worlds: u32,
    /// Ranks that the compared world has.
    pub size: u32,
    /// Those of them that were recorded.
    pub ranks_seen: u32,
    /// Hosts of the run, by name.
    pub hosts: Vec<String>,
    /// Hosts with more ranks than processors.
    pub crowded_hosts: u32,
    /// Records read.
    pub records: u64,
    /// Records that were lost.
    pub lost: u64,
    /// Operations that failed.
    pub failed: u64,
}

/// Which steps of a run count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepsUsed {
    /// How steps are known: `marks`, `pattern`, `pattern-with-sizes`, `none`.
    pub source: String,
    /// Why there are none; `null` if there are.
    pub reason: Option<String>,
    /// Training steps that all ranks have.
    pub train: u64,
    /// Steps that some ranks lack, that ranks call by different kinds, or of which not all was recorded: they do not count.
    #[serde(default)]
    pub partial: u64,
    /// Steps that mostly evaluate.
    pub evaluate: u64,
    /// Steps that mostly write or read a checkpoint.
    pub checkpoint: u64,
    /// The rule by which the first training steps are left out.
    pub warm_up_rule: String,
    /// Training steps that it left out.
    pub warm_up: u64,
    /// Training steps that count.
    pub counted: u64,
    /// The rule by which steps are outliers.
    pub outlier_rule: String,
    /// Counted steps that are outliers.
    pub outliers: u64,
    /// Hash of the sequence of operations that most counted steps have; `null` if no two steps have the same.
    pub sequence: Option<String>,
}

/// One rank of a run: sums over its counted steps, so that parts add up exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankOfRun {
    /// Its number in its world; its position where the number is not known.
    pub number: u32,
    /// Its host: position in [`WorldOfRun::hosts`].
    pub host: u32,
    /// Counted steps.
    pub steps: u64,
    /// Sum of each part over these steps, ns; see [`RunSummary::parts`].
    pub parts_ns: Vec<i64>,
}

/// One metric of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Which, for example `step_time`; `rankscope compare --metrics` lists them all.
    pub metric: String,
    /// Of what, where there are several: an operation class, a kernel, a rank, a cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Its value, or why there is none.
    pub value: Figure<Value>,
    /// 0th, 5th, 25th, 50th, 75th, 95th and 100th percentile over the counted steps, where the metric has a value for each step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantiles: Option<[f64; 7]>,
}

/// The value of a metric in one run, in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    /// Over all counted steps.
    pub all: Mean,
    /// Without the steps that are outliers.
    pub without_outliers: Mean,
}

/// A mean, and how exactly one run can know it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Variance of the mean inside the run, by the means of blocks of consecutive steps (neighbouring steps resemble each other);
    /// `null` with fewer than four blocks.
    pub variance: Option<f64>,
    /// Blocks.
    pub blocks: u32,
}

/// Operations of one class in the counted steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationOfRun {
    /// The class, for people: the subject of its metrics.
    pub class: String,
    /// Operation.
    pub operation: String,
    /// Role of the communicators.
    pub role: String,
    /// Scope of the communicators.
    pub scope: String,
    /// Smallest payload of the class, bytes; `null` where sizes are unknown.
    pub size_from_bytes: Option<u64>,
    /// Instances, by the mean step.
    pub instances_per_step: f64,
    /// Payload of these, by the mean step, bytes.
    pub bytes_per_step: f64,
}

/// Communicators that are alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CommunicatorsOfRun {
    /// Library.
    pub library: String,
    /// Role.
    pub role: String,
    /// Scope.
    pub scope: String,
    /// Members of each.
    pub size: u32,
    /// How many.
    pub count: u32,
}

/// A finding of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingOfRun {
    /// Kind: see `rankscope rules`.
    pub kind: String,
    /// Who or what it is about.
    pub subject: Option<String>,
    /// The sentence.
    pub title: String,
    /// `critical`, `warning` or `note`.
    pub severity: String,
    /// Its cost as a share of the median step, where that is known.
    pub cost_of_step: Option<f64>,
}

impl Mean {
    /// The same in another unit.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            variance: self.variance.map(|variance| variance * factor * factor),
            blocks: self.blocks,
        }
    }
}

impl Value {
    /// Of something that a run has once: neither its steps nor their blocks say how exact it is.
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

    /// The same in another unit.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            all: self.all.scaled(factor),
            without_outliers: self.without_outliers.scaled(factor),
        }
    }
}

impl RunSummary {
    /// A metric, by its name and subject.
    pub fn measured(&self, metric: &str, subject: Option<&str>) -> Option<&Measured> {
        self.metrics
            .iter()
            .find(|measured| measured.metric == metric && measured.subject.as_deref() == subject)
    }
}
