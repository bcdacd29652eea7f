//! Output of `rankscope report --json`: `session.json`, and the parts of the tables that the report shows in addition.

use super::{Figure, Rollups, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that the report shows, in one document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document<S = Session> {
    /// Summary. Its fields are fields of the document.
    #[serde(flatten)]
    pub session: S,
    /// Traffic between ranks.
    pub pairs: Pairs,
    /// Sums by host, device and role.
    pub rollups: Rollups,
}

/// Traffic between ranks over the whole run (METRICS.md, section 2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pairs {
    /// Number of pairs.
    pub total: u64,
    /// The pairs; unknown if there are too many. Recorded pairs come first. Within both groups the order is by sender
    /// and receiver.
    pub list: Figure<Vec<Pair>>,
    /// Traffic that is not part of any pair.
    pub left_out: LeftOut,
}

/// Traffic from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// Sending rank: index into `ranks`.
    pub from_rank: u32,
    /// Receiving rank: index into `ranks`.
    pub to_rank: u32,
    /// True if this pair was not recorded. The bytes are then modelled on the ring or tree of the algorithm that the
    /// library used.
    pub is_modelled: bool,
    /// Payload, in bytes. For traffic that NCCL's proxies measured: bytes on the wire.
    pub bytes: u64,
    /// Part of `bytes` whose transfer time is known, from launches that are transfer-bound.
    pub timed_bytes: u64,
    /// Time of the transfers of `timed_bytes`: Σ transfer, in nanoseconds.
    pub transfer_ns: i64,
    /// Bandwidth: `timed_bytes` / `transfer_ns`, in bytes per second. `null` if no transfer time is known.
    pub bytes_per_s: Option<f64>,
}

/// Operations whose data cannot be attributed to pairs of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Number of instances.
    pub operations: u64,
    /// Names of the operations, each once.
    pub names: Vec<String>,
}
