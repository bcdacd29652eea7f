//! Communicators that take long to build.

use crate::findings::draft::part::OUTSIDE;
use crate::findings::rule::Rule;
use crate::findings::shown::{counted, percent};
use crate::findings::{Draft, Facts, shown};

/// Minimum time in calls that build communicators, mean over ranks, in ns, …
const MIN_NS: i64 = 10_000_000_000;
/// … and in percent of the run.
const MIN_PERCENT: i64 = 5;

/// Communicators take long to build.
pub const RULE: Rule = Rule {
    id: "slow-start",
    title: "Building communicators takes a large part of the run",
    means: "Ranks find each other and connect when a communicator is built. A late rank makes all others wait.",
    fires: "On average, a rank spends at least 10 s and at least 5 % of the run in calls that build communicators.",
    silent: "Shorter starts. Long starts of long runs.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let connect = &facts.session.connect;
    let ranks = facts.session.ranks.len() as i64;
    let run = facts.session.axis.end_ns - facts.session.axis.start_ns;
    let mean = connect.duration_rank_ns / ranks.max(1);
    if mean < MIN_NS || mean * 100 < run * MIN_PERCENT {
        return Vec::new();
    }
    let draft = Draft::new(
        RULE.id,
        "building communicators",
        format!("a rank spends {} of the run building communicators: {}", percent(mean, run), shown(mean)),
    )
    .evidence(format!(
        "{} on all ranks, the longest took {}",
        counted(connect.calls, "call"),
        shown(connect.longest_ns)
    ))
    .cause("some ranks start later than others, the store responds slowly, or many communicators are built one after \
            another")
    .advice(
        "start all ranks at once (images pulled, file systems warm); create fewer groups, create them lazily, or \
         split them from one (ncclCommSplit, split_group)",
    )
    .holds("time per rank", mean as f64, ">=", MIN_NS as f64, "ns")
    .holds("share of the run", mean as f64 / run.max(1) as f64 * 100.0, ">=", MIN_PERCENT as f64, "%")
    .cost(mean, "time in calls that build communicators, mean over ranks", &[OUTSIDE]);
    vec![draft]
}
