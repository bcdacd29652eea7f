//! Description of the part of a run that a session contains.

use super::ReasonCount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Description of a session that contains only a part of a run. All sums, tables and findings refer to this part. The axis is
/// that of the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Start of the part, in nanoseconds on the axis. Operations that were issued earlier are not in the session.
    pub from_ns: i64,
    /// End of the part, in nanoseconds on the axis; absent if it is the end of the run. Operations that were issued later are
    /// not in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ns: Option<i64>,
    /// True if steps are numbered from 0 at the first step of the part, and not as in the whole run.
    pub numbers_steps_from_its_begin: bool,
    /// Records that cross the start or the end of the part. They appear here, and in no table and no other sum.
    pub left_out: PartLeftOut,
}

/// Records that a session of a part of a run leaves out because they cross the start or the end of the part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartLeftOut {
    /// Instances with a member that was issued, or may have completed, before the start of the part; and those that may have
    /// completed long after its end.
    pub instances: u64,
    /// Part of these instances that began in the part, and had not completed when reading ended after it.
    #[serde(default)]
    pub not_completed: u64,
    /// Operations of these instances that were read.
    pub operations: u64,
    /// Steps whose end was recorded and that are not whole on all ranks.
    pub steps: u64,
    /// Messages of libraries that do not number their messages. They appear in the tables, and belong to no instance.
    pub messages: u64,
    /// Graph replays. The number of earlier replays is part of their key, so it is unknown here. They appear in the
    /// tables, and belong to no instance.
    #[serde(default)]
    pub replays: u64,
    /// Reasons why instances were left out.
    pub reasons: Vec<ReasonCount>,
}
