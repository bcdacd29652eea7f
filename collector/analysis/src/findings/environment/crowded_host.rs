//! Hosts with more ranks than processors.

use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Severity;

/// More ranks than processors.
pub const RULE: Rule = Rule {
    id: "crowded-host",
    title: "A host has more ranks than processors",
    means: "Ranks of this host wait for a free processor. Such a wait can look like a wait for a peer.",
    fires: "More ranks run on a host than its processes may use processors.",
    silent: "Hosts with at least as many processors as ranks, whatever the number of threads per rank. Logs that do \
            not record the number of processors.",
    find: Some(find),
    find_declared: None,
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
                    "{ranks} ranks share {processors} processors on {name}, so ranks wait for a free processor"
                ),
            )
            .severity(Severity::Note)
            .evidence("on such a host, a rank that is late in fewer than half of the steps is not reported")
            .cause(
                "the launcher started more processes than the host has processors, or than the container may use",
            )
            .advice("give every rank its own processor before you search for stragglers")
            .holds("ranks", ranks as f64, ">", processors as f64, "")
            .ranks(known.into_iter().flat_map(|known| known.ranks.iter().copied().map(RankIndex)))
            .hosts([host])
            .without_cost("it is unknown how long the ranks would take on their own processors")
        })
        .collect()
}
