//! Execution of git in one repository.

use crate::baseline::error::StoreError;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Repository of a directory, or the one that git itself finds.
#[derive(Clone, Debug)]
pub struct Repository {
    directory: Option<PathBuf>,
}

impl Repository {
    /// Opens the repository of a directory, else of the working directory.
    pub fn open(directory: Option<&Path>) -> Result<Self, StoreError> {
        let repository = Self {
            directory: directory.map(Path::to_path_buf),
        };
        let found = repository.output(&["rev-parse", "--git-dir"], None, None)?;
        if found.status.success() {
            return Ok(repository);
        }
        Err(StoreError::NotARepository {
            directory: directory.unwrap_or(Path::new(".")).to_path_buf(),
            said: message(&found),
        })
    }

    /// Returns a git command without arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new("git");
        if let Some(directory) = &self.directory {
            // A hook of another repository sets these variables for itself.
            for name in [
                "GIT_DIR",
                "GIT_WORK_TREE",
                "GIT_COMMON_DIR",
                "GIT_OBJECT_DIRECTORY",
            ] {
                command.env_remove(name);
            }
            command.arg("-C").arg(directory);
        }
        command
            .env_remove("GIT_INDEX_FILE")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a git command with input, and with an index instead of the repository's index.
    pub fn output(
        &self,
        arguments: &[&str],
        input: Option<&[u8]>,
        index: Option<&Path>,
    ) -> Result<Output, StoreError> {
        let mut command = self.command();
        command.args(arguments);
        if let Some(index) = index {
            command.env("GIT_INDEX_FILE", index);
        }
        if ["commit-tree", "fetch"].contains(&arguments[0]) {
            self.identify(&mut command)?;
        }
        run(&mut command, input)
    }

    /// Runs a git command and returns its output without the final line break. Fails if git fails.
    pub fn text(
        &self,
        arguments: &[&str],
        input: Option<&[u8]>,
        index: Option<&Path>,
    ) -> Result<String, StoreError> {
        let output = self.output(arguments, input, index)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
        }
        Err(failed(arguments, &output))
    }

    /// Runs a git command and returns its output unchanged.
    pub fn bytes(&self, arguments: &[&str]) -> Result<Vec<u8>, StoreError> {
        let output = self.output(arguments, None, None)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(failed(arguments, &output))
    }

    /// Sets an identity for commits if git has none, as in most containers.
    fn identify(&self, command: &mut Command) -> Result<(), StoreError> {
        for (variable, who) in [
            ("GIT_AUTHOR_IDENT", "AUTHOR"),
            ("GIT_COMMITTER_IDENT", "COMMITTER"),
        ] {
            let mut known = self.command();
            known.args(["var", variable]);
            if !run(&mut known, None)?.status.success() {
                command
                    .env(format!("GIT_{who}_NAME"), "rankscope")
                    .env(format!("GIT_{who}_EMAIL"), "rankscope@localhost");
            }
        }
        Ok(())
    }
}

fn run(command: &mut Command, input: Option<&[u8]>) -> Result<Output, StoreError> {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StoreError::NoGit,
        _ => StoreError::GitStart(error),
    })?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        // If git ends early, its exit status shows why.
        let _ = stdin.write_all(input);
    }
    child.wait_with_output().map_err(StoreError::GitStart)
}

/// Creates an error from the output of a failed git command.
pub fn failed(arguments: &[&str], output: &Output) -> StoreError {
    StoreError::Git {
        command: arguments.join(" "),
        said: message(output),
    }
}

/// Returns the message of git in one line.
pub fn message(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("hint:"))
        .collect();
    if lines.is_empty() {
        format!("exited with {}", output.status)
    } else {
        lines.join("; ")
    }
}
