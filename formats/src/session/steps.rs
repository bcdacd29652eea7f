//! Steps, and the parts of each rank's time (METRICS.md, sections 5 and 7).

#[cfg(doc)]
use super::Session;
use super::figure::{Figure, Quantiles, Ratio};
use super::pauses::Counted;
use crate::vocabulary::vocabulary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Steps of the job (METRICS.md, section 7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steps {
    /// Source of the steps: `marks`, `pattern`, `pattern-with-sizes` or `none`.
    pub source: String,
    /// The repeating sequence, for display.
    pub pattern: Option<String>,
    /// Share of the reference rank's operations that the pattern explains. Below 0.9 there are no steps.
    pub confidence: Figure<f64>,
    /// Explained operations and all operations: the numbers of `confidence`.
    pub explained_operations: Figure<Ratio>,
    /// Number of whole training steps that all ranks of their world have. All figures of steps refer to them.
    pub count: u64,
    /// Number of whole steps that are mostly evaluation, or mostly the writing or reading of a checkpoint.
    #[serde(default)]
    pub other_kinds: u64,
    /// Tokens or samples that the program counts in the steps; empty if it counts nothing.
    #[serde(default)]
    pub counted: Vec<Counted>,
    /// Step time over all ranks and steps, in nanoseconds.
    pub duration_ns: Figure<Quantiles>,
    /// Median step time, in nanoseconds.
    pub median_ns: Figure<i64>,
    /// Number of steps per entry of `list`: 1 unless the run is long.
    pub steps_per_entry: u32,
    /// One entry per step, or per group of steps in a long run.
    pub list: Vec<StepSummary>,
}

/// One step over all ranks, or the means of a group of steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepSummary {
    /// Index into [`Session::worlds`].
    pub world: u32,
    /// First step of the entry.
    pub step: u64,
    /// Number of steps in the entry.
    pub steps: u32,
    /// Earliest start over ranks of the first step, in nanoseconds on the axis.
    pub start_ns: i64,
    /// Latest end over ranks of the last step, in nanoseconds on the axis.
    pub end_ns: i64,
    /// Longest step time over ranks, as the mean over the entry's steps, in nanoseconds.
    pub duration_ns: i64,
    /// Σ exposed wait over ranks, as the mean over the entry's steps, in rank-nanoseconds.
    pub exposed_wait_rank_ns: i64,
    /// Rank that most often has the largest own delay in the entry's steps.
    pub latest_rank: Option<u32>,
    /// Own delay of that rank, as the mean over the entry's steps, in nanoseconds.
    pub latest_delay_ns: Option<i64>,
}

vocabulary! {
    /// Window of the parts of a rank's time.
    Window {
        /// All whole steps.
        Steps = "steps",
        /// First to last record.
        #[serde(other)]
        Run = "run",
    }
}

/// Breakdown of one rank's time (METRICS.md, section 5, host-only ranks). Host time, exposed communication and other
/// blocked time add up to the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankBreakdown {
    /// Index into [`Session::ranks`].
    pub rank: u32,
    /// Window of the parts.
    pub window: Window,
    /// Duration of the window, in nanoseconds.
    pub window_ns: i64,
    /// Number of steps in the window.
    pub steps: u64,
    /// Host time: time in which the training thread was not blocked for communication, in nanoseconds.
    pub host_ns: i64,
    /// Exposed communication: time blocked while operations ran, in nanoseconds.
    pub exposed_communication_ns: i64,
    /// Time blocked while no operation ran, such as queueing and bookkeeping, in nanoseconds.
    pub other_blocked_ns: i64,
    /// Communication at library level, overlapped or not, in nanoseconds.
    pub communication_ns: i64,
    /// Part of the exposed communication that is waiting for peers, in nanoseconds. The rest is transfer.
    pub exposed_wait_ns: i64,
    /// Waiting for peers while the program computed, in nanoseconds.
    pub hidden_wait_ns: i64,
    /// Time from issue to enter, as a union over operations, in nanoseconds; unknown if nothing is queued.
    pub queued_ns: Figure<i64>,
    /// Overlap: the share of communication that computation hides. Both numbers are in nanoseconds. A missing value,
    /// displayed as "–", has a reason.
    pub overlap: Figure<Ratio>,
    /// Number of operations that were put on a device's stream and whose completion time is unknown. Host time,
    /// communication and waiting exclude them.
    pub operations_without_times: u64,
    /// Number of operations whose times come from a device. Their overlap cannot be computed without the other kernels
    /// of the device. The figures here exclude them.
    pub operations_on_device: u64,
    /// Completed operations with a recorded wait or test on an issuing thread, and all completed operations.
    pub operations_with_wait_seen: Figure<Ratio>,
    /// Number of training threads: threads that issued operations. With several, blocked time is that of the thread
    /// that was blocked most.
    pub training_threads: u32,
    /// False if the parts do not add up to the window. This is a bug; it is reported, with exit code 3.
    pub adds_up: bool,
}

impl RankBreakdown {
    /// Returns true if these parts exclude some communication. Their figures of communication are then incomplete.
    pub fn leaves_out(&self) -> bool {
        self.operations_without_times + self.operations_on_device > 0
    }
}
