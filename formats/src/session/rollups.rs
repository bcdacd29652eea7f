//! What is told of ranks, rolled up: sums over the session's own figures, by host, by device and by role.

use super::{CauseSum, Figure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Sums by what the report shows them by. Every level adds up to the one below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rollups {
    /// Ranks by host: what `rankscope report --by host --json` prints.
    pub host: Rollup,
    /// Ranks by the devices on which they work: what `rankscope report --by device --json` prints.
    pub device: Rollup,
    /// Operations by what their communicators are for: what `rankscope report --by role --json` prints.
    pub role: Rollup,
}

/// Sums by one level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rollup {
    /// By what: `rank`, `device`, `host`, `role`.
    pub by: String,
    /// Groups of ranks; empty for roles.
    pub groups: Vec<Group>,
    /// All ranks together; `null` for roles.
    pub total: Option<Group>,
    /// Roles; empty for ranks.
    pub roles: Vec<RoleSum>,
}

/// Ranks together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its ranks: positions in [`super::Session::ranks`].
    pub ranks: Vec<u32>,
    /// Operations of its ranks.
    pub operations: u64,
    /// Records they lost.
    pub lost: u64,
    /// Windows of the breakdown (whole steps, or the run), rank-ns.
    pub window_rank_ns: i64,
    /// Own time in them, rank-ns.
    pub own_rank_ns: Sum,
    /// Exposed communication in them, rank-ns.
    pub exposed_communication_rank_ns: Sum,
    /// Of that waiting for peers, rank-ns.
    pub exposed_wait_rank_ns: Sum,
    /// Blocked while nothing was communicated, rank-ns.
    pub other_blocked_rank_ns: i64,
    /// Communication, hidden or not, rank-ns.
    pub communication_rank_ns: Sum,
    /// Waiting of others that these ranks caused, exposed, rank-ns.
    pub caused_exposed_rank_ns: i64,
    /// Stretches in which devices did not compute, rank-ns.
    pub stalled_rank_ns: Sum,
    /// The same by cause.
    pub stalled_by_cause: Vec<CauseSum>,
    /// Named parts of host time in the run, by kind: kind, rank-ns.
    pub named: BTreeMap<String, i64>,
    /// Bytes that these ranks sent, as far as it is known between whom.
    pub sent_bytes: u64,
    /// Bytes that they received.
    pub received_bytes: u64,
    /// Of the bytes sent, those that went to another host.
    pub sent_to_other_hosts_bytes: u64,
}

/// A sum that is not known if one part of it is not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Sum(pub Figure<i64>);

impl Default for Sum {
    fn default() -> Self {
        Self(Figure::known(0))
    }
}

impl Sum {
    /// Adds a part, or that it is not known and why.
    pub fn add(&mut self, part: Result<i64, &str>) {
        match (self.0.value, part) {
            (Some(sum), Ok(part)) => self.0.value = Some(sum + part),
            (Some(_), Err(reason)) => self.0 = Figure::unknown(reason),
            (None, _) => {}
        }
    }
}

/// Operations on communicators of one role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoleSum {
    /// The role.
    pub role: String,
    /// Communicators of it.
    pub communicators: u32,
    /// Operations on them.
    pub operations: u64,
    /// Failed ones among them.
    pub failed: u64,
    /// Their payload, bytes; unknown if that of some is not.
    pub bytes: Figure<u64>,
    /// Exposed waiting in them, rank-ns.
    pub exposed_wait_rank_ns: i64,
    /// Hidden waiting in them, rank-ns.
    pub hidden_wait_rank_ns: i64,
    /// Σ transfer of their launches, ns; unknown if that of some operations is not.
    pub transfer_ns: Figure<i64>,
}
