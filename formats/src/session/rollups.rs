//! Rollups: sums of the session's figures per host, device and role.

use super::{CauseSum, Figure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Sums for each grouping that the report offers. Every level adds up to the level below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rollups {
    /// Ranks per host, as `rankscope report --by host --json` prints them.
    pub host: Rollup,
    /// Ranks per device, as `rankscope report --by device --json` prints them.
    pub device: Rollup,
    /// Operations per role of the communicator, as `rankscope report --by role --json` prints them.
    pub role: Rollup,
}

/// Sums for one grouping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rollup {
    /// Grouping: `rank`, `device`, `host` or `role`.
    pub by: String,
    /// Groups of ranks; empty for roles.
    pub groups: Vec<Group>,
    /// Sum over all ranks; `null` for roles.
    pub total: Option<Group>,
    /// Roles; empty for all other groupings.
    pub roles: Vec<RoleSum>,
}

/// Sums over a group of ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Ranks of the group: indices into [`super::Session::ranks`].
    pub ranks: Vec<u32>,
    /// Number of operations of these ranks.
    pub operations: u64,
    /// Number of records that these ranks lost.
    pub lost: u64,
    /// Windows of the breakdown (all whole steps, or the run), in rank-nanoseconds.
    pub window_rank_ns: i64,
    /// Host time in the windows, in rank-nanoseconds.
    pub own_rank_ns: Sum,
    /// Exposed communication in the windows, in rank-nanoseconds.
    pub exposed_communication_rank_ns: Sum,
    /// Part of the exposed communication that is waiting for peers, in rank-nanoseconds.
    pub exposed_wait_rank_ns: Sum,
    /// Time in which ranks were blocked while no operation ran, in rank-nanoseconds.
    pub other_blocked_rank_ns: i64,
    /// Communication, overlapped or not, in rank-nanoseconds.
    pub communication_rank_ns: Sum,
    /// Exposed waiting that these ranks caused on other ranks, in rank-nanoseconds.
    pub caused_exposed_rank_ns: i64,
    /// Time in stalls, in which no device of a rank computes, in rank-nanoseconds.
    pub stalled_rank_ns: Sum,
    /// Stalls per cause.
    pub stalled_by_cause: Vec<CauseSum>,
    /// Named parts of host time in the run, in rank-nanoseconds per kind.
    pub named: BTreeMap<String, i64>,
    /// Bytes that these ranks sent, as far as both ends are known.
    pub sent_bytes: u64,
    /// Bytes that these ranks received, as far as both ends are known.
    pub received_bytes: u64,
    /// Part of the sent bytes that went to another host.
    pub sent_to_other_hosts_bytes: u64,
}

/// Sum that is unknown if one of its parts is unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Sum(pub Figure<i64>);

impl Default for Sum {
    fn default() -> Self {
        Self(Figure::known(0))
    }
}

impl Sum {
    /// Adds a part, or the reason why the part is unknown.
    pub fn add(&mut self, part: Result<i64, &str>) {
        match (self.0.value, part) {
            (Some(sum), Ok(part)) => self.0.value = Some(sum + part),
            (Some(_), Err(reason)) => self.0 = Figure::unknown(reason),
            (None, _) => {}
        }
    }
}

/// Operations on the communicators of one role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoleSum {
    /// Role of the communicators.
    pub role: String,
    /// Number of communicators with this role.
    pub communicators: u32,
    /// Number of operations on them.
    pub operations: u64,
    /// Number of operations that failed.
    pub failed: u64,
    /// Payload, in bytes; unknown if the payload of some operations is unknown.
    pub bytes: Figure<u64>,
    /// Exposed waiting in these operations, in rank-nanoseconds.
    pub exposed_wait_rank_ns: i64,
    /// Hidden waiting in these operations, in rank-nanoseconds.
    pub hidden_wait_rank_ns: i64,
    /// Σ transfer of the launches, in nanoseconds; unknown if the transfer of some operations is unknown.
    pub transfer_ns: Figure<i64>,
}
