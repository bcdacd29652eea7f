//! What is rolled up in rows of cells: the same on the terminal and on the page.

use super::reasons::Reasons;
use super::units;
use super::words::{share_of, stall_cause};
use crate::rollup::{Group, RoleSum, Sum};

/// Headings of groups of ranks.
pub const GROUP_COLUMNS: [&str; 12] = [
    "of",
    "ranks",
    "window, Σ",
    "host time",
    "transfer",
    "waiting",
    "other blocked",
    "waiting it caused",
    "sent",
    "received",
    "to other hosts",
    "devices stalled",
];

/// The cells of a group.
pub fn group_row(group: &Group, reasons: &mut Reasons) -> Vec<String> {
    let window = group.window_rank_ns;
    let mut share = |sum: &Sum| reasons.figure(&sum.0, |&ns| share_of(ns, window));
    let own = share(&group.own_rank_ns);
    let waiting = share(&group.exposed_wait_rank_ns);
    let exposed = &group.exposed_communication_rank_ns.0;
    let transfer = match (exposed.value, group.exposed_wait_rank_ns.0.value) {
        (Some(exposed), Some(waited)) => share_of(exposed - waited, window),
        _ => share(if exposed.value.is_none() {
            &group.exposed_communication_rank_ns
        } else {
            &group.exposed_wait_rank_ns
        }),
    };
    let mut stalled = reasons.figure(&group.stalled_rank_ns.0, |&ns| units::time(ns));
    let dearest = group.stalled_by_cause.iter().max_by_key(|cause| cause.ns);
    if let (Some(cause), Some(_)) = (dearest, group.stalled_rank_ns.0.value) {
        stalled.push_str(&format!(", most: {}", stall_cause(&cause.cause)));
    }
    vec![
        group.name.clone(),
        group.ranks.len().to_string(),
        units::time(window),
        own,
        transfer,
        waiting,
        share_of(group.other_blocked_rank_ns, window),
        units::time(group.caused_exposed_rank_ns),
        units::bytes(group.sent_bytes),
        units::bytes(group.received_bytes),
        units::bytes(group.sent_to_other_hosts_bytes),
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

/// The cells of a role.
pub fn role_row(role: &RoleSum, reasons: &mut Reasons) -> Vec<String> {
    vec![
        role.role.clone(),
        role.communicators.to_string(),
        units::count(role.operations),
        units::count(role.failed),
        reasons.figure(&role.bytes, |&bytes| units::bytes(bytes)),
        units::time(role.exposed_wait_rank_ns),
        units::time(role.hidden_wait_rank_ns),
        reasons.figure(&role.transfer_ns, |&ns| units::time(ns)),
    ]
}
