//! Ranks that were communicating when their log ended.

use super::{Draft, Facts, rules::Rule};

/// Ranks that are told one by one.
const MOST_RANKS: usize = 16;

/// Operations never finished.
pub const RULE: Rule = Rule {
    id: "never-finished",
    title: "Ranks were in the middle of communicating when the log ended",
    means: "A hang, a kill, or a job that was still running when it was merged.",
    fires: "A log ends with operations in progress or threads that are blocked.",
    silent: "Logs that end between operations.",
    find: Some(find),
    of_stated: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let session = facts.session;
    let stuck: Vec<_> = session
        .ranks
        .iter()
        .filter(|rank| !rank.in_flight.is_empty())
        .collect();
    if stuck.is_empty() {
        return Vec::new();
    }
    let who = if stuck.len() == 1 {
        "1 rank was".to_owned()
    } else {
        format!("{} ranks were", stuck.len())
    };
    let mut draft = Draft::new(
        RULE.id,
        who.rsplit_once(' ').map_or(who.as_str(), |(ranks, _)| ranks),
        format!("{who} in the middle of communicating when the log ended"),
    )
    .severity(if session.totals.in_flight > 0 {
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
        draft = draft.evidence(format!(
            "{} ({}): {}{more}",
            rank.name,
            rank.ending,
            shown.join("; ")
        ));
    }
    vec![draft.without_cost("what a job that did not end would have cost cannot be told")]
}
