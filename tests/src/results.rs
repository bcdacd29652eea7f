//! What rankscope makes of a run directory, through its own program: as a user sees it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::artefacts;
use crate::process::{self, Ended};

/// `rankscope ARGUMENTS`, however it ends.
pub fn rankscope<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Ended {
    let mut command = Command::new(artefacts::program());
    process::clean(&mut command);
    command.args(arguments);
    process::run(command, Duration::from_secs(300))
}

/// `rankscope merge DIRECTORY`.
///
/// # Panics
/// If it fails.
pub fn merge(directory: &Path) -> Ended {
    succeed(rankscope(["merge", text(directory)]))
}

/// `rankscope report --json DIRECTORY`. What the numbers mean is the collector's to say.
///
/// # Panics
/// If it fails or prints no JSON.
pub fn report(directory: &Path) -> Value {
    let ended = succeed(rankscope(["report", "--json", text(directory)]));
    serde_json::from_slice(&ended.stdout)
        .unwrap_or_else(|error| panic!("rankscope report --json: {error}:\n{}", ended.text()))
}

fn text(directory: &Path) -> &str {
    directory
        .to_str()
        .expect("temporary directories have plain names")
}

fn succeed(ended: Ended) -> Ended {
    assert!(
        ended.code() == 0,
        "rankscope ended with {}:\n{}{}",
        ended.code(),
        ended.text(),
        ended.complaints()
    );
    ended
}
