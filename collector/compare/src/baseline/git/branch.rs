//! What a store on a branch can do.

use super::commit::Line;
use super::repository::Repository;
use super::snapshot::Snapshot;
use crate::baseline::ENTRIES;
use crate::baseline::entry::EntryName;
use crate::baseline::error::StoreError;
use std::path::Path;

/// A branch of a repository.
#[derive(Clone, Debug)]
pub struct GitBranch {
    /// Its name.
    pub branch: String,
    pub(super) repository: Repository,
}

impl GitBranch {
    /// The branch of that name; it need not be there. Without a directory the repository is that of the working directory.
    pub fn open(branch: &str, repository: Option<&Path>) -> Result<Self, StoreError> {
        let found = Self {
            branch: branch.to_owned(),
            repository: Repository::open(repository)?,
        };
        let checked = ["check-ref-format", &found.reference()];
        if !found.repository.output(&checked, None, None)?.status.success() {
            return Err(StoreError::BranchName {
                branch: branch.to_owned(),
            });
        }
        Ok(found)
    }

    /// The branch as git's files name it.
    pub(super) fn reference(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }

    /// The commit that a reference names.
    pub(super) fn resolve(&self, reference: &str) -> Result<Option<String>, StoreError> {
        let commit = format!("{reference}^{{commit}}");
        let output = self
            .repository
            .output(&["rev-parse", "--verify", "--quiet", &commit], None, None)?;
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok((output.status.success() && !id.is_empty()).then_some(id))
    }

    /// The tip of the local branch.
    pub(super) fn local(&self) -> Result<Option<String>, StoreError> {
        self.resolve(&self.reference())
    }

    /// The tip to read or to go on from: that of the local branch, else what was fetched of the branch of that name.
    pub(super) fn tip(&self) -> Result<Option<String>, StoreError> {
        if let Some(local) = self.local()? {
            return Ok(Some(local));
        }
        self.resolve(&format!("refs/remotes/origin/{}", self.branch))
    }

    /// The branch as it is now; `None` if it is not there.
    pub fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        let Some(commit) = self.tip()? else {
            return Ok(None);
        };
        Snapshot::of(&self.repository, &self.branch, &commit).map(Some)
    }

    /// Adds an entry.
    pub fn add(&self, name: &EntryName, bytes: &[u8]) -> Result<(), StoreError> {
        self.refuse_if_checked_out()?;
        let blob = self
            .repository
            .text(&["hash-object", "-w", "--stdin"], Some(bytes), None)?;
        let line = Line::put(&format!("{ENTRIES}/{}", name.path()), &blob);
        self.change(&[line], &format!("rankscope: add {}", name.path()))
    }

    /// Removes entries. What is gone already is no error.
    pub fn remove(&self, names: &[EntryName]) -> Result<(), StoreError> {
        self.refuse_if_checked_out()?;
        let lines: Vec<Line> = names
            .iter()
            .map(|name| Line::remove(&format!("{ENTRIES}/{}", name.path())))
            .collect();
        let plural = if names.len() == 1 { "entry" } else { "entries" };
        self.change(&lines, &format!("rankscope: remove {} {plural}", names.len()))
    }

    /// A commit would make the files of a checkout of it look changed.
    pub(super) fn refuse_if_checked_out(&self) -> Result<(), StoreError> {
        let list = self
            .repository
            .text(&["worktree", "list", "--porcelain"], None, None)?;
        let wanted = format!("branch {}", self.reference());
        let mut worktree = "";
        for line in list.lines() {
            if let Some(path) = line.strip_prefix("worktree ") {
                worktree = path;
            } else if line == wanted {
                return Err(StoreError::CheckedOut {
                    branch: self.branch.clone(),
                    worktree: worktree.to_owned(),
                });
            }
        }
        Ok(())
    }
}
