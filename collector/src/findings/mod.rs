//! What a person should know: who is late and what it costs, what slows the job down, and what went wrong.
//!
//! One file per rule or family of rules. [`rules::RULES`] lists them all with what each means, when it fires and when it
//! does not; `rankscope rules` prints that list. A rule stays silent rather than cry at a run without a fault.

pub mod chance;
mod draft;
mod facts;
mod ranking;
pub mod rules;
mod shown;

mod another_profiler;
mod crowded_host;
mod different_versions;
mod exposed_communication;
mod failed_operations;
mod imbalance;
mod lateness;
mod matching;
mod nccl_variables;
mod never_finished;
mod pauses;
mod periodic_pause;
mod pipeline_imbalance;
mod recording;
mod recurring_stall;
mod restart;
mod slow_host;
mod slow_link;
mod slow_start;
mod small_buckets;
mod small_messages;
mod stated;
mod synchronising;
mod unread_variables;
mod unused_parameters;
mod utilisation;

pub use chance::binomial_tail;
pub use draft::Draft;
pub use facts::Facts;
pub use ranking::rank;
pub use recording::{contradiction, contradictory};
pub use rules::{RULES, Rule};
pub use shown::{in_unit, shown};

use crate::stated::Stated;
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
