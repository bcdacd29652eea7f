//! More ranks than processors.

use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts};

/// A host is crowded.
pub const RULE: Rule = Rule {
    id: "crowded-host",
    title: "A host has more ranks than processors",
    means: "Its ranks wait for each other's turn on a processor; what looks like waiting for a peer may be that.",
    fires: "More ranks ran on a host than its processes may use processors.",
    silent: "As many processors as ranks or more, however many threads each rank has; logs that do not say.",
    find: Some(find),
    of_stated: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let crowded = facts.crowded().into_iter();
    crowded
        .map(|(host, ranks, processors)| {
            let known = facts.session.hosts.get(host as usize);
            let name = known.map_or_else(String::new, |known| known.name.clone());
            Draft::new(
                RULE.id,
                format!("host {name}"),
                format!(
                    "{ranks} ranks share {processors} processors on {name}: they wait for each other's turn"
                ),
            )
            .severity("note")
            .evidence("lateness in fewer than half of the steps names nobody on such a host")
            .cause(
                "the launcher started more processes than the host, or the container's limit, has processors",
            )
            .advice("give every rank a processor of its own before looking for stragglers")
            .holds("ranks", ranks as f64, ">", processors as f64, "")
            .ranks(known.map(|known| known.ranks.clone()).unwrap_or_default())
            .hosts([host])
            .without_cost("what the ranks would take on processors of their own is not known")
        })
        .collect()
}
