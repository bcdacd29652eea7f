//! Sums by group in rows of cells, shared by the terminal and the HTML page.

use super::figures::{bytes, count, plain, quoted, time};
use super::prose::Prose;
use super::reasons::Reasons;
use super::source::{less, number};
use crate::sentences::{share_of, stall_cause};
use rankscope_analysis::selection::rollup::{Group, RoleSum, Sum};

/// Headings of groups of ranks.
pub const GROUP_COLUMNS: [&str; 12] = [
    "of",
    "ranks",
    "window, Σ",
    "host time",
    "transfer",
    "waiting",
    "other blocked",
    "caused waiting",
    "sent",
    "received",
    "to other hosts",
    "devices stalled",
];

/// Returns the cells of a group; `from` is its source.
pub fn group_row(group: &Group, from: &str, reasons: &mut Reasons) -> Vec<Prose> {
    let of = |field: &str| format!("{from}/{field}");
    let window = group.window_rank_ns;
    let whole = of("window_rank_ns");
    let mut share = |sum: &Sum, field: &str| {
        reasons.figure(&sum.0, &of(field), |&ns, from| {
            share_of(ns, window, &from, &whole)
        })
    };
    let own = share(&group.own_rank_ns, "own_rank_ns");
    let waiting = share(&group.exposed_wait_rank_ns, "exposed_wait_rank_ns");
    let exposed = &group.exposed_communication_rank_ns.0;
    let transfer = match (exposed.value, group.exposed_wait_rank_ns.0.value) {
        (Some(exposed), Some(waited)) => {
            let transfer = less(
                of("exposed_communication_rank_ns/value"),
                of("exposed_wait_rank_ns/value"),
            );
            share_of(exposed - waited, window, &transfer, &whole)
        }
        (None, _) => share(
            &group.exposed_communication_rank_ns,
            "exposed_communication_rank_ns",
        ),
        (Some(_), None) => share(&group.exposed_wait_rank_ns, "exposed_wait_rank_ns"),
    };
    let mut stalled = reasons.figure(&group.stalled_rank_ns.0, &of("stalled_rank_ns"), |&ns, from| {
        time(ns, from)
    });
    let dearest = group.stalled_by_cause.iter().max_by_key(|cause| cause.ns);
    if let (Some(cause), Some(_)) = (dearest, group.stalled_rank_ns.0.value) {
        stalled.push(format!(", most: {}", stall_cause(&cause.cause)));
    }
    vec![
        quoted(&group.name, of("name")).into(),
        count(group.ranks.len() as u64, number(of("ranks/*"))).into(),
        time(window, &whole).into(),
        own,
        transfer,
        waiting,
        share_of(
            group.other_blocked_rank_ns,
            window,
            &of("other_blocked_rank_ns"),
            &whole,
        ),
        time(group.caused_exposed_rank_ns, of("caused_exposed_rank_ns")).into(),
        bytes(group.sent_bytes, of("sent_bytes")).into(),
        bytes(group.received_bytes, of("received_bytes")).into(),
        bytes(group.sent_to_other_hosts_bytes, of("sent_to_other_hosts_bytes")).into(),
        stalled,
    ]
}

/// Headings of roles.
pub const ROLE_COLUMNS: [&str; 8] = [
    "role",
    "communicators",
    "operations",
    "failed",
    "bytes",
    "exposed wait, Σ",
    "hidden wait, Σ",
    "transfer, Σ",
];

/// Returns the cells of a role; `from` is its source.
pub fn role_row(role: &RoleSum, from: &str, reasons: &mut Reasons) -> Vec<Prose> {
    let of = |field: &str| format!("{from}/{field}");
    vec![
        quoted(&role.role, of("role")).into(),
        plain(role.communicators, of("communicators")).into(),
        count(role.operations, of("operations")).into(),
        count(role.failed, of("failed")).into(),
        reasons.figure(&role.bytes, &of("bytes"), |&sum, from| bytes(sum, from)),
        time(role.exposed_wait_rank_ns, of("exposed_wait_rank_ns")).into(),
        time(role.hidden_wait_rank_ns, of("hidden_wait_rank_ns")).into(),
        reasons.figure(&role.transfer_ns, &of("transfer_ns"), |&ns, from| time(ns, from)),
    ]
}
