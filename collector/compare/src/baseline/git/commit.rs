//! A new commit on the branch: made from its tip beside the working tree, then put in the tip's place if that is still the same.

use super::branch::GitBranch;
use super::repository::{failed, said};
use crate::baseline::error::StoreError;
use crate::baseline::pauses::pause;
use std::thread;

/// Most tries to be the one who replaces the tip. Each failure means that somebody else did.
const TRIES: u32 = 400;
/// Failures in a row, without anybody else's commit, that are no coincidence.
const TRIES_ALONE: u32 = 40;

/// A change of one file of a tree.
#[derive(Clone, Debug)]
pub struct Line {
    path: Vec<u8>,
    /// Mode and object; none to remove the file.
    content: Option<(String, String)>,
}

impl Line {
    /// The file has the content of this object.
    pub fn put(path: &str, object: &str) -> Self {
        Self::put_as(path.as_bytes(), "100644", object)
    }

    /// The same, with a mode of git's.
    pub fn put_as(path: &[u8], mode: &str, object: &str) -> Self {
        Self {
            path: path.to_vec(),
            content: Some((mode.to_owned(), object.to_owned())),
        }
    }

    /// The file is gone.
    pub fn remove(path: &str) -> Self {
        Self::remove_bytes(path.as_bytes())
    }

    /// The same, of any name.
    pub fn remove_bytes(path: &[u8]) -> Self {
        Self {
            path: path.to_vec(),
            content: None,
        }
    }

    /// As `git update-index -z --index-info` reads it.
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

/// What became of an attempt.
pub(super) enum Replaced {
    /// The branch has the commit.
    Yes,
    /// It has not, for this reason.
    No(String),
}

impl GitBranch {
    /// Changes files of the branch, also if other writers do so at the same time.
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

    /// Makes a commit for the local tip, and again until it takes the tip's place. No commit: there is nothing to do.
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
            // A lock that never goes, a full disk: nobody else moves the branch either.
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

    /// The tree of a commit with some files changed. The index for it is a file of its own.
    pub(super) fn tree(&self, base: Option<&str>, lines: &[Line]) -> Result<String, StoreError> {
        let folder = tempfile::tempdir().map_err(StoreError::io("make", std::env::temp_dir()))?;
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

    /// The tree of a commit.
    pub(super) fn tree_of(&self, commit: &str) -> Result<String, StoreError> {
        let tree = format!("{commit}^{{tree}}");
        self.repository
            .text(&["rev-parse", "--verify", &tree], None, None)
    }

    /// A commit, on no branch yet.
    pub(super) fn commit(&self, tree: &str, parents: &[&str], message: &str) -> Result<String, StoreError> {
        let mut arguments = vec!["commit-tree", tree];
        for parent in parents {
            arguments.extend(["-p", parent]);
        }
        arguments.extend(["-m", message]);
        self.repository.text(&arguments, None, None)
    }

    /// Puts the commit in the tip's place, if the tip is still `old`; with none, if there is no branch.
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
            Replaced::No(said(&output))
        })
    }

    /// The name of no object, as long as this repository's names are.
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
