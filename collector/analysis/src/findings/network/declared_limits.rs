//! Rules that need what a person states: peaks and limits.

use crate::findings::draft::part::TRANSFER;
use crate::findings::rule::Rule;
use crate::findings::shown::counted;
use crate::findings::{Draft, shown};
use crate::model::stated::Stated;
use crate::model::units;
use rankscope_formats::session::{OperationClass, Session};
use std::collections::BTreeMap;

/// Use of the peak below which it is told (METRICS.md, section 10), percent.
const LEAST_USE_PERCENT: f64 = 60.0;
/// Smaller classes are bound by latency: they need not come near a peak.
const LARGE_BYTES: u64 = 1 << 20;
/// Launches that are needed.
const FEWEST_LAUNCHES: u64 = 20;
/// Classes that are told.
const MOST_CLASSES: usize = 4;

/// Little of the bandwidth is used.
pub const LOW_BANDWIDTH: Rule = Rule {
    id: "low-bandwidth",
    title: "Large transfers use little of the stated bandwidth",
    means: "Launches that wait for nobody move their data far below the peak that was stated for their path.",
    fires: "With a stated peak (rankscope report --peak-busbw): over the whole run the transfer-bound launches of at least 1 MiB of \
            a scope, at least 20 of them, use less than 60 % of it: Σ bus bytes / Σ(t · peak).",
    silent: "Without a stated peak, small operations, which latency binds, and launches that wait for peers.",
    find: None,
    of_stated: Some(low_bandwidth),
};

/// A size class is over its limit.
pub const SLOW_CLASS: Rule = Rule {
    id: "slow-class",
    title: "Small operations take longer than the stated limit",
    means: "The latency of a kind of small operation passed its limit several times one after the other.",
    fires: "With a stated limit (rankscope report --latency-limit): the transfers of a class of at most 64 KiB are over it in at \
            least three consecutive launches.",
    silent: "Without a stated limit, one or two slow launches in a row, and larger classes.",
    find: None,
    of_stated: Some(slow_class),
};

fn is_large(class: &OperationClass) -> bool {
    class.size_from_bytes.is_some_and(|from| from >= LARGE_BYTES)
}

fn low_bandwidth(session: &Session, stated: &Stated) -> Vec<Draft> {
    let mut scopes: BTreeMap<&str, Vec<&OperationClass>> = BTreeMap::new();
    for class in session.operations.iter().filter(|class| is_large(class)) {
        scopes.entry(&class.scope).or_default().push(class);
    }
    let mut out = Vec::new();
    for (scope, mut classes) in scopes {
        let Some(peak) = stated.peak(scope) else { continue };
        let sum = |of: fn(&OperationClass) -> f64| classes.iter().map(|class| of(class)).sum::<f64>();
        let launches: u64 = classes.iter().map(|class| class.transfer_bound.launches).sum();
        let bytes = sum(|class| class.transfer_bound.bus_bytes);
        let ns = sum(|class| class.transfer_bound.transfer_ns);
        let use_percent = bytes / (ns / 1e9 * peak) * 100.0;
        // Not a number without transfers.
        if launches < FEWEST_LAUNCHES || use_percent.is_nan() || use_percent >= LEAST_USE_PERCENT {
            continue;
        }
        // What the whole time is longer than at the limit, by the mean rank.
        let by_members = sum(|class| class.transfer_bound.transfer_ns * f64::from(class.members));
        let exposed: i64 = session
            .breakdown
            .iter()
            .map(|entry| (entry.exposed_communication_ns - entry.exposed_wait_ns).max(0))
            .sum();
        let ranks = session.ranks.len().max(1) as f64;
        let cost = (by_members / ranks * (1.0 - use_percent / LEAST_USE_PERCENT)).min(exposed as f64 / ranks);
        classes.sort_by(|one, other| {
            other
                .transfer_bound
                .transfer_ns
                .total_cmp(&one.transfer_bound.transfer_ns)
        });
        let mut draft = Draft::new(
            LOW_BANDWIDTH.id,
            format!("bandwidth {}", words(scope)),
            format!(
                "large transfers {} use {use_percent:.0} % of the stated {} ({})",
                words(scope),
                units::rate(peak),
                counted(launches, "launch").replace("launchs", "launches")
            ),
        )
        .evidence(format!("{:.3} GB on the bus in {}", bytes / 1e9, shown(ns as i64)))
        .cause("the path is slower than stated, shared with others, or not the one that the library chose")
        .advice(
            "measure the peak alone (nccl-tests), look at the chosen path with NCCL_DEBUG=INFO, at GPUDirect, NUMA placement and \
             the number of channels",
        )
        .holds("launches of at least 1 MiB", launches as f64, ">=", FEWEST_LAUNCHES as f64, "")
        .holds("use of the stated peak", use_percent, "<", LEAST_USE_PERCENT, "%")
        .look_at(classes.first().and_then(|class| class.slowest.clone()))
        .cost(
            cost as i64,
            "what these transfers take longer than at 60 % of the peak, by the mean rank, as far as transfer was exposed",
            &[TRANSFER],
        );
        for class in classes
            .iter()
            .filter(|class| class.transfer_bound.launches > 0)
            .take(MOST_CLASSES)
        {
            let bound = class.transfer_bound;
            draft = draft.evidence(format!(
                "{} from {}: {} in {} launches",
                class.operation,
                units::binary_bytes(class.size_from_bytes.unwrap_or(0)),
                units::rate(bound.bus_bytes / bound.transfer_ns * 1e9),
                bound.launches
            ));
        }
        out.push(draft);
    }
    out
}

fn words(scope: &str) -> &str {
    match scope {
        "inside-host" => "inside hosts",
        "across-hosts" => "across hosts",
        other => other,
    }
}

fn slow_class(session: &Session, stated: &Stated) -> Vec<Draft> {
    let mut over: Vec<(&OperationClass, i64, f64)> = session
        .operations
        .iter()
        .filter(|class| class.size_below_bytes.is_some_and(|below| below <= 1 << 16))
        .filter_map(|class| {
            let limit = stated.latency_limit(&class.scope)?;
            let three = class.longest_three_in_a_row_ns.value?;
            (three as f64 > limit).then_some((class, three, limit))
        })
        .collect();
    over.sort_by(|one, other| (other.1 as f64 / other.2).total_cmp(&(one.1 as f64 / one.2)));
    let Some(&(worst, three, limit)) = over.first() else {
        return Vec::new();
    };
    let below = units::binary_bytes(worst.size_below_bytes.unwrap_or(0));
    let mut draft = Draft::new(
        SLOW_CLASS.id,
        format!("{} below {below}", worst.operation),
        format!(
            "{} below {below} took at least {} three times in a row; the stated limit is {}",
            worst.operation,
            shown(three),
            shown(limit as i64)
        ),
    )
    .severity("warning")
    .cause("the path was busy or slow for a while: other traffic, interrupts, processors that sleep")
    .advice("look at the launches that took longest, and at what else ran on these hosts and links then")
    .holds(
        "three consecutive transfers, at least",
        three as f64,
        ">",
        limit,
        "ns",
    )
    .look_at(over.iter().filter_map(|(class, ..)| class.slowest.clone()))
    .without_cost("what lower latency would win depends on what waits for it");
    for (class, three, limit) in over.iter().take(MOST_CLASSES) {
        draft = draft.evidence(format!(
            "{} below {} over {} ranks: {} three times in a row, limit {}",
            class.operation,
            units::binary_bytes(class.size_below_bytes.unwrap_or(0)),
            class.members,
            shown(*three),
            shown(*limit as i64)
        ));
    }
    vec![draft]
}
