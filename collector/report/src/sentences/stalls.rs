//! Stalls of devices: stretches without compute.

use super::line::share_of;
use crate::figures::{self, count, counted, rule, time};
use crate::prose::{Prose, prose};
use crate::source::{share, sum};
use rankscope_formats::session::{DeviceStalls, Session};
use std::collections::BTreeMap;

/// Sum of times, and the sources of its terms.
type Sum = (i64, Vec<String>);

/// Returns the stalls of devices: by cause, by late rank, and the place that costs most.
pub fn stalls(session: &Session) -> Vec<Prose> {
    let lines = [by_cause(session), late_ranks(session), costliest_place(session)];
    lines.into_iter().flatten().collect()
}

/// Returns the stalls of each entry, with the entry's position.
fn all(session: &Session) -> impl Iterator<Item = (usize, &DeviceStalls)> {
    let entries = session.activity.iter().map(|entry| &entry.device_stalls);
    entries.enumerate()
}

fn by_cause(session: &Session) -> Option<Prose> {
    const ALL: &str = "/activity/*/device_stalls";
    let (number_of, ns) = all(session).fold((0, 0), |sum, (_, stalls)| {
        (sum.0 + stalls.count, sum.1 + stalls.ns)
    });
    if number_of == 0 {
        return None;
    }
    let total = sum(&[format!("{ALL}/ns")]);
    let mut causes: BTreeMap<&str, Sum> = BTreeMap::new();
    for (at, stalls) in all(session) {
        for (place, cause) in stalls.by_cause.iter().enumerate() {
            let sum = causes.entry(&cause.cause).or_default();
            sum.0 += cause.ns;
            sum.1
                .push(format!("/activity/{at}/device_stalls/by_cause/{place}/ns"));
        }
    }
    let mut causes: Vec<(&str, Sum)> = causes.into_iter().collect();
    causes.sort_by_key(|(cause, (cause_ns, _))| (std::cmp::Reverse(*cause_ns), *cause));
    let causes = causes.iter().map(|(cause, (cause_ns, from))| {
        prose![
            share_of(*cause_ns, ns, &sum(from), &total),
            " ",
            stall_cause(cause)
        ]
    });
    Some(prose![
        counted(number_of, "stall", sum(&[format!("{ALL}/count")])),
        " of at least ",
        rule("1 ms"),
        " in which the devices did not compute, ",
        time(ns, total.clone()),
        " in total: ",
        Prose::join(causes, ", ")
    ])
}

fn late_ranks(session: &Session) -> Option<Prose> {
    let mut late: BTreeMap<u32, Sum> = BTreeMap::new();
    for (at, stalls) in all(session) {
        for (place, of) in stalls.by_late_rank.iter().enumerate() {
            let sum = late.entry(of.rank).or_default();
            sum.0 += of.ns;
            sum.1
                .push(format!("/activity/{at}/device_stalls/by_late_rank/{place}/ns"));
        }
    }
    let mut late: Vec<(u32, Sum)> = late.into_iter().collect();
    late.sort_by_key(|(rank, (late_ns, _))| (std::cmp::Reverse(*late_ns), *rank));
    if late.is_empty() {
        return None;
    }
    let late = late
        .iter()
        .take(3)
        .map(|(rank, (late_ns, from))| prose![figures::rank(session, *rank), " ", time(*late_ns, sum(from))]);
    Some(prose!["ranks waited for in stalls: ", Prose::join(late, ", ")])
}

/// Returns the recurring stall that costs most over all ranks.
fn costliest_place(session: &Session) -> Option<Prose> {
    let places = session.activity.iter().enumerate().flat_map(|(at, entry)| {
        let places = entry.recurring_stalls.iter().enumerate();
        places.map(move |(place_at, place)| {
            let from = format!("/activity/{at}/recurring_stalls/{place_at}");
            (entry.rank, place, from)
        })
    });
    let (rank, place, from) = places.max_by_key(|(rank, place, _)| (place.ns, std::cmp::Reverse(*rank)))?;
    let steps = format!("{from}/steps");
    Some(prose![
        "in ",
        count(place.steps, &steps),
        " of ",
        count(place.of_steps, format!("{from}/of_steps")),
        " steps of ",
        figures::rank(session, rank),
        " ",
        time(
            place.ns / i64::try_from(place.steps.max(1)).unwrap_or(1),
            share(format!("{from}/ns"), &steps)
        ),
        " each without compute before ",
        figures::kernel(&place.before, format!("{from}/before")),
        ": ",
        stall_cause(&place.cause)
    ])
}

/// Returns the name of a stall cause.
pub fn stall_cause(cause: &str) -> &str {
    match cause {
        "late-peer" => "waiting for a late rank",
        "slow-transfer" => "transfers slower than usual",
        "communication" => "communication",
        "memory" => "copies",
        "host-late" => "nothing launched",
        "pipeline-bubble" => "pipeline bubble",
        "input" => "waiting for input",
        "checkpoint" => "checkpoints",
        "evaluation" => "evaluation",
        "garbage-collection" => "garbage collection",
        _ => "unknown",
    }
}
