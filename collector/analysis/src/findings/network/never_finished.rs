//! Ranks that were communicating when their log ended.

use crate::findings::rule::Rule;
use crate::findings::shown::some;
use crate::findings::{Draft, Facts};
use crate::matching::{MEMBER_DID_NOT_CALL, MEMBER_ENDED};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{LogEnding, PendingOnDevice, Rank, Severity, Unmatched};
use std::collections::BTreeMap;

/// Maximum number of ranks in the evidence.
const MAX_RANKS: usize = 16;
/// Maximum number of communicators whose missing members are in the evidence.
const MAX_COMMUNICATORS: usize = 4;

/// Patience with a process that is still running, in median steps. Such a process is usually in the middle of an
/// operation. It is stuck if the operation lasts longer than this and than [`LONG_NS`].
const STEPS: i64 = 5;
/// Minimum patience with a process that is still running, or with an operation on a device, in ns.
const LONG_NS: i64 = 10_000_000_000;

/// Time after the report of a hang in which a job that is ended may still record, in ns: calls that fail.
const END_NS: i64 = 60_000_000_000;

/// Operations that never finished.
pub const RULE: Rule = Rule {
    id: "never-finished",
    title: "Ranks were communicating when the log ended",
    means: "The job hung or was killed.",
    fires: "A log ends with operations in progress or with threads blocked for communication. For a process that is \
            still running, one of them must have lasted longer than 10 s and longer than 5 median steps. Or an operation \
            on a device has not completed for that long, and its rank has recorded nothing else for that long.",
    silent: "Runs that end with a hang that a watcher reported. Logs that end between operations. Jobs that make progress while they are observed. Devices whose completed \
             operations are not recorded. Ranks that recorded for 10 s and 5 steps after the operation.",
    find: Some(find),
    find_declared: None,
};

fn find<'a>(facts: &Facts<'a>) -> Vec<Draft> {
    let session = facts.session;
    let steps_ns = session.steps.median_ns.value.unwrap_or(0).saturating_mul(STEPS);
    let patience_ns = steps_ns.max(LONG_NS);
    let is_stuck_on_host = |rank: &Rank| {
        let is_long = rank.in_flight_for_ns.is_some_and(|ns| ns > patience_ns);
        !rank.in_flight.is_empty() && (rank.ending != LogEnding::Running || is_long)
    };
    // Devices lag behind their hosts, so an operation without completion is usual at the end of a killed job.
    let stuck_on_device = |rank: &'a Rank| -> Option<&'a PendingOnDevice> {
        let pending = rank.pending_on_device.as_ref()?;
        (rank.ending != LogEnding::Closed && is_stuck(pending, patience_ns)).then_some(pending)
    };
    let stuck: Vec<(&Rank, Option<&PendingOnDevice>)> = session
        .ranks
        .iter()
        .map(|rank| (rank, stuck_on_device(rank)))
        .filter(|(rank, on_device)| is_stuck_on_host(rank) || on_device.is_some())
        .collect();
    // The report of the hang says more.
    if stuck.is_empty() || ends_with_a_reported_hang(facts) {
        return Vec::new();
    }
    let who = if stuck.len() == 1 {
        "1 rank was".to_owned()
    } else {
        format!("{} ranks were", stuck.len())
    };
    let goes_on = stuck.iter().all(|(rank, _)| rank.ending == LogEnding::Running);
    let waits_on_device = stuck.iter().any(|(_, on_device)| on_device.is_some());
    let what = if goes_on {
        "stuck in communication"
    } else if stuck.iter().all(|(rank, _)| rank.in_flight.is_empty()) {
        "waiting for an operation on the device when the log ended"
    } else {
        "communicating when the log ended"
    };
    let mut draft = Draft::new(
        RULE.id,
        who.rsplit_once(' ').map_or(who.as_str(), |(ranks, _)| ranks),
        format!("{who} {what}"),
    )
    .severity(if session.totals.in_flight > 0 || goes_on || waits_on_device {
        Severity::Critical
    } else {
        Severity::Note
    })
    .cause("the job hung or was killed, or it is still running")
    .advice(
        "if the job hung or was killed, first check ranks that are missing in this list: they did not arrive",
    )
    .holds(
        "ranks with an operation in progress",
        stuck.len() as f64,
        ">",
        0.0,
        "",
    )
    .ranks(stuck.iter().map(|(rank, _)| RankIndex(rank.index)));
    let on_devices: Vec<&PendingOnDevice> = stuck.iter().filter_map(|(_, on_device)| *on_device).collect();
    for listed in first_without_a_member(facts, &on_devices) {
        draft = draft.evidence(without_a_member(facts, listed));
    }
    for (rank, on_device) in stuck.iter().take(MAX_RANKS) {
        if let Some(pending) = on_device {
            draft = draft.evidence(on_the_device(facts, rank, pending));
        }
        if !is_stuck_on_host(rank) {
            continue;
        }
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
    vec![draft.without_cost("the cost of a job that did not end is unknown")]
}

/// Returns true if a watcher reported a hang, and the job did not go on after it.
fn ends_with_a_reported_hang(facts: &Facts<'_>) -> bool {
    let Some(last) = facts
        .parts
        .hangs
        .iter()
        .rfind(|status| !status.verdicts.is_empty())
    else {
        return false;
    };
    let reported_ns = last
        .taken_unix_ns
        .saturating_sub(facts.parts.clocks.axis.origin_unix_ns);
    let ranks = facts.session.ranks.iter();
    let end_ns = ranks.filter_map(|rank| rank.end_ns.value).max();
    end_ns.is_none_or(|end_ns| end_ns <= reported_ns.saturating_add(END_NS))
}

/// Returns true if a rank waits for its device, and its device is not merely behind.
///
/// A host that waits for its device soon requests nothing more. If it goes on for long, completions are no longer recorded,
/// for example after a window of kernels.
const fn is_stuck(pending: &PendingOnDevice, patience_ns: i64) -> bool {
    pending.for_ns > patience_ns
        && pending.silent_for_ns > patience_ns
        && pending.for_ns - pending.silent_for_ns <= patience_ns
}

/// Describes what a rank waits for on its device.
fn on_the_device(facts: &Facts<'_>, rank: &Rank, pending: &PendingOnDevice) -> String {
    let later = match pending.later {
        0 => String::new(),
        later => format!(", and {later} after it"),
    };
    format!(
        "{} ({}): {} {}{} was enqueued on the device, and has not completed for {}{later}",
        rank.name,
        rank.ending,
        pending.operation,
        pending.sequence,
        of_communicator(facts, pending.communicator),
        crate::findings::shown(pending.for_ns)
    )
}

/// Returns ` of NAME` for a communicator. Those of NCCL often have no name.
fn of_communicator(facts: &Facts<'_>, index: u32) -> String {
    match facts.session.communicators.get(index as usize) {
        Some(known) if known.name.is_empty() => format!(" of communicator {index} ({} members)", known.size),
        Some(known) => format!(" of {}", known.name),
        None => String::new(),
    }
}

/// Returns the first operation of each communicator that some members were in and others never called. It causes the
/// later ones.
fn first_without_a_member<'a>(facts: &Facts<'a>, on_devices: &[&PendingOnDevice]) -> Vec<&'a Unmatched> {
    let mut first: BTreeMap<u32, &Unmatched> = BTreeMap::new();
    let is_on_device = |listed: &Unmatched| {
        let mut pending = on_devices.iter();
        listed.reason == MEMBER_ENDED
            && pending.any(|one| (one.communicator, one.sequence) == (listed.communicator, listed.sequence))
    };
    let listed = facts.session.matching.listed.iter();
    for listed in listed.filter(|listed| listed.reason == MEMBER_DID_NOT_CALL || is_on_device(listed)) {
        let known = first.entry(listed.communicator).or_insert(listed);
        if listed.start_ns < known.start_ns {
            *known = listed;
        }
    }
    let mut first: Vec<&Unmatched> = first.into_values().collect();
    first.sort_by_key(|listed| listed.start_ns);
    first.truncate(MAX_COMMUNICATORS);
    first
}

/// Describes an operation and the members that never called it.
fn without_a_member(facts: &Facts<'_>, listed: &Unmatched) -> String {
    let communicator = facts.session.communicators.get(listed.communicator as usize);
    let name = of_communicator(facts, listed.communicator);
    // A member without a log may have called the operation.
    let (mut without_call, mut without_log) = (Vec::new(), Vec::new());
    for &member in &listed.missing_members {
        let rank = communicator.and_then(|known| *known.members.get(member as usize)?);
        match rank {
            Some(rank) => without_call.push(facts.name(RankIndex(rank))),
            None => without_log.push(format!("member {member}")),
        }
    }
    let mut parts = Vec::new();
    if !without_call.is_empty() {
        parts.push(format!("no call of {}", some(&without_call)));
    }
    if !without_log.is_empty() {
        parts.push(format!("no log of {}", some(&without_log)));
    }
    let tag = match listed.tag {
        0 => String::new(),
        tag => format!(" tag {tag}"),
    };
    format!(
        "{}{tag} {}{name}: {}",
        listed.operation,
        listed.sequence,
        parts.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_stuck_if_it_waits_for_long_and_soon_requested_nothing_more() {
        const SECOND: i64 = 1_000_000_000;
        let is_stuck = |for_s: i64, silent_for_s: i64| {
            let pending = PendingOnDevice {
                operation: "all-reduce".to_owned(),
                communicator: 0,
                sequence: 10,
                later: 3,
                for_ns: for_s * SECOND,
                silent_for_ns: silent_for_s * SECOND,
            };
            super::is_stuck(&pending, LONG_NS)
        };
        assert!(is_stuck(29, 28));
        assert!(is_stuck(29, 20));
        // A killed job whose device had work.
        assert!(!is_stuck(1, 0));
        // The host goes on, or did so for long.
        assert!(!is_stuck(29, 1));
        assert!(!is_stuck(3600, 28));
    }
}
