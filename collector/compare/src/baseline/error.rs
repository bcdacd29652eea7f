//! Why a store cannot be used.

use rankscope_formats::comparison::StoredError;
use std::io;
use std::path::PathBuf;

/// A store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was added to it yet.
    #[error(
        "there is no baseline in {store} yet; add runs to it: rankscope baseline add --store {store} RUN…"
    )]
    Missing {
        /// The store, as given.
        store: String,
    },
    /// There is something else in its place.
    #[error("{} is not a directory; name another store with --store DIR or --store git:BRANCH", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// Its files cannot be read or written.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried: `read`, `write`, `make`.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no git.
    #[error("the program git was not found; install it, or keep the baseline in a directory: --store DIR")]
    NoGit,
    /// Git could not be started.
    #[error("cannot start the program git")]
    GitStart(#[source] io::Error),
    /// There is no repository.
    #[error("{} is not in a git repository that can be used; name one with --repo DIR ({said})", directory.display())]
    NotARepository {
        /// Where it was searched.
        directory: PathBuf,
        /// What git said.
        said: String,
    },
    /// The name is none that a branch can have.
    #[error("'{branch}' cannot be the name of a branch; write the store as git:BRANCH")]
    BranchName {
        /// The name.
        branch: String,
    },
    /// Somebody works on the branch.
    #[error(
        "the branch {branch} is checked out in {worktree}; a baseline needs a branch of its own that nobody checks out"
    )]
    CheckedOut {
        /// The branch.
        branch: String,
        /// Where it is checked out.
        worktree: String,
    },
    /// A command of git failed.
    #[error("git {command} failed: {said}")]
    Git {
        /// The command and its arguments.
        command: String,
        /// What git said.
        said: String,
    },
    /// Other writers, or a lock that a dead one left, kept us from writing.
    #[error("the branch {branch} could not be written in {tries} tries: {said}")]
    Contended {
        /// The branch.
        branch: String,
        /// Tries.
        tries: u32,
        /// What git said last.
        said: String,
    },
    /// Other writers were faster each time.
    #[error(
        "{remote} did not take the branch {branch} in {tries} tries; the entry is on the local branch, so try again: \
         git push {remote} {branch} ({said})"
    )]
    Rejected {
        /// The remote.
        remote: String,
        /// The branch.
        branch: String,
        /// Tries.
        tries: u32,
        /// What git said last.
        said: String,
    },
    /// A directory has no remote.
    #[error("{store} is a directory; only a store on a git branch can be pushed: --store git:BRANCH")]
    NoRemote {
        /// The store.
        store: String,
    },
    /// Nobody could read the entry again.
    #[error(
        "the entry would have {bytes} bytes, and at most {} are read; add fewer runs at once",
        super::LARGEST_ENTRY
    )]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// Nobody could read the entry again.
    #[error("the entry was not written, because it could not be read again; this is a fault of rankscope")]
    Unreadable(#[source] StoredError),
    /// An entry could not be written as JSON.
    #[error("the entry cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl StoreError {
    /// An error of a file.
    pub(super) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}
