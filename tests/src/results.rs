//! Results of rankscope for a run directory, from its own program: as a user sees them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rankscope_formats::session::{OperationRow, TableReader, rank_path};
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

/// Merges a run directory and returns its report, as [`merge`] and [`report`] do.
pub fn session(directory: &Path) -> Value {
    merge(directory);
    report(directory)
}

/// Returns the operations of a rank in a merged run directory.
///
/// # Panics
/// If their table cannot be read.
pub fn operations(directory: &Path, rank: usize) -> Vec<OperationRow> {
    let rank = u32::try_from(rank).expect("a rank");
    let table = rank_path::<OperationRow>(&directory.join("session"), rank);
    TableReader::read_all(&table).unwrap_or_else(|error| panic!("{}: {error}", table.display()))
}

/// Returns an integer of a report, at a path such as `/totals/operations`.
///
/// # Panics
/// If there is none.
pub fn integer(report: &Value, path: &str) -> i64 {
    report
        .pointer(path)
        .and_then(Value::as_i64)
        .unwrap_or_else(|| panic!("no {path}"))
}

/// Returns the ranks that findings of a late rank name.
pub fn late_ranks(report: &Value) -> Vec<i64> {
    let findings = report["findings"].as_array().expect("a list");
    findings
        .iter()
        .filter(|finding| finding["kind"] == "late-rank")
        .flat_map(|finding| finding["ranks"].as_array().expect("a list"))
        .map(|rank| rank.as_i64().expect("a rank"))
        .collect()
}

/// Returns the cost per step of the first finding of a late rank, in milliseconds.
///
/// # Panics
/// If there is none.
pub fn late_cost_ms(session: &Value) -> f64 {
    let findings = session["findings"].as_array().expect("a list");
    let late = findings.iter().find(|finding| finding["kind"] == "late-rank");
    let cost = &late.expect("a finding")["cost_of_step"]["value"]["numerator"];
    cost.as_f64().expect("a number") / 1e6
}

/// Returns the number of reported problems whose text contains this.
pub fn problems_with(report: &Value, text: &str) -> usize {
    let problems = report["problems"]["listed"].as_array().expect("a list");
    problems
        .iter()
        .filter(|problem| problem["what"].as_str().is_some_and(|what| what.contains(text)))
        .count()
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
