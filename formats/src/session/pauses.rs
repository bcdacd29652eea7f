//! Named parts of the host's own time: what it did that is neither communication nor, as a rule, training.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is named of the hosts' own time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedTimes {
    /// Kinds that nothing names on any rank: how long these took is not known.
    pub not_seen: Vec<NotSeen>,
    /// Ranks of which something is named.
    pub ranks: Vec<NamedParts>,
}

/// A kind of time that nothing names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotSeen {
    /// Which: see [`super::PauseKind`].
    pub kind: String,
    /// What would have to name it.
    pub reason: String,
}

/// The named parts of one rank's own time. Each moment counts for one part, the first of the list that names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedParts {
    /// Position in [`super::Session::ranks`].
    pub rank: u32,
    /// All whole steps together, ns.
    pub steps_ns: i64,
    /// Time of its host thread in them that is not blocked for communication, ns: what the parts are parts of.
    pub own_ns: i64,
    /// From first to last record, ns.
    pub run_ns: i64,
    /// Kinds that something names; the others are not known here.
    pub parts: Vec<NamedPart>,
}

/// One kind of named time of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedPart {
    /// Which: see [`super::PauseKind`].
    pub kind: String,
    /// How many there were, on any thread of the host.
    pub count: u64,
    /// Its time in whole steps on the threads that train, ns.
    pub in_steps_ns: i64,
    /// Its time in the whole run on the threads that train, ns.
    pub in_run_ns: i64,
    /// Time on other threads (written in the background, prefetched), ns: it is no pause.
    pub elsewhere_ns: i64,
}

/// What a program counts, in whole steps of training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// What: `tokens`, `samples`.
    pub what: String,
    /// Who says so: `marks` of the program, or what is `stated` to the report.
    pub source: String,
    /// How many, over all ranks and whole steps.
    pub total: u64,
    /// The same by step.
    pub per_step: f64,
    /// By second of step time.
    pub per_second: f64,
    /// Step time, by the mean rank, for each, ns.
    pub ns_each: f64,
    /// Exposed communication, by the mean rank, for each, ns.
    pub exposed_communication_ns_each: f64,
}
