//! How a job ended, and how this process ends in the same way.

use super::signals::{self, Signals};
use serde::{Deserialize, Serialize};

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Exit with this status.
    Status(i32),
    /// Termination by this signal.
    Signal(i32),
}

impl Ending {
    /// Converts a status of `waitpid`.
    pub fn from_wait_status(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Status(libc::WEXITSTATUS(status))
        }
    }

    /// Ends this process as the job ended, so that a shell, a scheduler or `make` sees no difference.
    pub fn end_likewise(self) -> ! {
        match self {
            Self::Status(status) => std::process::exit(status),
            Self::Signal(signal) => {
                // The core dump of the job, if any, must not be replaced by one of this process.
                // SAFETY: plain calls; with the default action the last one does not return.
                unsafe {
                    libc::prctl(libc::PR_SET_DUMPABLE, 0);
                    let none = libc::rlimit {
                        rlim_cur: 0,
                        rlim_max: 0,
                    };
                    libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
                    libc::signal(signal, libc::SIG_DFL);
                    libc::raise(signal);
                }
                Signals::none().with(signal).unblock();
                // Process 1 of a container is not killed by its own signals.
                std::process::exit(128 + signal)
            }
        }
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Status(status) => write!(f, "exit status {status}"),
            Self::Signal(signal) => write!(f, "killed by {}", signals::name(signal)),
        }
    }
}
