//! Errors that NCCL reported after its calls had returned.

use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use rankscope_formats::session::Severity;
use std::collections::BTreeMap;

/// Maximum number of communicators in the evidence.
const MAX_COMMUNICATORS: usize = 8;

/// Communicators on which the library reported an error.
pub const RULE: Rule = Rule {
    id: "communicator-error",
    title: "The library reported an error on a communicator",
    means: "Calls had returned without an error, and then their operations could not complete. Usually a peer died, or \
            the network failed.",
    fires: "The program queried a communicator (ncclCommGetAsyncError), and the answer was an error. Frameworks query \
            regularly.",
    silent: "Programs that never query. Peers that die inside a host: NCCL notices only the loss of a network \
             connection.",
    find: Some(find),
    find_declared: None,
};

/// An error on a communicator.
struct Errors {
    ranks: Vec<RankIndex>,
    first_ns: i64,
}

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let mut known: BTreeMap<(CommunicatorId, u32), Errors> = BTreeMap::new();
    for rank in &facts.session.ranks {
        let errors = facts.sums(rank.index as usize).map(|sums| &sums.errors);
        for (&error, &at_ns) in errors.into_iter().flatten() {
            let entry = known.entry(error).or_insert(Errors {
                ranks: Vec::new(),
                first_ns: at_ns,
            });
            entry.ranks.push(RankIndex(rank.index));
            entry.first_ns = entry.first_ns.min(at_ns);
        }
    }
    if known.is_empty() {
        return Vec::new();
    }
    let mut reporting: Vec<RankIndex> = known.values().flat_map(|errors| errors.ranks.clone()).collect();
    reporting.sort_unstable();
    reporting.dedup();
    let who = if reporting.len() == 1 {
        "1 rank".to_owned()
    } else {
        format!("{} ranks", reporting.len())
    };
    let mut draft = Draft::new(
        RULE.id,
        who.clone(),
        format!("{who} got an error of a communicator"),
    )
    .severity(Severity::Critical)
    .cause("a peer died, or the network failed")
    .holds("ranks with such an error", reporting.len() as f64, ">", 0.0, "");
    let mut ended: Vec<RankIndex> = Vec::new();
    for (&(communicator, code), errors) in known.iter().take(MAX_COMMUNICATORS) {
        draft = draft.evidence(format!(
            "{}: {} on {}",
            communicator_name(facts, communicator),
            error_name(code),
            facts.names(&errors.ranks).join(", ")
        ));
        for (rank, before_ns) in ended_before(facts, communicator, errors) {
            draft = draft.evidence(format!(
                "the log of {} ended {} before",
                facts.name(rank),
                shown(before_ns)
            ));
            ended.push(rank);
        }
    }
    ended.sort_unstable();
    ended.dedup();
    let (named, advice) = if ended.is_empty() {
        let advice = "check the network between the members, and their output before this time";
        (reporting, advice)
    } else {
        (
            ended,
            "find out why the ranks ended whose logs ended before the error",
        )
    };
    vec![
        draft
            .advice(advice)
            .ranks(named)
            .without_cost("the cost of a failure is unknown"),
    ]
}

fn communicator_name(facts: &Facts<'_>, communicator: CommunicatorId) -> String {
    let known = facts.session.communicators.get(communicator.index());
    match known.map(|known| known.name.as_str()) {
        Some(name) if !name.is_empty() => format!("communicator {communicator} ({name})"),
        Some(_) => format!("communicator {communicator}"),
        None => "an unknown communicator".to_owned(),
    }
}

/// Returns NCCL's name of an error.
fn error_name(code: u32) -> String {
    let name = match code {
        1 => "ncclUnhandledCudaError",
        2 => "ncclSystemError",
        3 => "ncclInternalError",
        4 => "ncclInvalidArgument",
        5 => "ncclInvalidUsage",
        6 => "ncclRemoteError",
        _ => return format!("error {code}"),
    };
    format!("{name} ({code})")
}

/// Returns the members whose logs ended before the first report of an error, each with the time between both.
fn ended_before(facts: &Facts<'_>, communicator: CommunicatorId, errors: &Errors) -> Vec<(RankIndex, i64)> {
    let known = facts.session.communicators.get(communicator.index());
    let members = known.into_iter().flat_map(|known| known.members.iter().flatten());
    let mut ended = Vec::new();
    for &member in members {
        let rank = facts.session.ranks.get(member as usize);
        let end_ns = rank.and_then(|rank| rank.end_ns.value);
        if let Some(end_ns) = end_ns.filter(|&end_ns| end_ns < errors.first_ns) {
            ended.push((RankIndex(member), errors.first_ns - end_ns));
        }
    }
    ended.dedup();
    ended
}
