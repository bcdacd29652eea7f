//! Clocks of several hosts.

use crate::figures::{self, Shown, count, counted, quoted, time};
use crate::prose::{Prose, prose};
use crate::source::{less, number};
use rankscope_formats::session::AxisMethod;
use rankscope_formats::session::{AxisEvidence, Session};

const EVIDENCE: &str = "/axis/evidence";

/// Returns how well the clocks of several hosts are known, or nothing with one host.
pub fn clocks(session: &Session) -> Vec<Prose> {
    if session.hosts.len() < 2 {
        return Vec::new();
    }
    let mut out = vec![agreement(session)];
    if let Some(evidence) = &session.axis.evidence {
        out.extend(unbounded_pairs(session, evidence));
        out.extend(held_out(evidence));
        out.extend(mismatched(evidence));
        out.extend(jumps(evidence));
    }
    out
}

/// Returns the error between the hosts' clocks, and the method by which it is known.
fn agreement(session: &Session) -> Prose {
    const BETWEEN: &str = "/axis/error_between_hosts_ns";
    let by = match session.axis.method {
        AxisMethod::Messages => "from the job's own operations",
        _ => "from wall clocks only",
    };
    match session.axis.error_between_hosts_ns.get() {
        Ok(&error) => prose![
            "hosts agree within ± ",
            time(error, format!("{BETWEEN}/value")),
            format!(" at worst, {by}")
        ],
        Err(reason) => prose![
            "– the offset between the hosts' clocks is not known: ",
            quoted(reason, format!("{BETWEEN}/reason"))
        ],
    }
}

/// Formats a number of the evidence with its source.
fn of(number: u64, field: &str) -> Shown {
    count(number, format!("{EVIDENCE}/{field}"))
}

/// Returns the pairs of hosts whose clock offset has no bound.
fn unbounded_pairs(session: &Session, evidence: &AxisEvidence) -> Option<Prose> {
    if evidence.pairs_unbounded == 0 {
        return None;
    }
    let named = evidence
        .pairs
        .iter()
        .enumerate()
        .filter_map(|(at, pair)| {
            let reason = pair.error_ns.reason.as_deref()?;
            Some(prose![
                figures::host(session, pair.one),
                " and ",
                figures::host(session, pair.other),
                ": ",
                quoted(reason, format!("{EVIDENCE}/pairs/{at}/error_ns/reason"))
            ])
        })
        .take(3);
    Some(prose![
        of(evidence.pairs_unbounded, "pairs_unbounded"),
        " of ",
        of(evidence.pairs_total, "pairs_total"),
        " pairs of hosts have no bounded clock offset, for example: ",
        Prose::join(named, "; ")
    ])
}

/// Returns whether instances that the fit of the axis did not use confirm it.
fn held_out(evidence: &AxisEvidence) -> Option<Prose> {
    (evidence.held_out_instances > 0).then(|| {
        prose![
            "of ",
            counted(
                evidence.held_out_instances,
                "instance",
                format!("{EVIDENCE}/held_out_instances")
            ),
            " between hosts that were not used to fit the axis, a member left too early in ",
            of(evidence.violations_before, "violations_before"),
            " by the wall clocks and in ",
            of(evidence.violations_after, "violations_after"),
            " on the axis"
        ]
    })
}

/// Returns the number of instances that no clock offset can explain.
fn mismatched(evidence: &AxisEvidence) -> Option<Prose> {
    (evidence.mismatched_instances > 0).then(|| prose![
        counted(
            evidence.mismatched_instances,
            "instance",
            format!("{EVIDENCE}/mismatched_instances")
        ),
        " that no clock offset can explain: mismatched calls, which are listed and excluded from all figures"
    ])
}

/// Returns how often a clock jumped.
fn jumps(evidence: &AxisEvidence) -> Option<Prose> {
    let most = evidence
        .pairs
        .iter()
        .enumerate()
        .max_by_key(|(_, pair)| pair.segments.len());
    let (at, pair) = most.filter(|(_, pair)| pair.segments.len() > 1)?;
    let jumps = pair.segments.len() - 1;
    let segments = number(format!("{EVIDENCE}/pairs/{at}/segments/*"));
    Some(prose![
        "a clock jumped ",
        if jumps == 1 {
            "once".into()
        } else {
            prose![count(jumps as u64, less(segments, "1")), " times"]
        },
        ": a host was suspended or migrated"
    ])
}
