//! Operations of a store on a branch.

use super::commit::Line;
use super::repository::Repository;
use super::snapshot::Snapshot;
use crate::baseline::ENTRIES;
use crate::baseline::entry::EntryName;
use crate::baseline::error::StoreError;
use std::path::Path;

/// Branch of a repository.
#[derive(Clone, Debug)]
pub struct GitBranch {
    /// Name of the branch.
    pub branch: String,
    pub(super) repository: Repository,
}

impl GitBranch {
    /// Opens the branch, which need not exist. Without a directory the repository is that of the working directory.
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

    /// Returns the full reference of the branch.
    pub(super) fn reference(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }

    /// Returns the commit of a reference.
    pub(super) fn resolve(&self, reference: &str) -> Result<Option<String>, StoreError> {
        let commit = format!("{reference}^{{commit}}");
        let output = self
            .repository
            .output(&["rev-parse", "--verify", "--quiet", &commit], None, None)?;
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok((output.status.success() && !id.is_empty()).then_some(id))
    }

    /// Returns the tip of the local branch.
    pub(super) fn local(&self) -> Result<Option<String>, StoreError> {
        self.resolve(&self.reference())
    }

    /// Returns the tip to read or to extend: that of the local branch, else of the fetched branch with the same name.
    pub(super) fn tip(&self) -> Result<Option<String>, StoreError> {
        if let Some(local) = self.local()? {
            return Ok(Some(local));
        }
        self.resolve(&format!("refs/remotes/origin/{}", self.branch))
    }

    /// Returns the current state of the branch; `None` if it does not exist.
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

    /// Removes entries. A missing entry is not an error.
    pub fn remove(&self, names: &[EntryName]) -> Result<(), StoreError> {
        self.refuse_if_checked_out()?;
        let lines: Vec<Line> = names
            .iter()
            .map(|name| Line::remove(&format!("{ENTRIES}/{}", name.path())))
            .collect();
        let plural = if names.len() == 1 { "entry" } else { "entries" };
        self.change(&lines, &format!("rankscope: remove {} {plural}", names.len()))
    }

    /// Rejects a branch that is checked out: a commit would make its files appear modified.
    pub(super) fn refuse_if_checked_out(&self) -> Result<(), StoreError> {
        let list = self
            .repository
            .text(&["worktree", "list", "--porcelain"], None, None)?;
        let own = format!("branch {}", self.reference());
        let mut worktree = "";
        for line in list.lines() {
            if let Some(path) = line.strip_prefix("worktree ") {
                worktree = path;
            } else if line == own {
                return Err(StoreError::CheckedOut {
                    branch: self.branch.clone(),
                    worktree: worktree.to_owned(),
                });
            }
        }
        Ok(())
    }
}
