//! The job of a key, from what a recording says of its command.

use rankscope_formats::session::Session;
use std::path::Path;

/// A short name of the job that a session is of, for example `train-4-ranks`: the script or program, and how many ranks ran it.
///
/// Arguments are no part of it: an output directory with a date would make every run a job of its own.
pub fn job(session: &Session, ranks: u32) -> Option<String> {
    let line = session
        .ranks
        .iter()
        .find_map(|rank| rank.command_line.as_deref())?;
    let plural = if ranks == 1 { "rank" } else { "ranks" };
    Some(format!("{}-{ranks}-{plural}", program(line)?))
}

/// The script, the module or else the program of a command line.
fn program(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let first = stem(words.first()?)?;
    if !["python", "pypy"].iter().any(|name| first.starts_with(name)) {
        return Some(first);
    }
    let mut words = words.iter().skip(1);
    while let Some(&word) = words.next() {
        match word {
            "-m" => return words.next().map(|module| (*module).to_owned()),
            "-c" => return Some(first),
            // Options that take a value.
            "-W" | "-X" => {
                words.next();
            }
            option if option.starts_with('-') => {}
            script => return stem(script),
        }
    }
    Some(first)
}

/// The name of a file without its folders and without `.py`.
fn stem(path: &str) -> Option<String> {
    let name = Path::new(path).file_name()?.to_str()?;
    Some(name.strip_suffix(".py").unwrap_or(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_names_the_job() {
        for (line, name) in [
            ("python train.py", "train"),
            (
                "/usr/bin/python3.11 -u -W ignore jobs/train.py --lr 0.1 x.py",
                "train",
            ),
            ("python -m my.package --x", "my.package"),
            ("python -c pass", "python"),
            ("./solver -n 4", "solver"),
            ("solver", "solver"),
        ] {
            assert_eq!(program(line).as_deref(), Some(name), "{line}");
        }
        assert_eq!(program(""), None);
    }
}
