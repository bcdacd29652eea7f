//! Synchronisation with the same branch in another repository. Pushed and local changes are joined file by file.

use super::branch::GitBranch;
use super::commit::Line;
use super::repository::{failed, message};
use crate::baseline::backoff::pause;
use crate::baseline::error::StoreError;
use rankscope_analysis::model::fingerprint::fnv;
use std::thread;
use std::time::SystemTime;

/// Maximum number of push attempts. Each failure means that another process pushed.
const TRIES: u32 = 60;

impl GitBranch {
    /// Fetches the remote's branch and joins it with the local one. Does nothing if the remote has none.
    pub fn pull(&self, remote: &str) -> Result<(), StoreError> {
        self.refuse_if_checked_out()?;
        let reference = self.reference();
        let arguments = ["ls-remote", "--exit-code", remote, &reference];
        let listed = self.repository.output(&arguments, None, None)?;
        match listed.status.code() {
            Some(0) => {}
            // The remote is reachable, but has no such branch.
            Some(2) => return Ok(()),
            _ => return Err(failed(&arguments, &listed)),
        }
        // The name is unique because two processes may fetch at the same time.
        let unique = format!("{} {:?}", std::process::id(), SystemTime::now());
        let fetched = format!("refs/rankscope/fetched-{:016x}", fnv(unique.as_bytes()));
        let refspec = format!("+{reference}:{fetched}");
        self.repository.text(
            &[
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-recurse-submodules",
                remote,
                &refspec,
            ],
            None,
            None,
        )?;
        let joined = match self.resolve(&fetched)? {
            Some(theirs) => self.join(&theirs),
            None => Ok(()),
        };
        let _ = self
            .repository
            .output(&["update-ref", "-d", &fetched], None, None);
        joined
    }

    /// Pushes the branch. If another process pushed first, joins its changes and tries again.
    pub fn push(&self, remote: &str) -> Result<(), StoreError> {
        let reference = self.reference();
        let both = format!("{reference}:{reference}");
        let mut last = String::new();
        for attempt in 0..TRIES {
            let arguments = ["push", "--porcelain", remote, &both];
            let pushed = self.repository.output(&arguments, None, None)?;
            if pushed.status.success() {
                return Ok(());
            }
            last = message(&pushed);
            if !was_late(&String::from_utf8_lossy(&pushed.stdout)) {
                return Err(failed(&arguments, &pushed));
            }
            thread::sleep(pause(attempt));
            self.pull(remote)?;
        }
        Err(StoreError::Rejected {
            remote: remote.to_owned(),
            branch: self.branch.clone(),
            tries: TRIES,
            said: last,
        })
    }

    /// Moves the local branch to a commit with everything of `theirs`: `theirs` itself, or a commit with both as
    /// parents.
    fn join(&self, theirs: &str) -> Result<(), StoreError> {
        self.retry(|local| {
            let Some(ours) = local else {
                return Ok(Some(theirs.to_owned()));
            };
            if self.is_ancestor(theirs, ours)? {
                return Ok(None);
            }
            if self.is_ancestor(ours, theirs)? {
                return Ok(Some(theirs.to_owned()));
            }
            let tree = self.tree(Some(theirs), &self.changes(ours, theirs)?)?;
            let message = format!("rankscope: join {} with what others added", self.branch);
            self.commit(&tree, &[theirs, ours], &message).map(Some)
        })
    }

    fn is_ancestor(&self, one: &str, other: &str) -> Result<bool, StoreError> {
        let output = self
            .repository
            .output(&["merge-base", "--is-ancestor", one, other], None, None)?;
        Ok(output.status.success())
    }

    /// Returns the local changes since the branches diverged. Entries have unique names, so changes never conflict.
    fn changes(&self, ours: &str, theirs: &str) -> Result<Vec<Line>, StoreError> {
        let base = self
            .repository
            .output(&["merge-base", ours, theirs], None, None)?;
        let base = String::from_utf8_lossy(&base.stdout).trim().to_owned();
        if base.is_empty() {
            // Without a common ancestor, all local files were added locally.
            let list = self
                .repository
                .bytes(&["ls-tree", "-r", "-z", "--full-tree", ours])?;
            return Ok(list.split(|&byte| byte == 0).filter_map(listed).collect());
        }
        let changed = self
            .repository
            .bytes(&["diff-tree", "-r", "-z", "--no-renames", &base, ours])?;
        let mut fields = changed.split(|&byte| byte == 0);
        let mut lines = Vec::new();
        while let (Some(head), Some(path)) = (fields.next(), fields.next()) {
            lines.extend(differing(head, path));
        }
        Ok(lines)
    }
}

/// Parses a line of `ls-tree`: `100644 blob OBJECT<tab>PATH`.
fn listed(line: &[u8]) -> Option<Line> {
    let tab = line.iter().position(|&byte| byte == b'\t')?;
    let head = String::from_utf8_lossy(&line[..tab]);
    let mut head = head.split(' ');
    let (mode, object) = (head.next()?, head.nth(1)?);
    Some(Line::put_as(&line[tab + 1..], mode, object))
}

/// Parses a line of `diff-tree`: `:OLD-MODE NEW-MODE OLD-OBJECT NEW-OBJECT STATUS`, then the path.
fn differing(head: &[u8], path: &[u8]) -> Option<Line> {
    let head = String::from_utf8_lossy(head);
    let mut head = head.trim_start_matches(':').split(' ');
    let (mode, object, status) = (head.nth(1)?, head.nth(1)?, head.next()?);
    Some(if status == "D" {
        Line::remove_bytes(path)
    } else {
        Line::put_as(path, mode, object)
    })
}

/// Whether a push failed because another process pushed before or at the same time.
fn was_late(porcelain: &str) -> bool {
    let reasons = [
        "(fetch first)",
        "(non-fast-forward)",
        "(stale info)",
        "cannot lock ref",
        "failed to update ref",
    ];
    porcelain
        .lines()
        .filter(|line| line.starts_with('!'))
        .any(|line| reasons.iter().any(|reason| line.contains(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_for_another_reason_is_not_tried_again() {
        assert!(was_late(
            "To x\n!\trefs/heads/b:refs/heads/b\t[rejected] (fetch first)\nDone"
        ));
        assert!(was_late(
            "!\tb:b\t[remote rejected] (cannot lock ref 'refs/heads/b': is at 1 but expected 2)"
        ));
        assert!(!was_late("!\tb:b\t[remote rejected] (pre-receive hook declined)"));
        assert!(!was_late(""));
    }
}
