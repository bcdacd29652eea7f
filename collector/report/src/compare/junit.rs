//! A comparison as JUnit XML, for all CI systems that show tests. There is one case per gate, and one per property that
//! runs must have in common.
//!
//! An inconclusive result is an error, not a failure: the test could not be carried out. Jenkins and GitLab show errors
//! as prominently as failures, but skipped cases are nearly invisible. If the user accepts inconclusive results, the
//! exit status is 0 and the case is skipped.

use crate::compare::phrases;
use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};
use rankscope_compare::comparable::NAMES;
use rankscope_formats::comparison::{Comparison, Difference, GateResult};
use rankscope_formats::comparison::{DifferenceEffect, GateVerdict};

/// Returns the XML, or an error if it cannot be written.
pub fn comparison_junit(comparison: &Comparison) -> Result<String, SerializeError> {
    let mut suite = TestSuite::new("rankscope compare");
    suite.add_property(("verdict", comparison.verdict.name()));
    suite.add_property(("headline", comparison.headline.as_str()));
    for (at, gate) in comparison.gates.iter().enumerate() {
        suite.add_test_case(of_gate(comparison, at, gate));
    }
    let others = comparison
        .differences
        .iter()
        .map(|difference| difference.what.as_str());
    let mut checks = NAMES.to_vec();
    for other in others {
        if !checks.contains(&other) {
            checks.push(other);
        }
    }
    for check in checks {
        suite.add_test_case(of_check(comparison, check));
    }
    let said: Vec<&str> = [comparison.headline.as_str()]
        .into_iter()
        .chain(comparison.reasons.iter().map(String::as_str))
        .collect();
    suite.set_system_out(said.join("\n"));
    let mut report = Report::new("rankscope compare");
    report.add_test_suite(suite);
    report.to_string()
}

fn of_gate(comparison: &Comparison, at: usize, gate: &GateResult) -> TestCase {
    let values = phrases::metric(comparison, &gate.metric).map_or_else(String::new, |(from, metric)| {
        phrases::values(metric, &from).plain()
    });
    let said = phrases::gate_reason(comparison, at).plain();
    let status = match gate.verdict {
        GateVerdict::Pass => TestCaseStatus::success(),
        GateVerdict::Fail => non_success(NonSuccessKind::Failure, "regression", &said, &values),
        GateVerdict::Inconclusive => undecided(comparison, "inconclusive", &said, &values),
    };
    let mut case = TestCase::new(phrases::gate_name(comparison, at).plain(), status);
    case.set_classname("rankscope.gate");
    if !values.is_empty() {
        case.set_system_out(values);
    }
    case
}

fn of_check(comparison: &Comparison, what: &str) -> TestCase {
    let found: Vec<&Difference> = comparison
        .differences
        .iter()
        .filter(|difference| difference.what == what)
        .collect();
    let texts: Vec<&str> = found.iter().map(|difference| difference.text.as_str()).collect();
    let said = texts.join("\n");
    let is_accepted = found
        .iter()
        .all(|difference| difference.effect == DifferenceEffect::Accepted);
    let status = if is_accepted {
        TestCaseStatus::success()
    } else {
        undecided(comparison, "not comparable", &said, &said)
    };
    let mut case = TestCase::new(format!("comparable: {what}"), status);
    case.set_classname("rankscope.comparable");
    if is_accepted && !said.is_empty() {
        case.set_system_out(format!("accepted: {said}"));
    }
    case
}

/// Returns an error, or skipped if the user accepts inconclusive results.
fn undecided(comparison: &Comparison, kind: &str, message: &str, description: &str) -> TestCaseStatus {
    if comparison.exit_status == 0 {
        let mut status = TestCaseStatus::skipped();
        status.set_message(message).set_type(kind);
        return status;
    }
    non_success(NonSuccessKind::Error, kind, message, description)
}

fn non_success(kind: NonSuccessKind, type_: &str, message: &str, description: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(message).set_type(type_);
    // Most CI systems show the text of the element, but not all of them show the message as well.
    let lines = if description.is_empty() || description == message {
        message.to_owned()
    } else {
        format!("{message}\n{description}")
    };
    status.set_description(lines);
    status
}
