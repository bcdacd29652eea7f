//! Calls that do not fit together.

use crate::findings::rule::Rule;
use crate::findings::shown::some;
use crate::findings::{Draft, Facts};
use rankscope_formats::session::{LookAt, Unmatched};

/// Examples that are shown.
const EXAMPLES: usize = 5;

/// Members disagree.
pub const MISMATCHED: Rule = Rule {
    id: "mismatched",
    title: "Members called an operation differently",
    means: "The members of an instance do not agree in operation, type, root or size: the result is undefined, or the job hangs.",
    fires: "At least one instance is mismatched (METRICS.md, section 1).",
    silent: "Instances that lack a member's record, and v-variants, whose sizes may differ.",
    find: Some(mismatched),
    of_stated: None,
};

/// Messages without their other end.
pub const UNMATCHED: Rule = Rule {
    id: "unmatched-messages",
    title: "Messages that were sent or received by one side only",
    means: "A send found no receive, or a receive no send: memory that is never freed, or a rank that waits for ever.",
    fires: "There are unmatched messages, all ranks were seen, all their logs were closed, and nothing was lost.",
    silent: "Runs with missing ranks, with logs that were cut or with losses, and parts of runs: there the other end may only \
             not have been recorded.",
    find: Some(unmatched),
    of_stated: None,
};

/// Graphs were replayed differently often.
pub const REPLAYS: Rule = Rule {
    id: "replay-counts",
    title: "A captured operation was replayed differently often",
    means: "A graph that communicates was launched more often on one rank than on another: the ranks are out of step.",
    fires: "Replays of captured operations lack a member, all ranks were seen, all their logs were closed, and nothing was lost.",
    silent: "Ranks that replay different graphs, and runs in which replays are not recorded: they need NCCL's plugin or --kernels.",
    find: Some(replays),
    of_stated: None,
};

fn moment(listed: &Unmatched) -> LookAt {
    LookAt {
        what: format!(
            "{} tag {}, number {}",
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
    let verb = if count == 1 {
        "operation was"
    } else {
        "operations were"
    };
    let mut draft = Draft::new(
        MISMATCHED.id,
        "the members of an operation",
        format!("{count} {verb} called differently by the members"),
    )
    .severity("critical")
    .cause("ranks took different branches of the program, or pass tensors of different shapes")
    .advice("the members of a collective must agree in operation, type, root and size")
    .holds("mismatched instances", count as f64, ">", 0.0, "")
    .look_at(of_kind(facts, "mismatched").map(moment));
    for listed in of_kind(facts, "mismatched").take(EXAMPLES) {
        draft = draft.evidence(format!(
            "{} tag {}: {}",
            listed.operation, listed.tag, listed.reason
        ));
    }
    vec![draft.without_cost("what a wrong result costs cannot be told")]
}

/// What is missing was not only not recorded.
fn is_whole(facts: &Facts<'_>) -> bool {
    let session = facts.session;
    session.part.is_none()
        && session.coverage.missing.is_empty()
        && session.totals.lost == 0
        && session.totals.in_flight == 0
        && session.ranks.iter().all(|rank| rank.ending == "closed")
}

fn unmatched(facts: &Facts<'_>) -> Vec<Draft> {
    let count = facts.session.matching.unmatched_messages;
    if count == 0 || !is_whole(facts) {
        return Vec::new();
    }
    let examples: Vec<String> = of_kind(facts, "unmatched-message")
        .take(EXAMPLES)
        .map(|listed| {
            let names = facts.names(&listed.ranks);
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
        format!("{count} {verb} no other end: sent or received by one side only"),
    )
    .severity("warning")
    .evidence(some(&examples))
    .cause("the two sides do not agree in tags or in how many messages there are")
    .advice("compare the sends of one side with the receives of the other, by tag and order")
    .holds("unmatched messages", count as f64, ">", 0.0, "")
    .holds("missing ranks, lost records, unclosed logs", 0.0, "=", 0.0, "")
    .look_at(of_kind(facts, "unmatched-message").map(moment));
    vec![draft.without_cost("what a lost message costs cannot be told")]
}

fn replays(facts: &Facts<'_>) -> Vec<Draft> {
    let count = facts.parts.analysis.incomplete_replays;
    if count == 0 || !is_whole(facts) {
        return Vec::new();
    }
    let told: Vec<String> = facts
        .session
        .devices
        .iter()
        .map(|device| format!("{} {}", facts.name(device.rank), device.replays))
        .collect();
    let draft = Draft::new(
        REPLAYS.id,
        "graph replays",
        format!("{count} replays of captured operations lack a member: the ranks replay differently often"),
    )
    .severity("critical")
    .evidence(format!("replayed operations by rank: {}", some(&told)))
    .cause("a graph is launched under a condition that differs between ranks")
    .advice("launch graphs that communicate equally often on all members")
    .holds("replays without a member", count as f64, ">", 0.0, "")
    .holds("missing ranks, lost records, unclosed logs", 0.0, "=", 0.0, "");
    vec![draft.without_cost("what ranks out of step cost cannot be told")]
}
