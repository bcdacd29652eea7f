//! Position of a group, which must not be confused with that of a rank.

use serde::{Deserialize, Serialize};

/// Position of a group in its grouping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupIndex(pub u32);

impl GroupIndex {
    /// Returns the position as an index of a list.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the group at a position. A grouping has at most one group more than ranks.
    pub const fn of(position: usize) -> Self {
        Self(position as u32)
    }
}

/// Identity of a group among all groups of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId {
    /// Position of the grouping in the session's list.
    pub grouping: usize,
    /// Position of the group in the grouping.
    pub group: GroupIndex,
}
