//! Ranks that were communicating when their log ended.

use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts};

/// Ranks that are told one by one.
const MOST_RANKS: usize = 16;

/// Who still runs is always in the middle of something. It is stuck only if that lasts longer than so many steps, and than
/// so long.
const STEPS: i64 = 5;
/// See [`STEPS`], ns.
const LONG_NS: i64 = 10_000_000_000;

/// Operations never finished.
pub const RULE: Rule = Rule {
    id: "never-finished",
    title: "Ranks were in the middle of communicating when the log ended",
    means: "A hang, or a kill.",
    fires: "A log ends with operations in progress or threads that are blocked. Of a process that still runs: one has lasted \
            longer than 10 s and than 5 median steps.",
    silent: "Logs that end between operations; a job that goes on while it is looked at.",
    find: Some(find),
    of_stated: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let session = facts.session;
    let steps_ns = session.steps.median_ns.value.unwrap_or(0).saturating_mul(STEPS);
    let patience_ns = steps_ns.max(LONG_NS);
    let stuck: Vec<_> = session
        .ranks
        .iter()
        .filter(|rank| !rank.in_flight.is_empty())
        .filter(|rank| rank.ending != "running" || rank.in_flight_for_ns.is_some_and(|ns| ns > patience_ns))
        .collect();
    if stuck.is_empty() {
        return Vec::new();
    }
    let who = if stuck.len() == 1 {
        "1 rank was".to_owned()
    } else {
        format!("{} ranks were", stuck.len())
    };
    let goes_on = stuck.iter().all(|rank| rank.ending == "running");
    let what = if goes_on {
        "in the middle of communicating, and did not get on"
    } else {
        "in the middle of communicating when the log ended"
    };
    let mut draft = Draft::new(
        RULE.id,
        who.rsplit_once(' ').map_or(who.as_str(), |(ranks, _)| ranks),
        format!("{who} {what}"),
    )
    .severity(if session.totals.in_flight > 0 || goes_on {
        "critical"
    } else {
        "note"
    })
    .cause("the job hung or was killed, or it still runs")
    .advice("if the job hung or was killed, a rank that is not among these did not come: look at it first")
    .holds(
        "ranks in the middle of an operation",
        stuck.len() as f64,
        ">",
        0.0,
        "",
    )
    .ranks(stuck.iter().map(|rank| rank.index));
    for rank in stuck.iter().take(MOST_RANKS) {
        let shown: Vec<&str> = rank.in_flight.iter().take(3).map(String::as_str).collect();
        let more = if rank.in_flight.len() > 3 { ", …" } else { "" };
        let since = rank
            .in_flight_for_ns
            .map_or_else(String::new, |ns| format!(", for {}", crate::findings::shown(ns)));
        draft = draft.evidence(format!(
            "{} ({}{since}): {}{more}",
            rank.name,
            rank.ending,
            shown.join("; ")
        ));
    }
    vec![draft.without_cost("what a job that did not end would have cost cannot be told")]
}
