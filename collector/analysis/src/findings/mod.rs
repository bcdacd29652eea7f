//! Findings: which rank is late and what it costs, what slows the job down, and what failed.
//!
//! Each rule, or family of rules, has its own file. [`catalogue::RULES`] lists all rules with their meaning, their
//! condition and the cases in which they stay silent. `rankscope rules` prints this list. A rule stays silent rather
//! than report a run without a fault.
//!
//! Rules with several conditions have the same parts: `measure` selects the evidence, `fires` compares it with the
//! thresholds, and `draft` writes the finding.

pub mod catalogue;
pub mod chance;
pub mod devices;
mod draft;
pub mod environment;
mod facts;
pub mod network;
mod ranking;
pub mod ranks;
pub mod rule;
mod shown;
pub mod steps;

mod recording;

pub use crate::findings::catalogue::RULES;
pub use crate::findings::recording::coverage::{contradiction, contradictory};
pub use chance::binomial_tail;
pub use draft::Draft;
pub use facts::Facts;
pub use ranking::rank;
pub use rule::Rule;
pub use shown::{in_unit, shown};

use crate::model::declared::DeclaredLimits;
use rankscope_formats::session::{Finding, Session};

/// Returns all findings of a merge, the costliest first.
pub fn all(facts: &Facts<'_>) -> Vec<Finding> {
    let mut out: Vec<Finding> = RULES
        .iter()
        .filter_map(|rule| rule.find)
        .flat_map(|find| find(facts))
        .map(|draft| draft.finish(facts.session))
        .collect();
    rank(&mut out);
    out
}

/// Adds the findings that need declared limits to those of the merge. Replaces the findings of earlier limits.
pub fn state(session: &mut Session, declared: &DeclaredLimits) {
    let needs_limits = |kind: &str| {
        let rule = RULES.iter().find(|rule| rule.id == kind);
        rule.is_some_and(|rule| rule.find_declared.is_some())
    };
    let mut findings = std::mem::take(&mut session.findings);
    findings.retain(|finding| !needs_limits(&finding.kind));
    for find in RULES.iter().filter_map(|rule| rule.find_declared) {
        findings.extend(
            find(session, declared)
                .into_iter()
                .map(|draft| draft.finish(session)),
        );
    }
    rank(&mut findings);
    session.findings = findings;
}
