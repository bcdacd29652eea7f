//! Operations that failed or timed out.

use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts};

/// Share of failed operations from which it is critical (METRICS.md, section 10), percent.
const CRITICAL_PERCENT: u64 = 5;

/// Operations failed.
pub const RULE: Rule = Rule {
    id: "failed-operations",
    title: "Operations failed or timed out",
    means: "Calls threw, returned an error or were aborted: a peer died, a time limit passed, arguments were wrong.",
    fires: "At least one operation failed; critical if more than 5 % did, or a process of the job ended without closing its log.",
    silent: "Jobs without a failed operation; calls that a program only tests for completion.",
    find: Some(find),
    of_stated: None,
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
    .severity(if is_often || died { "critical" } else { "warning" })
    .cause("a peer that died or hung, a time limit, or wrong arguments; the first failure in time is the cause of the others")
    .advice("look at the rank that ended first and at what its peers were doing then")
    .holds("failed operations", totals.failed as f64, ">", 0.0, "");
    if is_often {
        let share = totals.failed as f64 / totals.operations.max(1) as f64 * 100.0;
        draft = draft.holds("of all operations", share, ">", CRITICAL_PERCENT as f64, "%");
    }
    for class in facts.session.operations.iter().filter(|class| class.failed > 0) {
        draft = draft.evidence(format!(
            "{}: {} of {} calls",
            class.operation, class.failed, class.operations
        ));
    }
    vec![draft.without_cost("what a failure costs cannot be told")]
}
