//! Communicators that take long to be built.

use crate::findings::draft::part::OUTSIDE;
use crate::findings::rule::Rule;
use crate::findings::shown::{counted, percent};
use crate::findings::{Draft, Facts, shown};

/// Time of the mean rank from which it is told, ns …
const LEAST_NS: i64 = 10_000_000_000;
/// … and of the run, percent.
const LEAST_PERCENT: i64 = 5;

/// Building communicators takes long.
pub const RULE: Rule = Rule {
    id: "slow-start",
    title: "Building communicators takes a large part of the run",
    means: "Ranks find each other and connect when a communicator is made; who comes late there makes all others wait.",
    fires: "The mean rank spends at least 10 s and at least 5 % of the run in calls that build communicators.",
    silent: "Shorter starts, and long ones in long runs.",
    find: Some(find),
    of_stated: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let connect = &facts.session.connect;
    let ranks = facts.session.ranks.len() as i64;
    let run = facts.session.axis.end_ns - facts.session.axis.start_ns;
    let mean = connect.duration_rank_ns / ranks.max(1);
    if mean < LEAST_NS || mean * 100 < run * LEAST_PERCENT {
        return Vec::new();
    }
    let draft = Draft::new(
        RULE.id,
        "building communicators",
        format!("a rank spends {} of the run in building communicators: {}", percent(mean, run), shown(mean)),
    )
    .evidence(format!(
        "{} over all ranks, the longest {}",
        counted(connect.calls, "call"),
        shown(connect.longest_ns)
    ))
    .cause("some ranks start later than others, the store answers slowly, or many communicators are made one after another")
    .advice(
        "start all ranks at once (images pulled, file systems warm), make fewer groups, make them lazily, or split from one \
         (ncclCommSplit, split_group)",
    )
    .holds("time of the mean rank", mean as f64, ">=", LEAST_NS as f64, "ns")
    .holds("of the run", mean as f64 / run.max(1) as f64 * 100.0, ">=", LEAST_PERCENT as f64, "%")
    .cost(mean, "time in calls that build communicators, by the mean rank", &[OUTSIDE]);
    vec![draft]
}
