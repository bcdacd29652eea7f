//! What `rankscope report --json` prints: `session.json`, and what the report shows of the tables besides.

use super::{Figure, Rollups, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that the report shows, in one document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document<S = Session> {
    /// The summary, whose fields are those of the document.
    #[serde(flatten)]
    pub session: S,
    /// What went from rank to rank.
    pub pairs: Pairs,
    /// Sums by host, device and role.
    pub rollups: Rollups,
}

/// What went from rank to rank, over the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pairs {
    /// Pairs in all.
    pub total: u64,
    /// Each of them, unless they are too many: what was recorded first, then by sender and receiver.
    pub list: Figure<Vec<Pair>>,
    /// What is in none of them.
    pub left_out: LeftOut,
}

/// What went from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// Who sent: its position in `ranks`.
    pub from_rank: u32,
    /// Who received: its position in `ranks`.
    pub to_rank: u32,
    /// It was not seen that it went between these two: the ring or the tree of the algorithm says so.
    pub is_modelled: bool,
    /// Bytes.
    pub bytes: u64,
    /// Of these the bytes of which it is known how long they took, of launches that are bound by their transfer.
    pub timed_bytes: u64,
    /// How long these took, Σ of their transfers, nanoseconds.
    pub transfer_ns: i64,
    /// `timed_bytes` over `transfer_ns`, bytes per second; `null` where it is of nothing known how long it took.
    pub bytes_per_s: Option<f64>,
}

/// What was moved, but is not known between whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Instances.
    pub operations: u64,
    /// Of which operations, each once, by name.
    pub names: Vec<String>,
}
