//! Job of a key, from the recorded command line.

use rankscope_formats::session::Session;
use std::path::Path;

/// Returns a short name of the session's job, for example `train-4-ranks`: the script or program, and the number of
/// ranks.
///
/// Arguments are not included: an output directory with a date would make every run a separate job.
pub fn job(session: &Session, ranks: u32) -> Option<String> {
    let line = session
        .ranks
        .iter()
        .find_map(|rank| rank.command_line.as_deref())?;
    let plural = if ranks == 1 { "rank" } else { "ranks" };
    Some(format!("{}-{ranks}-{plural}", program(line)?))
}

/// Returns the script, the module, or else the program of a command line.
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
            // These options take a value.
            "-W" | "-X" => {
                words.next();
            }
            option if option.starts_with('-') => {}
            script => return stem(script),
        }
    }
    Some(first)
}

/// Returns the file name without directories and without `.py`.
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
