//! Ranks that run different versions of a communication library.

use crate::findings::rule::Rule;
use crate::findings::shown::some;
use crate::findings::{Draft, Facts};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Severity;
use std::collections::BTreeMap;

/// Compared properties: key in the header of a log, and displayed name.
const COMPARED: [(&str, &str); 2] = [
    ("library.nccl.version", "NCCL"),
    ("rankscope_version", "rankscope"),
];

/// Different versions in one world.
pub const RULE: Rule = Rule {
    id: "different-versions",
    title: "Ranks run different versions of a communication library",
    means: "Different versions can choose different algorithms, protocols or defaults. The job may be slow, hang, or \
            fail to connect.",
    fires: "Ranks of one world report different versions of NCCL, or were recorded with different versions of \
            rankscope.",
    silent: "Ranks that report no version (Gloo has none). Different versions in separate worlds. Differences \
            between libraries that do not communicate.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let mut out = Vec::new();
    for world in &facts.session.worlds {
        for (key, name) in COMPARED {
            let mut versions: BTreeMap<&str, Vec<RankIndex>> = BTreeMap::new();
            for &rank in &world.ranks {
                if let Some(version) = facts.properties(rank as usize).and_then(|known| known.get(key)) {
                    versions.entry(version).or_default().push(RankIndex(rank));
                }
            }
            if versions.len() < 2 {
                continue;
            }
            let mut groups: Vec<(&str, Vec<RankIndex>)> = versions.into_iter().collect();
            groups.sort_by_key(|(_, ranks)| std::cmp::Reverse(ranks.len()));
            let few: Vec<RankIndex> = groups
                .iter()
                .skip(1)
                .flat_map(|(_, ranks)| ranks.clone())
                .collect();
            let mut draft = Draft::new(
                RULE.id,
                some(&facts.names(&few)),
                format!("ranks run {} different versions of {name}", groups.len()),
            )
            .severity(Severity::Warning)
            .cause("images or environments differ between hosts, or LD_LIBRARY_PATH selects another library")
            .advice(
                "run the same image on all hosts; NCCL_DEBUG=VERSION prints the version that each rank loads",
            )
            .holds("different versions", groups.len() as f64, ">", 1.0, "")
            .ranks(few);
            for (version, ranks) in &groups {
                draft = draft.evidence(format!("{version}: {}", some(&facts.names(ranks))));
            }
            out.push(draft.without_cost("it is unknown what a common version would gain"));
        }
    }
    out
}
