//! Calls of different members that do not match.

use crate::findings::rule::Rule;
use crate::findings::shown::some;
use crate::findings::{Draft, Facts};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::LogEnding;
use rankscope_formats::session::Severity;
use rankscope_formats::session::{LookAt, Unmatched};

/// Maximum number of examples in the evidence.
const EXAMPLES: usize = 5;

/// The members of an operation disagree.
pub const MISMATCHED: Rule = Rule {
    id: "mismatched",
    title: "Members called an operation differently",
    means: "The members of an instance disagree in operation, data type, root or size. The result is undefined, or \
            the job hangs.",
    fires: "At least one instance is mismatched (METRICS.md, section 1).",
    silent: "Instances without the record of a member. V-variants, whose sizes may differ.",
    find: Some(mismatched),
    find_declared: None,
};

/// Messages without their other end.
pub const UNMATCHED: Rule = Rule {
    id: "unmatched-messages",
    title: "Messages without a matching send or receive",
    means: "A send has no receive, or a receive has no send. The message keeps its memory, or a rank waits forever.",
    fires: "Unmatched messages exist although the recording is complete: all ranks were recorded, all logs were \
            closed, and no record was dropped.",
    silent: "Runs with missing ranks, truncated logs or dropped records, and parts of runs. There, the other end may \
            exist without a record.",
    find: Some(unmatched),
    find_declared: None,
};

/// Graphs with different numbers of replays.
pub const REPLAYS: Rule = Rule {
    id: "replay-counts",
    title: "Ranks replayed a captured operation a different number of times",
    means: "One rank launched a CUDA graph with communication more often than another rank. The ranks are out of \
            step.",
    fires: "Replays of captured operations lack a member although the recording is complete: all ranks were \
            recorded, all logs were closed, and no record was dropped.",
    silent: "Ranks that replay different graphs. Runs without recorded replays: these need NCCL's profiler plugin or \
            --kernels.",
    find: Some(replays),
    find_declared: None,
};

fn moment(listed: &Unmatched) -> LookAt {
    LookAt {
        what: format!(
            "{} tag {}, sequence number {}",
            listed.operation, listed.tag, listed.sequence
        ),
        rank: listed.ranks.first().copied(),
        instance: None,
        step: None,
        start_ns: listed.start_ns,
        end_ns: listed.start_ns,
    }
}

fn of_kind<'a>(facts: &Facts<'a>, kind: &'a str) -> impl Iterator<Item = &'a Unmatched> {
    let listed = facts.session.matching.listed.iter();
    listed.filter(move |listed| listed.kind == kind)
}

fn mismatched(facts: &Facts<'_>) -> Vec<Draft> {
    let count = facts.session.matching.mismatched;
    if count == 0 {
        return Vec::new();
    }
    let verb = if count == 1 { "operation" } else { "operations" };
    let mut draft = Draft::new(
        MISMATCHED.id,
        "the members of an operation",
        format!("the members called {count} {verb} differently"),
    )
    .severity(Severity::Critical)
    .cause("ranks take different branches of the program, or pass tensors of different shapes")
    .advice("make all members of a collective agree in operation, data type, root and size")
    .holds("mismatched instances", count as f64, ">", 0.0, "")
    .look_at(of_kind(facts, "mismatched").map(moment));
    for listed in of_kind(facts, "mismatched").take(EXAMPLES) {
        draft = draft.evidence(format!(
            "{} tag {}: {}",
            listed.operation, listed.tag, listed.reason
        ));
    }
    vec![draft.without_cost("the cost of a wrong result is unknown")]
}

/// Returns true if the recording is complete, so that a missing record is a missing call.
fn is_whole(facts: &Facts<'_>) -> bool {
    let session = facts.session;
    session.part.is_none()
        && session.coverage.missing.is_empty()
        && session.totals.lost == 0
        && session.totals.in_flight == 0
        && session.ranks.iter().all(|rank| rank.ending == LogEnding::Closed)
}

fn unmatched(facts: &Facts<'_>) -> Vec<Draft> {
    let count = facts.session.matching.unmatched_messages;
    if count == 0 || !is_whole(facts) {
        return Vec::new();
    }
    let examples: Vec<String> = of_kind(facts, "unmatched-message")
        .take(EXAMPLES)
        .map(|listed| {
            let ranks: Vec<RankIndex> = listed.ranks.iter().copied().map(RankIndex).collect();
            let names = facts.names(&ranks);
            format!(
                "{} of {} (tag {})",
                listed.operation,
                names.join(", "),
                listed.tag
            )
        })
        .collect();
    let verb = if count == 1 {
        "message has"
    } else {
        "messages have"
    };
    let draft = Draft::new(
        UNMATCHED.id,
        "messages",
        format!("{count} {verb} no matching call on the other side"),
    )
    .severity(Severity::Warning)
    .evidence(some(&examples))
    .cause("the two sides use different tags or different numbers of messages")
    .advice("compare the sends of one side with the receives of the other, by tag and by order")
    .holds("unmatched messages", count as f64, ">", 0.0, "")
    .holds(
        "missing ranks, dropped records and unclosed logs",
        0.0,
        "=",
        0.0,
        "",
    )
    .look_at(of_kind(facts, "unmatched-message").map(moment));
    vec![draft.without_cost("the cost of an unmatched message is unknown")]
}

fn replays(facts: &Facts<'_>) -> Vec<Draft> {
    let count = facts.parts.measures.matches.incomplete_replays;
    if count == 0 || !is_whole(facts) {
        return Vec::new();
    }
    let listed: Vec<String> = facts
        .session
        .devices
        .iter()
        .map(|device| format!("{} {}", facts.name(RankIndex(device.rank)), device.replays))
        .collect();
    let draft = Draft::new(
        REPLAYS.id,
        "graph replays",
        format!("{count} replays of captured operations lack a member: ranks replay their graphs a different number \
                 of times"),
    )
    .severity(Severity::Critical)
    .evidence(format!("replayed operations by rank: {}", some(&listed)))
    .cause("a graph is launched under a condition that differs between ranks")
    .advice("launch graphs that contain communication equally often on all members")
    .holds("replays that lack a member", count as f64, ">", 0.0, "")
    .holds("missing ranks, dropped records and unclosed logs", 0.0, "=", 0.0, "");
    vec![draft.without_cost("the cost of ranks that are out of step is unknown")]
}
