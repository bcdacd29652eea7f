//! Paths among the arguments: URLs of local files become paths, and commands that need files of this machine refuse others.

use anyhow::{Result, bail};
use rankscope_formats::files::is_remote;
use rankscope_remote::address::local_paths;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Commands that read and write object stores.
const REMOTE: [&str; 7] = ["merge", "report", "export", "heatmap", "compare", "sql", "view"];

/// Prepares the arguments of the program. The command of a job stays as it is.
///
/// # Errors
/// A command that needs files of this machine got a URL.
pub fn prepared(arguments: impl IntoIterator<Item = OsString>) -> Result<Vec<OsString>> {
    let mut own: Vec<OsString> = arguments.into_iter().collect();
    let command = own
        .get(1)
        .and_then(|command| command.to_str())
        .unwrap_or_default()
        .to_owned();
    if REMOTE.contains(&command.as_str()) {
        return Ok(local_paths(own));
    }
    let end = own
        .iter()
        .position(|argument| argument == "--")
        .unwrap_or(own.len());
    let of_job = own.split_off(end);
    let mut own = local_paths(own);
    for argument in own.iter().skip(1) {
        let value = value_of(argument);
        if is_remote(Path::new(value)) {
            bail!(
                "`rankscope {command}` needs a directory of this machine, not {}; these commands take URLs: {}",
                value.display(),
                REMOTE.join(", ")
            );
        }
    }
    own.extend(of_job);
    Ok(own)
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
            "rankscope run -o s3://b/run -- train",
            "rankscope status --x=gs://b/run",
            "rankscope top az://c/run",
        ] {
            let error = of(line).expect_err(line).to_string();
            assert!(
                error.contains("://b/run") || error.contains("az://c/run"),
                "{error}"
            );
        }
        let same = "rankscope run -o run -- train --data s3://b/data file:///x";
        assert_eq!(
            of(same).expect("a job"),
            same.split(' ').map(OsString::from).collect::<Vec<_>>()
        );
        let merge = of("rankscope merge s3://b/run -o file:///tmp/x").expect("remote");
        assert_eq!(merge.last().and_then(|last| last.to_str()), Some("/tmp/x"));
    }
}
