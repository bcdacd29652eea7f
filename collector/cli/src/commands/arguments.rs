//! Paths among the arguments: `file://` URLs become paths, and commands that need files of this machine refuse other URLs.

use anyhow::{Result, bail};
use rankscope_formats::files::is_remote;
use rankscope_remote::address::local_paths;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Commands that read and write object stores.
const REMOTE: [&str; 7] = ["merge", "report", "export", "heatmap", "compare", "sql", "view"];

/// Commands whose arguments contain the command of a job. They check their directories themselves.
const OF_JOBS: [&str; 2] = ["run", "doctor"];

/// Returns the arguments of the program, with paths instead of `file://` URLs. Those of a job stay unchanged.
///
/// # Errors
/// A command that needs files of this machine got a URL.
pub fn prepared(arguments: impl IntoIterator<Item = OsString>) -> Result<Vec<OsString>> {
    let own: Vec<OsString> = arguments.into_iter().collect();
    let is_command = |argument: &&str| !argument.starts_with('-');
    let command = own
        .iter()
        .skip(1)
        .filter_map(|argument| argument.to_str())
        .find(is_command);
    let command = command.unwrap_or_default().to_owned();
    if OF_JOBS.contains(&command.as_str()) {
        return Ok(own);
    }
    if !REMOTE.contains(&command.as_str()) {
        for argument in own.iter().skip(1) {
            refuse_url(Path::new(value_of(argument)), &command)?;
        }
    }
    Ok(local_paths(own))
}

/// Checks a path of a command, or of its option, that needs files of this machine.
///
/// # Errors
/// The path is a URL.
pub fn refuse_url(path: &Path, command: &str) -> Result<()> {
    if is_remote(path) {
        bail!(
            "`rankscope {command}` needs a path of this machine, not {}; these commands take URLs: {}",
            path.display(),
            REMOTE.join(", ")
        );
    }
    Ok(())
}

/// Returns the value of an option such as `--output=DIR`, or the argument itself.
fn value_of(argument: &OsStr) -> &OsStr {
    let text = argument.to_str().filter(|text| text.starts_with("--"));
    text.and_then(|text| text.split_once('='))
        .map_or(argument, |(_, value)| OsStr::new(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Vec<OsString>> {
        prepared(line.split(' ').map(OsString::from))
    }

    #[test]
    fn commands_on_this_machine_refuse_urls_and_jobs_keep_theirs() {
        for line in [
            "rankscope status --x=gs://b/run",
            "rankscope top az://c/run",
            "rankscope -v dump s3://b/run",
        ] {
            let error = of(line).expect_err(line).to_string();
            assert!(
                error.contains("://b/run") || error.contains("az://c/run"),
                "{error}"
            );
        }
        for same in [
            "rankscope run -o run -- train --data s3://b/data file:///x",
            "rankscope run train --init_method=file:///a%20b --data=s3://b/x",
            "rankscope doctor train file:///x",
        ] {
            assert_eq!(
                of(same).expect("a job"),
                same.split(' ').map(OsString::from).collect::<Vec<_>>()
            );
        }
        for line in [
            "rankscope merge s3://b/run -o file:///tmp/x",
            "rankscope -v report file:///tmp/x",
        ] {
            let merge = of(line).expect("remote");
            assert_eq!(merge.last().and_then(|last| last.to_str()), Some("/tmp/x"));
        }
    }
}
