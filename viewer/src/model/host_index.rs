//! Position of a host, which must not be confused with that of a rank.

use serde::{Deserialize, Serialize};

/// Position of a host in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostIndex(pub u32);

impl HostIndex {
    /// Returns the position as an index of a list.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the host at a position of the session's list, which has at most 2³² hosts.
    pub const fn of(position: usize) -> Self {
        Self(position as u32)
    }
}
