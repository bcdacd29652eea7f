//! Ranks that run different versions of what they communicate by.

use crate::findings::rule::Rule;
use crate::findings::shown::some;
use crate::findings::{Draft, Facts};
use std::collections::BTreeMap;

/// What is compared: key in the header of a log, and its name for people.
const COMPARED: [(&str, &str); 2] = [
    ("library.nccl.version", "NCCL"),
    ("rankscope_version", "rankscope"),
];

/// Versions differ.
pub const RULE: Rule = Rule {
    id: "different-versions",
    title: "Ranks run different versions of a communication library",
    means: "Libraries of different versions may choose different algorithms, protocols or defaults: the job is slow, hangs, or \
            fails to connect.",
    fires: "Ranks of one world state different versions of NCCL, or were recorded by different versions of rankscope.",
    silent: "Ranks that state none (Gloo has no version to ask for), worlds of different jobs, and differences in what they do not \
             communicate by.",
    find: Some(find),
    of_stated: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let mut out = Vec::new();
    for world in &facts.session.worlds {
        for (key, name) in COMPARED {
            let mut versions: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
            for &rank in &world.ranks {
                if let Some(version) = facts.properties(rank as usize).and_then(|known| known.get(key)) {
                    versions.entry(version).or_default().push(rank);
                }
            }
            if versions.len() < 2 {
                continue;
            }
            let mut groups: Vec<(&str, Vec<u32>)> = versions.into_iter().collect();
            groups.sort_by_key(|(_, ranks)| std::cmp::Reverse(ranks.len()));
            let few: Vec<u32> = groups
                .iter()
                .skip(1)
                .flat_map(|(_, ranks)| ranks.clone())
                .collect();
            let mut draft = Draft::new(
                RULE.id,
                some(&facts.names(&few)),
                format!("ranks run {} different versions of {name}", groups.len()),
            )
            .severity("warning")
            .cause(
                "images or environments differ between hosts, or LD_LIBRARY_PATH finds another library first",
            )
            .advice("run the same image everywhere; NCCL_DEBUG=VERSION prints what each rank loads")
            .holds("different versions", groups.len() as f64, ">", 1.0, "")
            .ranks(few);
            for (version, ranks) in &groups {
                draft = draft.evidence(format!("{version}: {}", some(&facts.names(ranks))));
            }
            out.push(draft.without_cost("what the same version everywhere would win is not known"));
        }
    }
    out
}
