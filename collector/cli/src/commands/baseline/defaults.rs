//! Default branch and commit of the recorded program: from the CI, else from git.

use std::process::{Command, Stdio};

/// Returns the branch, or `none`.
pub fn branch() -> String {
    variable(&["GITHUB_REF_NAME", "CI_COMMIT_REF_NAME"])
        // Unlike `rev-parse --abbrev-ref`, this works on a branch without commits, and fails for a detached HEAD.
        .or_else(|| git(&["symbolic-ref", "--quiet", "--short", "HEAD"]))
        .unwrap_or_else(|| "none".to_owned())
}

/// Returns the commit.
pub fn commit() -> Option<String> {
    variable(&["GITHUB_SHA", "CI_COMMIT_SHA"]).or_else(|| git(&["rev-parse", "--verify", "--quiet", "HEAD"]))
}

fn variable(names: &[&str]) -> Option<String> {
    let values = names.iter().filter_map(|name| std::env::var(name).ok());
    values
        .map(|value| value.trim().to_owned())
        .find(|value| !value.is_empty())
}

/// Returns the output of git in the working directory. Without git or a repository it is `None`.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
