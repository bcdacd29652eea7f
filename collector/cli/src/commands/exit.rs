//! What a command's exit status means.

use std::process::ExitCode;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything is well.
    Fine = 0,
    /// Something is worse that was declared to fail on.
    Regression = 1,
    /// Wrong usage, or input that cannot be read.
    Unusable = 2,
    /// The figures contradict themselves: no conclusion can be drawn from them.
    Inconclusive = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
