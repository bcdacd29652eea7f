//! What a person should know: who is late and what it costs, what slows the job down, and what went wrong.
//!
//! One file per rule or family of rules. [`rules::RULES`] lists them all with what each means, when it fires and when it
//! does not; `rankscope rules` prints that list. A rule stays silent rather than cry at a run without a fault.

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

use crate::model::stated::Stated;
use rankscope_formats::session::{Finding, Session};

/// Everything that the rules find in what a merge learnt, the costliest first.
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

/// Puts the findings that need what a person states beside those of the merge; what earlier statements gave goes.
pub fn state(session: &mut Session, stated: &Stated) {
    let by_statement = |kind: &str| {
        let rule = RULES.iter().find(|rule| rule.id == kind);
        rule.is_some_and(|rule| rule.of_stated.is_some())
    };
    let mut findings = std::mem::take(&mut session.findings);
    findings.retain(|finding| !by_statement(&finding.kind));
    for find in RULES.iter().filter_map(|rule| rule.of_stated) {
        findings.extend(
            find(session, stated)
                .into_iter()
                .map(|draft| draft.finish(session)),
        );
    }
    rank(&mut findings);
    session.findings = findings;
}
