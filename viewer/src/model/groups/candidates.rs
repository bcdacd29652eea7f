//! The groups that a session names: hosts, pipeline stages, positions in the replicas, communicators.
//!
//! A rank may be in several of them, or in none.

use super::grouping::{CommunicatorFamily, Grouping};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{Session, WorldStructure};

/// Ranks that may form a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Full name.
    pub name: String,
    /// Name for a narrow column.
    pub short_name: String,
    /// Ranks in the order of the session.
    pub ranks: Vec<RankIndex>,
    /// Whether a title has the number of ranks even if it could name them.
    pub only_counts: bool,
}

/// Returns the candidates of a grouping in display order.
pub fn candidates(session: &Session, grouping: &Grouping) -> Vec<Candidate> {
    match grouping {
        Grouping::Host => hosts(session),
        Grouping::Stage => of_worlds(session, stages),
        Grouping::Peers => of_worlds(session, peers),
        Grouping::Communicators(family) => {
            of_worlds(session, |structure| communicators(session, structure, family))
        }
        Grouping::Rank => Vec::new(),
    }
}

/// Returns the hosts. Their numbers come from the alignment of clocks, but users expect the order of ranks.
fn hosts(session: &Session) -> Vec<Candidate> {
    let mut hosts: Vec<_> = session.hosts.iter().collect();
    hosts.sort_by_key(|host| host.ranks.iter().min());
    let candidate = |name: &String, ranks: &[u32]| Candidate {
        name: name.clone(),
        short_name: name.clone(),
        ranks: sorted(ranks.iter().copied()),
        only_counts: true,
    };
    hosts
        .into_iter()
        .map(|host| candidate(&host.name, &host.ranks))
        .collect()
}

/// Returns the candidates of all worlds. If several worlds have some, their names contain the world.
fn of_worlds(session: &Session, of_world: impl Fn(&WorldStructure) -> Vec<Candidate>) -> Vec<Candidate> {
    let worlds: Vec<(u32, Vec<Candidate>)> = session
        .structure
        .iter()
        .map(|structure| (structure.world, of_world(structure)))
        .filter(|(_, candidates)| !candidates.is_empty())
        .collect();
    let are_several = worlds.len() > 1;
    let named = |(world, candidates): (u32, Vec<Candidate>)| {
        candidates.into_iter().map(move |mut candidate| {
            if are_several {
                candidate.name.push_str(&format!(" of world {world}"));
                candidate.short_name.push_str(&format!(", world {world}"));
            }
            candidate
        })
    };
    worlds.into_iter().flat_map(named).collect()
}

fn stages(structure: &WorldStructure) -> Vec<Candidate> {
    let are_several = structure.pipelines.len() > 1;
    let mut out = Vec::new();
    for (number, pipeline) in (1..).zip(&structure.pipelines) {
        let prefix = match are_several {
            true => format!("pipeline {number}, "),
            false => String::new(),
        };
        for (position, stage) in pipeline.stages.iter().enumerate() {
            out.push(Candidate {
                name: format!("{prefix}stage {position} of {}", pipeline.stages.len()),
                short_name: format!("{prefix}stage {position}"),
                ranks: sorted(stage.ranks.iter().copied()),
                only_counts: false,
            });
        }
    }
    out
}

/// Returns the positions in the replicas. If all ranks have the same position, there is none.
fn peers(structure: &WorldStructure) -> Vec<Candidate> {
    if structure.peers.len() < 2 {
        return Vec::new();
    }
    let peers = structure.peers.iter().enumerate();
    peers
        .map(|(position, ranks)| Candidate {
            name: format!("position {position} in the replicas"),
            short_name: format!("position {position}"),
            ranks: sorted(ranks.iter().copied()),
            only_counts: false,
        })
        .collect()
}

/// Returns the communicators of a family in the order of their ranks. Communicators with the same members count once.
fn communicators(
    session: &Session,
    structure: &WorldStructure,
    family: &CommunicatorFamily,
) -> Vec<Candidate> {
    let of_family = structure
        .groups
        .iter()
        .filter(|group| CommunicatorFamily::of(group) == *family);
    let mut members: Vec<Vec<RankIndex>> = of_family
        .flat_map(|group| &group.communicators)
        .filter_map(|&communicator| session.communicators.get(communicator as usize))
        .map(|communicator| sorted(communicator.members.iter().flatten().copied()))
        .filter(|members| !members.is_empty())
        .collect();
    members.sort_unstable();
    members.dedup();
    let (long, short) = match family.role.as_str() {
        "sub-group" => ("sub-group".to_owned(), "sub-group".to_owned()),
        "pipeline" => ("pipeline group".to_owned(), "pipeline".to_owned()),
        role => (format!("{role}-parallel group"), role.to_owned()),
    };
    members
        .into_iter()
        .enumerate()
        .map(|(number, ranks)| Candidate {
            name: format!("{long} {number}"),
            short_name: format!("{short} {number}"),
            ranks,
            only_counts: false,
        })
        .collect()
}

fn sorted(ranks: impl Iterator<Item = u32>) -> Vec<RankIndex> {
    let mut ranks: Vec<RankIndex> = ranks.map(RankIndex).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}
