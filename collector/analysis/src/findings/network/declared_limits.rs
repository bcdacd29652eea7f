//! Rules that need declared limits: peak bandwidths and latency limits.

use crate::findings::draft::part::TRANSFER;
use crate::findings::rule::Rule;
use crate::findings::shown::counted;
use crate::findings::{Draft, shown};
use crate::model::declared::DeclaredLimits;
use crate::model::units;
use rankscope_formats::session::Scope;
use rankscope_formats::session::Severity;
use rankscope_formats::session::{OperationClass, Session};
use std::collections::BTreeMap;

/// Use of the declared peak below which a scope is reported (METRICS.md, section 10), in percent.
const MIN_USE_PERCENT: f64 = 60.0;
/// Minimum size of a large class, in bytes. Latency binds smaller classes, so they need not reach a peak.
const LARGE_BYTES: u64 = 1 << 20;
/// Minimum number of launches.
const MIN_LAUNCHES: u64 = 20;
/// Maximum number of classes in the evidence.
const MAX_CLASSES: usize = 4;

/// Large transfers use little of the bandwidth.
pub const LOW_BANDWIDTH: Rule = Rule {
    id: "low-bandwidth",
    title: "Large transfers use little of the declared peak bandwidth",
    means: "Launches that do not wait for peers move their data far below the peak declared for their path.",
    fires: "A peak is declared (rankscope report --peak-busbw). Over the whole run, at least 20 transfer-bound \
            launches of at least 1 MiB in a scope use less than 60 % of it: Σ bus bytes / Σ(t · peak).",
    silent: "Reports without a declared peak. Operations below 1 MiB, which latency binds. Launches that wait for \
            peers.",
    find: None,
    find_declared: Some(low_bandwidth),
};

/// A size class exceeds its latency limit.
pub const SLOW_CLASS: Rule = Rule {
    id: "slow-class",
    title: "Small operations exceed the declared latency limit",
    means: "A class of small operations exceeded its latency limit several times in a row.",
    fires: "A limit is declared (rankscope report --latency-limit). In a class of at most 64 KiB, the transfers of \
            at least three consecutive launches exceed it.",
    silent: "Reports without a declared limit. One or two slow launches in a row. Larger classes.",
    find: None,
    find_declared: Some(slow_class),
};

fn is_large(class: &OperationClass) -> bool {
    class.size_from_bytes.is_some_and(|from| from >= LARGE_BYTES)
}

fn low_bandwidth(session: &Session, stated: &DeclaredLimits) -> Vec<Draft> {
    let mut scopes: BTreeMap<Scope, Vec<&OperationClass>> = BTreeMap::new();
    for class in session.operations.iter().filter(|class| is_large(class)) {
        scopes.entry(class.scope).or_default().push(class);
    }
    let mut out = Vec::new();
    for (scope, mut classes) in scopes {
        let Some(peak) = stated.peak(scope) else { continue };
        let sum = |of: fn(&OperationClass) -> f64| classes.iter().map(|class| of(class)).sum::<f64>();
        let launches: u64 = classes.iter().map(|class| class.transfer_bound.launches).sum();
        let bytes = sum(|class| class.transfer_bound.bus_bytes);
        let ns = sum(|class| class.transfer_bound.transfer_ns);
        let use_percent = bytes / (ns / 1e9 * peak) * 100.0;
        // NaN without transfers.
        if launches < MIN_LAUNCHES || use_percent.is_nan() || use_percent >= MIN_USE_PERCENT {
            continue;
        }
        // Transfer time beyond that at the threshold, mean over ranks.
        let by_members = sum(|class| class.transfer_bound.transfer_ns * f64::from(class.members));
        let exposed: i64 = session
            .breakdown
            .iter()
            .map(|entry| (entry.exposed_communication_ns - entry.exposed_wait_ns).max(0))
            .sum();
        let ranks = session.ranks.len().max(1) as f64;
        let cost = (by_members / ranks * (1.0 - use_percent / MIN_USE_PERCENT)).min(exposed as f64 / ranks);
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
                "large transfers {} use {use_percent:.0} % of the declared peak of {} ({})",
                words(scope),
                units::rate(peak),
                counted(launches, "launch").replace("launchs", "launches")
            ),
        )
        .evidence(format!("{:.3} GB of bus traffic in {}", bytes / 1e9, shown(ns as i64)))
        .cause("the path is slower than its declared peak, other traffic shares it, or the library chose another \
                path")
        .advice(
            "measure the peak separately with nccl-tests; check the chosen path with NCCL_DEBUG=INFO, GPUDirect, \
             NUMA placement and the number of channels",
        )
        .holds("launches of at least 1 MiB", launches as f64, ">=", MIN_LAUNCHES as f64, "")
        .holds("use of the declared peak", use_percent, "<", MIN_USE_PERCENT, "%")
        .look_at(classes.first().and_then(|class| class.slowest.clone()))
        .cost(
            cost as i64,
            "transfer time beyond that at 60 % of the peak, mean over ranks, limited to the exposed transfer",
            &[TRANSFER],
        );
        for class in classes
            .iter()
            .filter(|class| class.transfer_bound.launches > 0)
            .take(MAX_CLASSES)
        {
            let bound = class.transfer_bound;
            draft = draft.evidence(format!(
                "{} of at least {}: {} in {} launches",
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

fn words(scope: Scope) -> &'static str {
    match scope {
        Scope::InsideHost => "inside hosts",
        Scope::AcrossHosts => "across hosts",
        Scope::Mixed | Scope::Unknown => scope.name(),
    }
}

fn slow_class(session: &Session, stated: &DeclaredLimits) -> Vec<Draft> {
    let mut over: Vec<(&OperationClass, i64, f64)> = session
        .operations
        .iter()
        .filter(|class| class.size_below_bytes.is_some_and(|below| below <= 1 << 16))
        .filter_map(|class| {
            let limit = stated.latency_limit(class.scope)?;
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
            "{} below {below} took at least {} in three consecutive launches; the declared limit is {}",
            worst.operation,
            shown(three),
            shown(limit as i64)
        ),
    )
    .severity(Severity::Warning)
    .cause("the path was busy or slow for some time: other traffic, interrupts, or sleeping processors")
    .advice("check the slowest launches, and what else used these hosts and links at that time")
    .holds(
        "shortest of three consecutive transfers",
        three as f64,
        ">",
        limit,
        "ns",
    )
    .look_at(over.iter().filter_map(|(class, ..)| class.slowest.clone()))
    .without_cost("the gain of a lower latency depends on the work that waits for it");
    for (class, three, limit) in over.iter().take(MAX_CLASSES) {
        draft = draft.evidence(format!(
            "{} below {} over {} ranks: at least {} in three consecutive launches, limit {}",
            class.operation,
            units::binary_bytes(class.size_below_bytes.unwrap_or(0)),
            class.members,
            shown(*three),
            shown(*limit as i64)
        ));
    }
    vec![draft]
}
