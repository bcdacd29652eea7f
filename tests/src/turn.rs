//! Mutual exclusion of tests with real processes.
//!
//! Ranks share two cores on a small machine. Concurrent jobs would make each other time out and distort every measured
//! wait. The test runner starts tests in threads or in processes. A locked file serialises both, and also two test runs
//! in one checkout.
//!
//! Some jobs mostly sleep, and some tests assert no time at all. Such tests share a turn: they run beside each other, and
//! beside no other test.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Mutex;

/// The right to run processes, until dropped. Taking a second one in the same test waits for ever.
#[must_use]
#[derive(Debug)]
pub struct Turn {
    _locked: File,
}

/// Waits for a turn alone.
pub fn take() -> Turn {
    lock(libc::LOCK_EX)
}

/// Waits for a turn beside other tests that share theirs. The test asserts no time that a busy machine changes. Its jobs
/// use little processor time, unless no test of the same file asserts a time while it shares its turn.
pub fn share() -> Turn {
    lock(libc::LOCK_SH)
}

fn lock(kind: libc::c_int) -> Turn {
    let path = crate::artefacts::target_directory().join("one-job-at-a-time.lock");
    let file = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    loop {
        // SAFETY: the descriptor is open as long as `file` exists.
        if unsafe { libc::flock(file.as_raw_fd(), kind) } == 0 {
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

/// Checks several cases of a test, two at a time. No case asserts a time that the other one changes.
///
/// # Panics
/// If a case panics, after the others have ended.
pub fn side_by_side<T: Send>(cases: impl IntoIterator<Item = T, IntoIter: Send>, check: impl Fn(T) + Sync) {
    let cases = Mutex::new(cases.into_iter());
    // The lock is held to take a case, not while it is checked.
    let next = || cases.lock().unwrap_or_else(|error| panic!("{error}")).next();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = next() {
                    check(case);
                }
            });
        }
    });
}
