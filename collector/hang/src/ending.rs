//! How a process ended.

use std::fmt;

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Kind of the end.
    pub kind: EndingKind,
    /// The end in words, such as `exit status 1` or `killed by SIGKILL`.
    pub words: String,
}

/// Kind of the end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndingKind {
    /// Exit status 0, or a closed log without a known status.
    Normal,
    /// Another exit status.
    Failed,
    /// A signal, such as SIGKILL or SIGSEGV.
    BySignal,
    /// SIGTERM or SIGINT. Launchers send them to the peers of a failed rank, and users to a whole job.
    OnRequest,
    /// The log was not closed, and the status is not known.
    Unclosed,
}

impl Ending {
    /// Returns the end of a process that closed its log. Its status is not known.
    pub fn normal() -> Self {
        Self {
            kind: EndingKind::Normal,
            words: "ended".to_owned(),
        }
    }

    /// Returns the end of a process that did not close its log. Its status is not known.
    pub fn unclosed() -> Self {
        Self {
            kind: EndingKind::Unclosed,
            words: "killed, crashed or left by _exit".to_owned(),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}
