//! What a session of a part of a run says of itself.

use super::ReasonCount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A session of the last part of a run alone. All sums, tables and findings are of this part; the axis is the run's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Where it begins, ns on the axis. What was asked for before is not in it.
    pub from_ns: i64,
    /// Steps are numbered from 0 at the part's first one, not as in the run.
    pub numbers_steps_from_its_begin: bool,
    /// What reaches over its begin: in no table and no sum but these.
    pub left_out: PartLeftOut,
}

/// What a session of a part of a run leaves out where that begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartLeftOut {
    /// Instances of which a member was asked for, or may have been over, before.
    pub instances: u64,
    /// Operations of theirs that were read.
    pub operations: u64,
    /// Steps that were seen to end and are not whole on all ranks.
    pub steps: u64,
    /// Messages of libraries that do not number them: they are in the tables, and in no instance.
    pub messages: u64,
    /// Replays of graphs, which are numbered by how many there were before: they are in the tables, and in no instance.
    #[serde(default)]
    pub replays: u64,
    /// Why instances were left out.
    pub reasons: Vec<ReasonCount>,
}
