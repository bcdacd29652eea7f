//! Numbers that identify parts of a session, one type for each, so that the compiler keeps them apart.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $id:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        #[repr(transparent)]
        pub struct $id(pub u32);

        impl $id {
            /// Returns the identifier as an index of a list.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// Returns the identifier of a position in a list.
            ///
            /// # Panics
            ///
            /// If the position exceeds 32 bits. A list that fits into memory is shorter.
            #[inline]
            #[track_caller]
            pub const fn of(position: usize) -> Self {
                assert!(position <= u32::MAX as usize, "a position has 32 bits");
                Self(position as u32)
            }
        }

        impl From<$id> for u64 {
            fn from(id: $id) -> Self {
                Self::from(id.0)
            }
        }

        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// Position of a rank in the session's list of ranks. [`RankNumber`] is its number in its world.
    RankIndex
    /// Number of a rank in its world, as the job names it.
    RankNumber
    /// Number of a communicator in the session.
    CommunicatorId
    /// Position of a member in its communicator: the rank's number in it.
    MemberIndex
    /// Number of a step in the session.
    StepIndex
}
