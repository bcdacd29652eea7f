//! Number of a communicator in a rank log.

use serde::{Deserialize, Serialize};

/// Number of a communicator in one rank log. Logs of different ranks number the same communicator differently;
/// [`CommunicatorId`](rankscope_formats::ids::CommunicatorId) is its number in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(transparent)]
pub struct LogCommunicator(pub u32);

impl LogCommunicator {
    /// Returns the number as an index of a list.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
