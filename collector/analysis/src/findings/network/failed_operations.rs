//! Operations that failed or timed out.

use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts};
use rankscope_formats::session::Severity;

/// Share of failed operations above which the finding is critical (METRICS.md, section 10), in percent.
const CRITICAL_PERCENT: u64 = 5;

/// Failed operations.
pub const RULE: Rule = Rule {
    id: "failed-operations",
    title: "Operations failed or timed out",
    means: "Calls threw an exception, returned an error or were aborted. A peer died, a time limit expired, or \
            arguments were invalid.",
    fires: "At least one operation failed. Critical if more than 5 % of all operations failed, or if a process ended \
            without closing its log.",
    silent: "Jobs without a failed operation. Calls that only test for completion.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let totals = &facts.session.totals;
    if totals.failed == 0 {
        return Vec::new();
    }
    let is_often = totals.failed * 100 > totals.operations * CRITICAL_PERCENT;
    let died = facts.session.coverage.ranks_not_closed > 0;
    let mut draft = Draft::new(
        RULE.id,
        "operations",
        format!("{} of {} operations failed", totals.failed, totals.operations),
    )
    .severity(if is_often || died {
        Severity::Critical
    } else {
        Severity::Warning
    })
    .cause(
        "a peer died or hung, a time limit expired, or arguments were invalid; the earliest failure usually \
            causes the others",
    )
    .advice("check the rank that ended first, and the state of its peers at that time")
    .holds("failed operations", totals.failed as f64, ">", 0.0, "");
    if is_often {
        let share = totals.failed as f64 / totals.operations.max(1) as f64 * 100.0;
        draft = draft.holds(
            "failed operations as a share of all operations",
            share,
            ">",
            CRITICAL_PERCENT as f64,
            "%",
        );
    }
    for class in facts.session.operations.iter().filter(|class| class.failed > 0) {
        draft = draft.evidence(format!(
            "{}: {} of {} calls",
            class.operation, class.failed, class.operations
        ));
    }
    vec![draft.without_cost("the cost of a failure is unknown")]
}
