//! A finding: its title, evidence, cost and details.

use super::line::{Level, Line};
use crate::figures::{self, count, quoted, time};
use crate::prose::{Prose, prose};
use rankscope_formats::session::Severity;
use rankscope_formats::session::{Condition, Finding, LookAt};

/// Formats a finding as a sentence; `at` is its position in the list.
pub fn finding_line(at: usize, finding: &Finding) -> Line {
    let from = format!("/findings/{at}");
    let line = Line::new(
        level(finding.severity),
        quoted(&finding.title, format!("{from}/title")),
    );
    match &finding.advice {
        Some(advice) => line.with_advice(quoted(advice, format!("{from}/advice"))),
        None => line,
    }
}

/// Returns the severity of a sentence for the severity of a finding.
pub fn level(severity: Severity) -> Level {
    match severity {
        Severity::Critical => Level::Bad,
        Severity::Warning => Level::Warning,
        Severity::Note | Severity::Unknown => Level::Plain,
    }
}

/// Returns the cost of a finding if it is known.
pub fn cost(at: usize, finding: &Finding) -> Option<Prose> {
    let from = format!("/findings/{at}");
    let cost = time(*finding.cost_ns.get().ok()?, format!("{from}/cost_ns/value"));
    let mut text = prose!["cost: ", cost, " of job time"];
    if let Ok(ratio) = finding.cost_of_run.get() {
        let of_run = figures::share(ratio, &format!("{from}/cost_of_run/value"));
        text.push(prose![", ", of_run, " of the run"]);
    }
    if let Ok(ratio) = finding.cost_of_step.get() {
        let of_step = figures::share(ratio, &format!("{from}/cost_of_step/value"));
        text.push(prose![", ", of_step, " of a step"]);
    }
    if finding.shared_ns > 0 {
        let others = finding.shared_with.iter().enumerate();
        text.push(prose![
            "; up to ",
            time(finding.shared_ns, format!("{from}/shared_ns")),
            " of it may overlap with the cost of ",
            Prose::join(
                others.map(|(place, kind)| quoted(kind, format!("{from}/shared_with/{place}"))),
                ", "
            )
        ]);
    }
    Some(text)
}

/// Returns the evidence, the likely cause, and the cost of a finding, as sentences.
pub fn evidence(at: usize, finding: &Finding) -> Vec<Prose> {
    let from = format!("/findings/{at}");
    let evidence = finding.evidence.iter().enumerate();
    let evidence =
        evidence.map(|(place, text)| Prose::from(quoted(text, format!("{from}/evidence/{place}"))));
    let cause = finding
        .cause
        .iter()
        .map(|cause| prose!["likely cause: ", quoted(cause, format!("{from}/cause"))]);
    evidence.chain(cause).chain(cost(at, finding)).collect()
}

/// Returns the details of a finding, as sentences: its cost basis, the conditions that held, and examples.
pub fn details(at: usize, finding: &Finding) -> Vec<Prose> {
    let from = format!("/findings/{at}");
    let basis = finding.cost_basis.iter();
    let mut lines: Vec<Prose> = basis
        .map(|basis| prose!["cost basis: ", quoted(basis, format!("{from}/cost_basis"))])
        .collect();
    if !finding.path.is_empty() {
        let conditions = finding.path.iter().enumerate();
        let conditions = conditions.map(|(place, of)| condition(of, &format!("{from}/path/{place}")));
        lines.push(prose!["conditions: ", Prose::join(conditions, "; ")]);
    }
    if !finding.look_at.is_empty() {
        let moments = finding.look_at.iter().enumerate();
        let moments = moments.map(|(place, of)| moment(of, &format!("{from}/look_at/{place}")));
        lines.push(prose!["examples: ", Prose::join(moments, "; ")]);
    }
    lines
}

/// `late steps 98.0 % ≥ 50.0 %`.
pub fn condition(condition: &Condition, from: &str) -> Prose {
    let is = match condition.is.as_str() {
        ">=" => "≥",
        "<=" => "≤",
        other => other,
    };
    prose![
        quoted(&condition.what, format!("{from}/what")),
        " ",
        figures::in_unit(condition.value, &condition.unit, format!("{from}/value")),
        format!(" {is} "),
        figures::in_unit(condition.limit, &condition.unit, format!("{from}/limit"))
    ]
}

/// `step 7 at 1.20 s: rank 2 is 20 ms late`.
pub fn moment(moment: &LookAt, from: &str) -> Prose {
    prose![
        moment
            .step
            .map(|step| prose!["step ", count(step, format!("{from}/step")), " "]),
        "at ",
        time(moment.start_ns, format!("{from}/start_ns")),
        ": ",
        quoted(&moment.what, format!("{from}/what")),
        moment.instance.map(|number| prose![
            " (instance ",
            figures::plain(number, format!("{from}/instance")),
            ")"
        ])
    ]
}
