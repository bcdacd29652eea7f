//! Results of matching (METRICS.md, section 1).

#[cfg(doc)]
use super::Session;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Results of matching the calls of the ranks (METRICS.md, section 1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matching {
    /// Number of instances whose members are all recorded and agree.
    pub complete: u64,
    /// Number of instances whose members are all recorded and agree, but whose completion was not recorded.
    pub enqueued: u64,
    /// Number of calls of one member alone: puts and signals.
    pub one_sided: u64,
    /// Number of calls that all members captured into a graph.
    pub templates: u64,
    /// Number of instances whose members disagree in operation, type, root or size.
    pub mismatched: u64,
    /// Number of instances that lack a member's record.
    pub incomplete: u64,
    /// Number of sends without a receive and of receives without a send.
    pub unmatched_messages: u64,
    /// Number of operations without a key (no communicator or no sequence number). They are not matched.
    pub without_key: u64,
    /// Number of complete instances whose shared launch has no figures. Its members grouped their calls differently, or
    /// a part of the launch never arrived.
    #[serde(default)]
    pub shared_without_figures: u64,
    /// Number of instances in which a member leaves before a member that it needs has entered. The axis is wrong there.
    pub causality_violations: u64,
    /// Reasons why instances are incomplete, with counts.
    pub incomplete_reasons: Vec<ReasonCount>,
    /// The first instances that did not match, at most [`Matching::MAX_LISTED`]. Operations that a member never called
    /// replace others when the list is full.
    pub listed: Vec<Unmatched>,
}

impl Matching {
    /// Maximum number of listed instances. The counts are always complete.
    pub const MAX_LISTED: usize = 200;
}

/// Reason, and how often it applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReasonCount {
    /// The reason.
    pub reason: String,
    /// Number of occurrences.
    pub count: u64,
}

/// Instance that did not match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unmatched {
    /// Kind: `mismatched`, `incomplete` or `unmatched-message`.
    pub kind: String,
    /// Index into [`Session::communicators`].
    pub communicator: u32,
    /// Operation that the first member called.
    pub operation: String,
    /// Tag of the operation.
    pub tag: u32,
    /// n-th use of operation and tag.
    pub sequence: u32,
    /// Time at which the first member entered, in nanoseconds on the axis.
    pub start_ns: i64,
    /// Members whose records were found: indices into [`Session::ranks`].
    pub ranks: Vec<u32>,
    /// Members whose records are missing, by their number in the communicator.
    pub missing_members: Vec<u32>,
    /// Reason why the instance did not match.
    pub reason: String,
}
