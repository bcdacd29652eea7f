//! Named parts of host time: work of the host that is neither communication nor, as a rule, training.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Named parts of the host time of all ranks (METRICS.md, section 5).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedTimes {
    /// Kinds that nothing names on any rank. Their duration is unknown.
    pub not_seen: Vec<NotSeen>,
    /// Ranks with at least one named part.
    pub ranks: Vec<NamedParts>,
}

/// A kind of host time that nothing names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotSeen {
    /// Kind of the time: see [`super::PauseKind`].
    pub kind: String,
    /// Missing source that would name this time.
    pub reason: String,
}

/// Named parts of one rank's host time. Each moment counts for one part only: the first one in the list that names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedParts {
    /// Index into [`super::Session::ranks`].
    pub rank: u32,
    /// Duration of all whole steps together, in nanoseconds.
    pub steps_ns: i64,
    /// Time in these steps in which the host thread is not blocked for communication, in nanoseconds. The parts are
    /// parts of this time.
    pub own_ns: i64,
    /// Time from the first to the last record, in nanoseconds.
    pub run_ns: i64,
    /// Kinds that something names on this rank. The duration of all other kinds is unknown here.
    pub parts: Vec<NamedPart>,
}

/// One kind of named time on one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedPart {
    /// Kind of the time: see [`super::PauseKind`].
    pub kind: String,
    /// Number of occurrences, on any thread of the host.
    pub count: u64,
    /// Duration in whole steps on the training threads, in nanoseconds.
    pub in_steps_ns: i64,
    /// Duration in the whole run on the training threads, in nanoseconds.
    pub in_run_ns: i64,
    /// Duration on other threads, such as background writes or prefetching, in nanoseconds. This time is no pause.
    pub elsewhere_ns: i64,
}

/// A quantity that the program counts, summed over whole training steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// Name of the quantity: `tokens` or `samples`.
    pub what: String,
    /// Source of the counts: `marks` of the program, or `stated` if the number was given to the report.
    pub source: String,
    /// Number over all ranks and whole steps.
    pub total: u64,
    /// Mean number per step.
    pub per_step: f64,
    /// Number per second of step time.
    pub per_second: f64,
    /// Step time of the mean rank per token or sample, in nanoseconds.
    pub ns_each: f64,
    /// Exposed communication of the mean rank per token or sample, in nanoseconds.
    pub exposed_communication_ns_each: f64,
}
