//! Which counters have rows.

use serde::{Deserialize, Serialize};

/// Counters that have rows below an expanded rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShownCounters {
    /// Those of the program, and those of the system that match the filter. The system has about ten on each rank.
    #[default]
    OfProgram,
    /// All.
    All,
    /// None.
    Hidden,
}

impl ShownCounters {
    /// Returns the next choice.
    pub fn next(self) -> Self {
        match self {
            Self::OfProgram => Self::All,
            Self::All => Self::Hidden,
            Self::Hidden => Self::OfProgram,
        }
    }
}
