//! Results of rankscope for a run directory, from its own program: as a user sees them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::artefacts;
use crate::process::{self, Ended};

/// Runs `rankscope ARGUMENTS` with any exit status.
pub fn rankscope<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Ended {
    let mut command = Command::new(artefacts::program());
    process::clean(&mut command);
    command.args(arguments);
    process::run(command, Duration::from_secs(300))
}

/// Runs `rankscope merge DIRECTORY`.
///
/// # Panics
/// If it fails.
pub fn merge(directory: &Path) -> Ended {
    succeed(rankscope(["merge", text(directory)]))
}

/// Runs `rankscope report --json DIRECTORY`. The collector defines the meaning of the numbers.
///
/// # Panics
/// If it fails or prints no JSON.
pub fn report(directory: &Path) -> Value {
    let ended = succeed(rankscope(["report", "--json", text(directory)]));
    let session = serde_json::from_slice(&ended.stdout)
        .unwrap_or_else(|error| panic!("rankscope report --json: {error}:\n{}", ended.text()));
    expect_possible_costs(&session);
    session
}

/// Asserts that no finding costs more than the time that contains the cost.
fn expect_possible_costs(session: &Value) {
    for finding in session["findings"].as_array().into_iter().flatten() {
        for share in ["cost_of_step", "cost_of_run"] {
            let ratio = &finding[share]["value"];
            let part = |name: &str| ratio[name].as_i64();
            assert!(part("numerator") <= part("denominator"), "{share}: {finding}");
        }
    }
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
