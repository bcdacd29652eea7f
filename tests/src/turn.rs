//! Mutual exclusion of tests with real processes.
//!
//! Ranks share two cores on a small machine. Concurrent jobs would make each other time out and distort every measured
//! wait. The test runner starts tests in threads or in processes. A locked file serialises both, and also two test runs
//! in one checkout.

use std::fs::File;
use std::os::fd::AsRawFd;

/// The right to run processes, until dropped. Taking a second one in the same test waits for ever.
#[must_use]
#[derive(Debug)]
pub struct Turn {
    _locked: File,
}

/// Waits for a turn.
pub fn take() -> Turn {
    let path = crate::artefacts::target_directory().join("one-job-at-a-time.lock");
    let file = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    loop {
        // SAFETY: the descriptor is open as long as `file` exists.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
            return Turn { _locked: file };
        }
        let error = std::io::Error::last_os_error();
        assert!(
            error.kind() == std::io::ErrorKind::Interrupted,
            "flock {}: {error}",
            path.display()
        );
    }
}
