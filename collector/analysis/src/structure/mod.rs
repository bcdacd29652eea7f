//! Structure of a job (METRICS.md, sections 1 and 8): the roles of communicators, the ranks at the same position in
//! replicas of the model, and the stages of pipelines.
//!
//! The structure comes from a sample of each rank's first steps, before the merge, because lateness compares peers
//! while instances arrive. [`names`] reads the names of groups, [`sample`] their usage, [`lattice`] the positions of
//! their members, and [`chains`] finds stages. Without evidence, the structure is left unknown.

pub mod chains;
pub mod lattice;
pub mod names;
pub mod sample;
pub mod step_links;

use crate::identity::Identities;
use crate::rank::RankReader;
use crate::steps::plan::StepPlan;
use chains::Chains;
use rankscope_formats::ids::RankIndex;
use sample::Sample;
use std::collections::BTreeMap;

/// Maximum number of sampled operations of all ranks of a world together, …
const MAX_SAMPLED: usize = 1 << 21;
/// … and of one rank.
const MAX_OF_RANK: usize = 1 << 12;
/// Minimum number of sampled operations of one rank.
const MIN_OF_RANK: usize = 1 << 9;

/// Structure of one world.
#[derive(Clone, Debug, Default)]
pub struct Structure {
    /// Families of communicators with a role.
    pub groups: Vec<lattice::Family>,
    /// Sets of ranks at the same position. Together they are all ranks of the world.
    pub peers: Vec<Vec<RankIndex>>,
    /// Source of the peers: `data-groups`, `stages` or `all-ranks`.
    pub peers_source: &'static str,
    /// Pipelines.
    pub pipelines: Vec<chains::Pipeline>,
    /// Reason why the messages form no pipeline.
    pub no_pipeline: Option<String>,
}

impl Structure {
    /// Returns a group number for each rank of the world. Ranks of one group are compared with each other: the replicas
    /// of one stage if there are stages, else all ranks.
    pub fn compared(&self, ranks: &[RankIndex]) -> Vec<u32> {
        let stages = self.pipelines.iter().flat_map(|pipeline| &pipeline.stages);
        let mut group_of: BTreeMap<RankIndex, u32> = BTreeMap::new();
        for (stage, number) in stages.zip(1..) {
            group_of.extend(stage.iter().map(|&rank| (rank, number)));
        }
        ranks
            .iter()
            .map(|rank| group_of.get(rank).copied().unwrap_or(0))
            .collect()
    }

    /// Returns true if a rank is a stage of a pipeline.
    pub fn is_staged(&self, rank: RankIndex) -> bool {
        let mut stages = self.pipelines.iter().flat_map(|pipeline| &pipeline.stages);
        stages.any(|stage| stage.contains(&rank))
    }
}

/// Reads samples of the ranks of a world. If the world has no sub-groups and the first rank sends no messages, only the
/// first rank is read.
pub fn samples<'a>(
    identities: &Identities,
    world: usize,
    reader_of: impl Fn(RankIndex) -> RankReader<'a>,
) -> BTreeMap<RankIndex, Sample> {
    let ranks = &identities.worlds[world].ranks;
    let most = (MAX_SAMPLED / ranks.len().max(1)).clamp(MIN_OF_RANK, MAX_OF_RANK);
    let has_subgroups = identities
        .communicators
        .iter()
        .any(|known| known.world == Some(world as u32) && known.role == "sub-group");
    let mut all = BTreeMap::new();
    for &rank in ranks {
        let sample = Sample::read(&mut reader_of(rank), identities, most);
        let is_plain = !has_subgroups && sample.peers().next().is_none();
        all.insert(rank, sample);
        if is_plain {
            break;
        }
    }
    all
}

/// Determines the structure of a world from samples with steps, and sets the roles of its communicators.
pub fn learn(
    identities: &mut Identities,
    world: usize,
    plan: &StepPlan,
    samples: &BTreeMap<RankIndex, Sample>,
) -> Structure {
    let ranks = identities.worlds[world].ranks.clone();
    let mut structure = Structure::default();
    if samples.values().any(|sample| sample.peers().next().is_some()) {
        let name_of =
            |rank: RankIndex| match identities.ranks.get(rank.index()).and_then(|known| known.number) {
                Some(number) => format!("rank {number}"),
                None => format!("log {rank}"),
            };
        match chains::find(samples, !plan.anchors.is_empty(), &name_of) {
            Ok(Chains { pipelines }) => structure.pipelines = pipelines,
            Err(reason) => structure.no_pipeline = Some(reason),
        }
    }
    let mut groups = lattice::families(identities, world);
    for family in &mut groups {
        let by_name = lattice::role_by_name(identities, family).map(|role| (role, "name"));
        let by_use = || {
            let role = lattice::role_by_use(family, samples, &|rank| structure.is_staged(rank));
            role.map(|role| (role, "operations"))
        };
        (family.role, family.role_source) = by_name.or_else(by_use).unwrap_or(("sub-group", "none"));
    }
    lattice::roles_side_by_side(&mut groups, samples, ranks.len());
    structure.groups = groups;
    for family in &structure.groups {
        for &communicator in &family.communicators {
            let known = &mut identities.communicators[communicator.index()];
            (known.role, known.role_source) = (family.role, family.role_source);
        }
    }
    (structure.peers, structure.peers_source) = peers(identities, &structure, &ranks);
    structure
}

/// Returns the sets of ranks at the same position in the replicas, and their source.
fn peers(
    identities: &Identities,
    structure: &Structure,
    ranks: &[RankIndex],
) -> (Vec<Vec<RankIndex>>, &'static str) {
    let place: BTreeMap<RankIndex, usize> = ranks.iter().zip(0..).map(|(&rank, at)| (rank, at)).collect();
    // Members of a data-parallel group hold the same position. If a rank has several such groups, as with sharding
    // inside of replication, all ranks that they connect hold it.
    let mut root: Vec<usize> = (0..ranks.len()).collect();
    let find = |root: &mut Vec<usize>, mut at: usize| {
        while root[at] != at {
            root[at] = root[root[at]];
            at = root[at];
        }
        at
    };
    let mut covered = vec![false; ranks.len()];
    let data = structure.groups.iter().filter(|family| family.role == "data");
    for communicator in data.flat_map(|family| &family.communicators) {
        let members = &identities.communicators[communicator.index()].members;
        let places: Vec<usize> = members
            .iter()
            .flatten()
            .filter_map(|rank| place.get(rank).copied())
            .collect();
        for pair in places.windows(2) {
            let (one, other) = (find(&mut root, pair[0]), find(&mut root, pair[1]));
            root[one.max(other)] = one.min(other);
        }
        places.iter().for_each(|&at| covered[at] = true);
    }
    let gather = |key: &mut dyn FnMut(usize) -> usize| {
        let mut sets: BTreeMap<usize, Vec<RankIndex>> = BTreeMap::new();
        for (at, &rank) in ranks.iter().enumerate() {
            sets.entry(key(at)).or_default().push(rank);
        }
        sets.into_values().collect()
    };
    if !ranks.is_empty() && covered.iter().all(|&is_covered| is_covered) {
        return (gather(&mut |at| find(&mut root, at)), "data-groups");
    }
    if structure.pipelines.is_empty() {
        return (gather(&mut |_| 0), "all-ranks");
    }
    let compared = structure.compared(ranks);
    (gather(&mut |at| compared[at] as usize), "stages")
}
