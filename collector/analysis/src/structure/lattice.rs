//! Roles of communicators from their names, their usage, and the positions of their members relative to other
//! communicators.

use super::names;
use super::sample::{Sample, Usage};
use crate::identity::Identities;
use rankscope_formats::ids::{CommunicatorId, RankIndex, RankNumber};
use rankscope_ranklog::Operation;
use std::collections::BTreeMap;

/// Maximum number of bursts per step, in percent, of collectives that occur only at the end of a step: gradients.
const FEW_BURSTS_PERCENT: u64 = 150;
/// Minimum share of a family's all-reduce sizes that are reduce-scatter results of another family, in percent. Then
/// both are data parallel.
const SAME_SIZES_PERCENT: usize = 90;

/// Communicators of one shape: the same size, and the same distances between members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// Indices into [`Identities::communicators`].
    pub communicators: Vec<CommunicatorId>,
    /// Number of members of each communicator.
    pub size: u32,
    /// Distances between the numbers of neighbouring members in the world.
    pub gaps: Vec<u32>,
    /// Role of the communicators.
    pub role: &'static str,
    /// Source of the role.
    pub role_source: &'static str,
}

impl Family {
    /// Returns the distance between neighbours, if it is constant.
    pub fn stride(&self) -> Option<u32> {
        let first = *self.gaps.first()?;
        self.gaps.iter().all(|&gap| gap == first).then_some(first)
    }

    /// Returns the usage by its ranks, summed over the sampled ones, and their number.
    fn usage(&self, samples: &BTreeMap<RankIndex, Sample>) -> (Usage, u64) {
        let mut sum = Usage::default();
        let mut ranks = 0;
        for sample in samples.values() {
            let used = self.communicators.iter().filter_map(|at| sample.usage.get(at));
            let mut uses = false;
            for usage in used {
                uses = true;
                sum.messages += usage.messages;
                sum.bursts += usage.bursts;
                for (&operation, &count) in &usage.collectives {
                    *sum.collectives.entry(operation).or_default() += count;
                }
                sum.scattered.extend(&usage.scattered);
                sum.reduced.extend(&usage.reduced);
            }
            ranks += u64::from(uses);
        }
        (sum, ranks)
    }
}

/// Returns the sub-groups of a world by shape, the smallest strides first.
pub fn families(identities: &Identities, world: usize) -> Vec<Family> {
    let mut all: BTreeMap<(u32, Vec<u32>), Vec<CommunicatorId>> = BTreeMap::new();
    for (known, position) in identities.communicators.iter().zip((0..).map(CommunicatorId)) {
        if known.world != Some(world as u32) || known.role != "sub-group" {
            continue;
        }
        // The number of a member without a log is unknown.
        let numbers: Option<Vec<RankNumber>> = known
            .members
            .iter()
            .map(|member| identities.ranks.get((*member)?.index())?.number)
            .collect();
        let mut numbers = numbers.unwrap_or_default();
        numbers.sort_unstable();
        let gaps = numbers.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        all.entry((known.size, gaps)).or_default().push(position);
    }
    let mut families: Vec<Family> = all
        .into_iter()
        .map(|((size, gaps), communicators)| Family {
            communicators,
            size,
            gaps,
            role: "sub-group",
            role_source: "none",
        })
        .collect();
    families.sort_by(|one, other| (&one.gaps, one.size).cmp(&(&other.gaps, other.size)));
    families
}

/// Returns the role that the names of a family give, if all names with a role agree.
pub fn role_by_name(identities: &Identities, family: &Family) -> Option<&'static str> {
    let mut said = family
        .communicators
        .iter()
        .filter_map(|&at| names::role(&identities.communicators[at.index()].name));
    let first = said.next()?;
    said.all(|other| other == first).then_some(first)
}

/// Returns the role that the usage alone gives.
pub fn role_by_use(
    family: &Family,
    samples: &BTreeMap<RankIndex, Sample>,
    is_staged: &dyn Fn(RankIndex) -> bool,
) -> Option<&'static str> {
    let (usage, ranks) = family.usage(samples);
    if usage.messages > 0 && usage.calls() == 0 {
        let users = samples.iter().filter(|(_, sample)| {
            family
                .communicators
                .iter()
                .any(|at| sample.usage.contains_key(at))
        });
        let mut users = users.map(|(&rank, _)| rank);
        return users.all(is_staged).then_some("pipeline");
    }
    if usage.collectives.contains_key(&Operation::AllToAllV) {
        // The data decides where it is sent: tokens to experts.
        return Some("expert");
    }
    // Between ranks of one stage: collectives once at the end of each step are gradients. Collectives with each
    // micro-batch belong to a divided layer.
    let staged = samples.iter().filter(|(_, sample)| {
        family
            .communicators
            .iter()
            .any(|at| sample.usage.contains_key(at))
    });
    let staged: Vec<(RankIndex, &Sample)> = staged.map(|(&rank, sample)| (rank, sample)).collect();
    if ranks == 0 || usage.calls() == 0 || !staged.iter().all(|&(rank, _)| is_staged(rank)) {
        return None;
    }
    let steps: u64 = staged.iter().map(|(_, sample)| u64::from(sample.steps)).sum();
    let messages: u64 = staged
        .iter()
        .map(|(_, sample)| sample.messages.len() as u64)
        .sum();
    if steps == 0 {
        return None;
    }
    if usage.bursts * 100 <= steps * FEW_BURSTS_PERCENT {
        Some("data")
    } else if usage.bursts >= 2 * steps && usage.bursts * 2 >= messages {
        Some("tensor")
    } else {
        None
    }
}

/// Sets the roles of two families that span all ranks together, one nested in the other. The inner one, of neighbours,
/// is called for each layer, and the outer one for gradients. If the outer one reduces exactly what the inner one has
/// scattered, it replicates shards, and both are data parallel.
pub fn roles_side_by_side(families: &mut [Family], samples: &BTreeMap<RankIndex, Sample>, world: usize) {
    let open: Vec<usize> = (0..families.len())
        .filter(|&at| families[at].role == "sub-group")
        .collect();
    let [inner, outer] = open[..] else { return };
    let spans = families[inner].size as usize * families[outer].size as usize == world;
    let is_inside =
        families[inner].stride() == Some(1) && families[outer].stride() == Some(families[inner].size);
    if !spans || !is_inside {
        return;
    }
    let (inside, _) = families[inner].usage(samples);
    let (across, _) = families[outer].usage(samples);
    if inside.calls() == 0 || across.calls() == 0 {
        return;
    }
    let same = across.reduced.intersection(&inside.scattered).count();
    let roles = if !across.reduced.is_empty() && same * 100 >= across.reduced.len() * SAME_SIZES_PERCENT {
        Some(("data", "data"))
    } else if inside.calls() >= 2 * across.calls() && across.collectives.contains_key(&Operation::AllReduce) {
        Some(("tensor", "data"))
    } else {
        None
    };
    if let Some((of_inner, of_outer)) = roles {
        for (at, role) in [(inner, of_inner), (outer, of_outer)] {
            (families[at].role, families[at].role_source) = (role, "operations");
        }
    }
}
