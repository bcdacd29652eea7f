//! Errors that NCCL reported after its calls had returned.

use crate::findings::rule::Rule;
use crate::findings::shown::{counted, shown, some};
use crate::findings::{Draft, Facts};
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use rankscope_formats::session::{LogEnding, Severity};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of errors in the evidence: of one kind, on one communicator.
const MAX_ERRORS: usize = 8;
/// Maximum number of ended logs in the evidence.
const MAX_ENDED: usize = 8;

/// Communicators on which the library reported an error.
pub const RULE: Rule = Rule {
    id: "communicator-error",
    title: "The library reported an error on a communicator",
    means: "Calls had returned without an error, and then their operations could not complete. Usually a peer died, or \
            the network failed.",
    fires: "The program queried a communicator (ncclCommGetAsyncError), and the answer was an error. Frameworks query \
            regularly.",
    silent: "Programs that never query. Peers that die on the same host: NCCL notices only the loss of a network \
             connection.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    // Ranks by communicator and error, and the first error of each communicator.
    let mut known: BTreeMap<(CommunicatorId, u32), Vec<RankIndex>> = BTreeMap::new();
    let mut first_ns: BTreeMap<CommunicatorId, i64> = BTreeMap::new();
    for rank in &facts.session.ranks {
        let errors = facts.sums(rank.index as usize).map(|sums| &sums.errors);
        for (&error, &at_ns) in errors.into_iter().flatten() {
            known.entry(error).or_default().push(RankIndex(rank.index));
            let first = first_ns.entry(error.0).or_insert(at_ns);
            *first = at_ns.min(*first);
        }
    }
    if known.is_empty() {
        return Vec::new();
    }
    let reporting: BTreeSet<RankIndex> = known.values().flatten().copied().collect();
    // A rank that ended and reported no error itself may be the cause. Of each, the longest time before an error counts.
    let mut ended: BTreeMap<RankIndex, i64> = BTreeMap::new();
    for (&communicator, &at_ns) in &first_ns {
        for (rank, before_ns) in ended_before(facts, communicator, at_ns) {
            if !reporting.contains(&rank) {
                let longest = ended.entry(rank).or_insert(before_ns);
                *longest = before_ns.max(*longest);
            }
        }
    }
    let who = counted(reporting.len() as u64, "rank");
    let mut draft = Draft::new(
        RULE.id,
        who.clone(),
        format!("{who} got an error on a communicator"),
    )
    .severity(Severity::Critical)
    .cause("a peer died, or the network failed")
    .holds("ranks with such an error", reporting.len() as f64, ">", 0.0, "");
    for (&(communicator, code), ranks) in known.iter().take(MAX_ERRORS) {
        draft = draft.evidence(format!(
            "{}: {} on {}",
            communicator_name(facts, communicator),
            error_name(code),
            some(&facts.names(ranks))
        ));
    }
    if known.len() > MAX_ERRORS {
        let more = (known.len() - MAX_ERRORS) as u64;
        draft = draft.evidence(format!("{} not listed", counted(more, "more error")));
    }
    for (&rank, &before_ns) in ended.iter().take(MAX_ENDED) {
        let name = facts.name(rank);
        draft = draft.evidence(format!("the log of {name} ended {} before", shown(before_ns)));
    }
    if ended.len() > MAX_ENDED {
        let more = (ended.len() - MAX_ENDED) as u64;
        draft = draft.evidence(format!("{} ended before", counted(more, "more log")));
    }
    let (named, advice): (Vec<RankIndex>, _) = if ended.is_empty() {
        let advice = "check the network between the members, and their output before this time";
        (reporting.into_iter().collect(), advice)
    } else {
        let advice = "find out why these ranks ended: their logs end before the error";
        (ended.into_keys().collect(), advice)
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

/// Returns the members whose logs ended before a time, each with the time between both. A process that still runs may only
/// be idle.
fn ended_before(facts: &Facts<'_>, communicator: CommunicatorId, at_ns: i64) -> Vec<(RankIndex, i64)> {
    let known = facts.session.communicators.get(communicator.index());
    let members = known.into_iter().flat_map(|known| known.members.iter().flatten());
    members
        .filter_map(|&member| {
            let rank = facts.session.ranks.get(member as usize)?;
            let end_ns = rank.end_ns.value.filter(|&end_ns| end_ns < at_ns)?;
            (rank.ending != LogEnding::Running).then_some((RankIndex(member), at_ns - end_ns))
        })
        .collect()
}
