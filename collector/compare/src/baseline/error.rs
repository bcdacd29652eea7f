//! Errors of a store.

use rankscope_formats::comparison::StoredError;
use std::io;
use std::path::PathBuf;

/// Error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store has no entries yet.
    #[error("no baseline in {store} yet; add runs to it: rankscope baseline add --store {store} RUN…")]
    Missing {
        /// Store as given.
        store: String,
    },
    /// The path is not a directory.
    #[error("{} is not a directory; name another store with --store DIR or --store git:BRANCH", path.display())]
    NotADirectory {
        /// Path of the store.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// Failed action: `read`, `write`, `remove`, `create`.
        what: &'static str,
        /// File or directory.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// Git is not installed.
    #[error("git not found; install it, or store the baseline in a directory: --store DIR")]
    NoGit,
    /// Git could not be started.
    #[error("cannot start git")]
    GitStart(#[source] io::Error),
    /// The directory is not in a repository.
    #[error("{} is not in a usable git repository; name one with --repo DIR ({said})", directory.display())]
    NotARepository {
        /// Directory of the search.
        directory: PathBuf,
        /// Message of git.
        said: String,
    },
    /// The name is not valid for a branch.
    #[error("'{branch}' is not a valid branch name; write the store as git:BRANCH")]
    BranchName {
        /// Name of the branch.
        branch: String,
    },
    /// The branch is checked out.
    #[error(
        "the branch {branch} is checked out in {worktree}; a baseline needs a separate branch that is not checked out"
    )]
    CheckedOut {
        /// Name of the branch.
        branch: String,
        /// Directory of the checkout.
        worktree: String,
    },
    /// A git command failed.
    #[error("git {command} failed: {said}")]
    Git {
        /// Command with its arguments.
        command: String,
        /// Message of git.
        said: String,
    },
    /// Other processes, or a stale lock of a dead process, prevented writing.
    #[error("could not write the branch {branch} in {tries} attempts: {said}")]
    Contended {
        /// Name of the branch.
        branch: String,
        /// Number of attempts.
        tries: u32,
        /// Last message of git.
        said: String,
    },
    /// Other processes were faster each time.
    #[error(
        "{remote} did not accept the branch {branch} in {tries} attempts; the entry is on the local branch, so push \
         it later: git push {remote} {branch} ({said})"
    )]
    Rejected {
        /// Remote repository.
        remote: String,
        /// Name of the branch.
        branch: String,
        /// Number of attempts.
        tries: u32,
        /// Last message of git.
        said: String,
    },
    /// A directory has no remote.
    #[error("{store} is a directory; only a store on a git branch can be pushed: --store git:BRANCH")]
    NoRemote {
        /// Store as given.
        store: String,
    },
    /// The entry would be too large to be read again.
    #[error(
        "the entry would have {bytes} bytes, but at most {} can be read; add fewer runs at once",
        super::LARGEST_ENTRY
    )]
    TooLarge {
        /// Size of the entry, in bytes.
        bytes: u64,
    },
    /// The entry could not be read again.
    #[error("the entry was not written because it could not be read again; this is a bug of rankscope")]
    Unreadable(#[source] StoredError),
    /// An entry could not be written as JSON.
    #[error("cannot write the entry as JSON")]
    Json(#[from] serde_json::Error),
}

impl StoreError {
    /// Creates an error of a file.
    pub(super) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}
