//! A comparison as commands of a GitHub workflow, which become annotations of the run. There is one line for each gate
//! that fails or is inconclusive, and one for the result.

use crate::compare::phrases;
use rankscope_formats::comparison::GateVerdict;
use rankscope_formats::comparison::{Comparison, GateResult};
use std::fmt::Write;

/// Maximum number of annotations of one level that GitHub shows per step.
const MOST: usize = 10;

/// Returns the commands, one per line.
pub fn comparison_workflow_commands(comparison: &Comparison) -> String {
    let mut out = String::new();
    for (verdict, level) in [
        (GateVerdict::Fail, "error"),
        (GateVerdict::Inconclusive, "warning"),
    ] {
        let gates: Vec<(usize, &GateResult)> = comparison
            .gates
            .iter()
            .enumerate()
            .filter(|(_, gate)| gate.verdict == verdict)
            .collect();
        // GitHub silently drops further annotations, so the last one names the rest.
        let single = if gates.len() > MOST { MOST - 1 } else { gates.len() };
        let (single, rest) = gates.split_at(single);
        for (at, gate) in single {
            let name = phrases::gate_name(comparison, *at).plain();
            command(&mut out, level, &name, &values_and_reason(comparison, *at, gate));
        }
        if !rest.is_empty() {
            let rules = rest
                .iter()
                .map(|(at, _)| phrases::gate_name(comparison, *at).plain());
            let rules: Vec<String> = rules.collect();
            let title = format!("{} more: {verdict}", rest.len());
            command(&mut out, level, &title, &rules.join("\n"));
        }
    }
    let title = format!("rankscope: {}", comparison.verdict);
    let mut message = comparison.headline.clone();
    for reason in &comparison.reasons {
        message.push('\n');
        message.push_str(reason);
    }
    command(&mut out, "notice", &title, &message);
    out
}

/// Returns the values of a gate, and the reason for its verdict.
fn values_and_reason(comparison: &Comparison, at: usize, gate: &GateResult) -> String {
    let reason = phrases::gate_reason(comparison, at).plain();
    match phrases::metric(comparison, &gate.metric) {
        Some((from, metric)) => format!("{}: {reason}", phrases::values(metric, &from).plain()),
        None => reason,
    }
}

fn command(out: &mut String, level: &str, title: &str, message: &str) {
    let _ = writeln!(out, "::{level} title={}::{}", property(title), data(message));
}

/// Escapes a message for the runner.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property for the runner.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_reads_everything_back() {
        assert_eq!(data("2 %\r\na: b"), "2 %25%0D%0Aa: b");
        assert_eq!(property("a,b:c>+2%"), "a%2Cb%3Ac>+2%25");
    }
}
