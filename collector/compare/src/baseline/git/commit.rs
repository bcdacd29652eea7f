//! New commits on the branch. A commit is made from the tip outside the working tree. It becomes the new tip if the tip
//! is unchanged.

use super::branch::GitBranch;
use super::repository::{failed, message};
use crate::baseline::backoff::pause;
use crate::baseline::error::StoreError;
use std::thread;

/// Maximum number of attempts to replace the tip. Each failure means that another process replaced it.
const TRIES: u32 = 400;
/// Number of consecutive failures, without a commit of another process, that indicates a permanent error.
const TRIES_ALONE: u32 = 40;

/// Change of one file of a tree.
#[derive(Clone, Debug)]
pub struct Line {
    path: Vec<u8>,
    /// Mode and object; `None` removes the file.
    content: Option<(String, String)>,
}

impl Line {
    /// Sets the file to the content of this object.
    pub fn put(path: &str, object: &str) -> Self {
        Self::put_as(path.as_bytes(), "100644", object)
    }

    /// Sets the file to the content of this object, with a mode of git.
    pub fn put_as(path: &[u8], mode: &str, object: &str) -> Self {
        Self {
            path: path.to_vec(),
            content: Some((mode.to_owned(), object.to_owned())),
        }
    }

    /// Removes the file.
    pub fn remove(path: &str) -> Self {
        Self::remove_bytes(path.as_bytes())
    }

    /// Removes a file with any name.
    pub fn remove_bytes(path: &[u8]) -> Self {
        Self {
            path: path.to_vec(),
            content: None,
        }
    }

    /// Writes the line for `git update-index -z --index-info`.
    fn write(&self, zeros: &str, out: &mut Vec<u8>) {
        let head = match &self.content {
            Some((mode, object)) => format!("{mode} {object}\t"),
            None => format!("0 {zeros}\t"),
        };
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&self.path);
        out.push(0);
    }
}

/// Result of an attempt.
pub(super) enum Replaced {
    /// The branch has the commit.
    Yes,
    /// The branch does not have the commit, for this reason.
    No(String),
}

impl GitBranch {
    /// Changes files of the branch, also while other processes write to it.
    pub(super) fn change(&self, lines: &[Line], message: &str) -> Result<(), StoreError> {
        self.retry(|local| {
            let tip = match local {
                Some(local) => Some(local.to_owned()),
                None => self.tip()?,
            };
            let parents: Vec<&str> = tip.iter().map(String::as_str).collect();
            let tree = self.tree(tip.as_deref(), lines)?;
            if let Some(tip) = &tip
                && self.tree_of(tip)? == tree
            {
                return Ok(None);
            }
            self.commit(&tree, &parents, message).map(Some)
        })
    }

    /// Makes a commit for the local tip, and repeats until it becomes the tip. If `make` returns no commit, nothing is
    /// done.
    pub(super) fn retry(
        &self,
        make: impl Fn(Option<&str>) -> Result<Option<String>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut alone = 0;
        let mut last = String::new();
        for attempt in 0..TRIES {
            let local = self.local()?;
            let Some(commit) = make(local.as_deref())? else {
                return Ok(());
            };
            match self.replace(local.as_deref(), &commit)? {
                Replaced::Yes => return Ok(()),
                Replaced::No(said) => last = said,
            }
            // With a stale lock or a full disk, no other process moves the branch either.
            alone = if self.local()? == local { alone + 1 } else { 0 };
            if alone == TRIES_ALONE {
                return self.give_up(attempt + 1, last);
            }
            thread::sleep(pause(attempt));
        }
        self.give_up(TRIES, last)
    }

    fn give_up(&self, tries: u32, said: String) -> Result<(), StoreError> {
        Err(StoreError::Contended {
            branch: self.branch.clone(),
            tries,
            said,
        })
    }

    /// Returns the tree of a commit with some files changed. It uses a separate index file.
    pub(super) fn tree(&self, base: Option<&str>, lines: &[Line]) -> Result<String, StoreError> {
        let folder = tempfile::tempdir().map_err(StoreError::io("create", std::env::temp_dir()))?;
        let index = folder.path().join("index");
        let git =
            |arguments: &[&str], input: Option<&[u8]>| self.repository.text(arguments, input, Some(&index));
        match base {
            Some(base) => git(&["read-tree", base], None)?,
            None => git(&["read-tree", "--empty"], None)?,
        };
        let zeros = self.zeros()?;
        let mut input = Vec::new();
        lines.iter().for_each(|line| line.write(&zeros, &mut input));
        git(&["update-index", "-z", "--index-info"], Some(&input))?;
        git(&["write-tree"], None)
    }

    /// Returns the tree of a commit.
    pub(super) fn tree_of(&self, commit: &str) -> Result<String, StoreError> {
        let tree = format!("{commit}^{{tree}}");
        self.repository
            .text(&["rev-parse", "--verify", &tree], None, None)
    }

    /// Creates a commit that is not on a branch yet.
    pub(super) fn commit(&self, tree: &str, parents: &[&str], message: &str) -> Result<String, StoreError> {
        let mut arguments = vec!["commit-tree", tree];
        for parent in parents {
            arguments.extend(["-p", parent]);
        }
        arguments.extend(["-m", message]);
        self.repository.text(&arguments, None, None)
    }

    /// Makes the commit the tip if the tip is still `old`; `None` means that the branch must not exist.
    fn replace(&self, old: Option<&str>, new: &str) -> Result<Replaced, StoreError> {
        let zeros = self.zeros()?;
        let reference = self.reference();
        let arguments = [
            "update-ref",
            "-m",
            "rankscope",
            &reference,
            new,
            old.unwrap_or(&zeros),
        ];
        let output = self.repository.output(&arguments, None, None)?;
        Ok(if output.status.success() {
            Replaced::Yes
        } else {
            Replaced::No(message(&output))
        })
    }

    /// Returns the null object name, with the length of this repository's names.
    fn zeros(&self) -> Result<String, StoreError> {
        let arguments = ["hash-object", "-t", "tree", "--stdin"];
        let output = self.repository.output(&arguments, Some(b""), None)?;
        if !output.status.success() {
            return Err(failed(&arguments, &output));
        }
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok("0".repeat(id.len()))
    }
}
