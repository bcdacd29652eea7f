//! The first sentence of a report, and which rank is late.

use super::finding::{finding_line, level};
use super::line::{Level, Line};
use crate::figures::{self, quoted, time};
use crate::prose::{Prose, prose};
use rankscope_formats::session::Severity;
use rankscope_formats::session::{Finding, Session};

/// Whether a finding names late ranks.
pub fn is_about_lateness(finding: &Finding) -> bool {
    matches!(
        finding.kind.as_str(),
        "slow-host" | "late-rank" | "rotating-lateness"
    )
}

/// Findings that matter more than any cost: the job did not end, or its results may be wrong.
const GRAVE: [&str; 6] = [
    "never-finished",
    "mismatched",
    "replay-counts",
    "communicator-error",
    "failed-operations",
    "breakdown",
];

/// Returns the first sentence: subject, seconds, share and cause of the costliest finding.
pub fn headline(session: &Session) -> Line {
    let totals = &session.totals;
    let has_kernels = session.activity.iter().any(|entry| entry.kernels > 0);
    let is_grave = |finding: &Finding| GRAVE.contains(&finding.kind.as_str());
    let is_empty = totals.operations == 0 && totals.in_flight == 0 && !has_kernels;
    if is_empty && !session.findings.iter().any(is_grave) {
        return Line::new(
            Level::Warning,
            "No analysis is possible: the recordings have no operations.",
        );
    }
    let findings = || session.findings.iter().enumerate();
    let title = |at: usize, finding: &Finding| {
        Prose::from(quoted(&finding.title, format!("/findings/{at}/title"))).capitalised()
    };
    let grave = findings().find(|(_, finding)| {
        finding.severity == Severity::Critical && GRAVE.contains(&finding.kind.as_str())
    });
    if let Some((at, finding)) = grave {
        return Line::new(Level::Bad, prose![title(at, finding), "."]);
    }
    // The findings are ranked by their cost.
    if let Some((at, finding)) = findings().find(|(_, finding)| finding.own_cost_ns() > 0) {
        let from = format!("/findings/{at}");
        let subject: Prose = match &finding.subject {
            Some(subject) => quoted(subject, format!("{from}/subject")).into(),
            None => quoted(&finding.kind, format!("{from}/kind")).into(),
        };
        let of_run = finding.cost_of_run.get().ok().map(|ratio| {
            let of_run = figures::share(ratio, &format!("{from}/cost_of_run/value"));
            prose![", ", of_run, " of the run"]
        });
        let cause = finding
            .cause
            .as_ref()
            .map(|cause| prose![": ", quoted(cause, format!("{from}/cause"))]);
        let cost = time(
            *finding.cost_ns.get().unwrap_or(&0),
            format!("{from}/cost_ns/value"),
        );
        let text = prose![
            subject.capitalised(),
            " costs this job ",
            cost,
            of_run,
            cause,
            "."
        ];
        return Line::new(level(finding.severity), text);
    }
    if let Some((at, first)) = findings().find(|(_, finding)| finding.severity != Severity::Note) {
        let text = prose![title(at, first), "; its cost is not known."];
        return Line::new(level(first.severity), text);
    }
    let line = verdict(session);
    if line.level == Level::Good {
        Line::new(Level::Good, "No finding costs this job time.")
    } else {
        Line::new(
            line.level,
            prose!["No finding costs this job time; ", line.text, "."],
        )
    }
}

/// Returns which rank is late, that none is, or why this is not known.
pub fn verdict(session: &Session) -> Line {
    let mut findings = session.findings.iter().enumerate();
    if let Some((at, finding)) = findings.find(|(_, finding)| is_about_lateness(finding)) {
        return finding_line(at, finding);
    }
    if session.ranks.len() < 2 {
        return Line::new(Level::Plain, "a single rank has no peers to wait for");
    }
    let matching = &session.matching;
    if matching.complete == matching.shared_without_figures {
        let reason = if session.totals.enqueued > 0 {
            Some("the completion of operations was not recorded")
        } else if matching.complete > 0 {
            Some("their launches have no figures")
        } else {
            None
        };
        if let Some(reason) = reason {
            return Line::new(Level::Plain, format!("late ranks cannot be determined: {reason}"));
        }
    }
    let unknown = match (&session.steps.duration_ns.get(), session.waits.reason.as_deref()) {
        (Err(reason), _) => quoted(*reason, "/steps/duration_ns/reason"),
        (_, Some(reason)) => quoted(reason, "/waits/reason"),
        (Ok(_), None) => return Line::new(Level::Good, "no rank is late"),
    };
    Line::new(Level::Plain, prose!["late ranks cannot be determined: ", unknown])
}
