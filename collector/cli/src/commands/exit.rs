//! Exit status of a command.

use std::process::ExitCode;

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Fine = 0,
    /// A declared limit was exceeded.
    Regression = 1,
    /// Wrong usage or unreadable input.
    Unusable = 2,
    /// The figures contradict each other or leave the question open. No conclusion is possible.
    Inconclusive = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
