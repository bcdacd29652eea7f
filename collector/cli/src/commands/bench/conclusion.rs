//! What follows the measurement: stored pictures, the comparison, the exit status.

use super::options::Bench;
use crate::commands::print::message as print_message;
use crate::commands::{Exit, print};
use crate::launch::ending::Ending;
use anyhow::{Context, Result};
use rankscope_compare::bench as comparison;
use rankscope_formats::bench::BenchResults;
use rankscope_formats::session::Session;
use rankscope_formats::whole_file;
use rankscope_report::TextLayout;
use rankscope_report::bench::{curves, table};
use std::path::Path;

/// Name of the curves, without the ending.
const CURVES: &str = "bench";

/// Stores pictures and the final results, prints the conclusion, and returns the exit status.
pub fn conclude(
    bench: &Bench,
    mut results: BenchResults,
    session: Option<&Session>,
    directory: &Path,
    before: Option<&BenchResults>,
    ending: Ending,
) -> Result<Exit> {
    if let (Some(peak), Some(session)) = (&mut results.peak, session) {
        peak.small_transfer_p99_ns = session
            .small_launches
            .iter()
            .find(|small| small.scope == results.scope && small.transfer_ns.count > 0)
            .map(|small| small.transfer_ns.p99);
    }
    results
        .write(directory)
        .with_context(|| format!("cannot write the results into {}", directory.display()))?;
    for (extension, content) in [
        ("svg", curves::svg(&results)?.into_bytes()),
        ("png", curves::png(&results)?),
    ] {
        let path = directory.join(CURVES).with_extension(extension);
        whole_file::write(&path, &content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let compared = before.map(|before| comparison::compare(before, &results, bench.tolerance / 100.0));
    let missed = comparison::missed(&results, &bench.expect);
    if bench.json {
        print::json(&results)?;
    } else {
        let layout = TextLayout::of_stdout();
        print::text(&table::conclusion(&results, directory, &layout))?;
    }
    let mut exit = Exit::Fine;
    if let Some(compared) = &compared {
        let text = table::comparison(compared, bench.tolerance);
        if bench.json {
            print_message(text.trim_end());
        } else {
            print::text(&text)?;
        }
        if compared.is_slower() {
            exit = Exit::Regression;
        } else if compared.compared == 0 {
            exit = Exit::Inconclusive;
        }
    }
    for one in &missed {
        print_message(&one.to_string());
        exit = Exit::Regression;
    }
    if results.rows.iter().any(|row| row.wrong_elements.unwrap_or(0) > 0) {
        print_message("results are wrong: see the column wrong");
        exit = Exit::Unusable;
    }
    if ending != Ending::Status(0) {
        print_message(&format!(
            "the bench ended early ({ending}); {} rows were measured",
            results.rows.len()
        ));
        exit = Exit::Unusable;
    }
    Ok(exit)
}
