//! How a program of a part ends.

use clap::ValueEnum;

/// Way in which a program of a part ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum End {
    /// By `exit`.
    Exit,
    /// By `_exit`: no destructor runs.
    ImmediateExit,
    /// By SIGKILL.
    Kill,
}
