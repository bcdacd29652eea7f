//! Roles of communicators from what they are called, what they are used for, and how their members lie beside those of the
//! others.

use super::names;
use super::sample::{Sample, Usage};
use crate::identity::Identities;
use rankscope_ranklog::Operation;
use std::collections::BTreeMap;

/// Collectives in so many bursts a step, in percent, are those of its end: gradients.
const FEW_BURSTS_PERCENT: u64 = 150;
/// Sizes of one family's all-reduces that are another one's results, from which both are of one kind, percent.
const SAME_SIZES_PERCENT: usize = 90;

/// Communicators of one shape: the same size, and members at the same distances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// Positions in [`Identities::communicators`].
    pub communicators: Vec<u32>,
    /// Members of each.
    pub size: u32,
    /// Distances of neighbouring members' numbers in the world.
    pub gaps: Vec<u32>,
    /// What they are for.
    pub role: &'static str,
    /// How that was learnt.
    pub role_source: &'static str,
}

impl Family {
    /// The distance of neighbours, where it is the same everywhere.
    pub fn stride(&self) -> Option<u32> {
        let first = *self.gaps.first()?;
        self.gaps.iter().all(|&gap| gap == first).then_some(first)
    }

    /// How its ranks use it, as the mean of those that were sampled: sums, and how many ranks.
    fn usage(&self, samples: &BTreeMap<u32, Sample>) -> (Usage, u64) {
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

/// The sub-groups of a world by shape, the smallest strides first.
pub fn families(identities: &Identities, world: usize) -> Vec<Family> {
    let mut all: BTreeMap<(u32, Vec<u32>), Vec<u32>> = BTreeMap::new();
    for (known, position) in identities.communicators.iter().zip(0..) {
        if known.world != Some(world as u32) || known.role != "sub-group" {
            continue;
        }
        // Numbers of a member that was not seen are not known.
        let numbers: Option<Vec<u32>> = known
            .members
            .iter()
            .map(|member| identities.ranks.get((*member)? as usize)?.number)
            .collect();
        let mut numbers = numbers.unwrap_or_default();
        numbers.sort_unstable();
        let gaps = numbers.windows(2).map(|pair| pair[1] - pair[0]).collect();
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

/// The role that the names of a family say, if those that say one agree.
pub fn role_by_name(identities: &Identities, family: &Family) -> Option<&'static str> {
    let mut said = family
        .communicators
        .iter()
        .filter_map(|&at| names::role(&identities.communicators[at as usize].name));
    let first = said.next()?;
    said.all(|other| other == first).then_some(first)
}

/// The role that its use says by itself.
pub fn role_by_use(
    family: &Family,
    samples: &BTreeMap<u32, Sample>,
    is_staged: &dyn Fn(u32) -> bool,
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
        // What goes where is decided by the data: tokens to experts.
        return Some("expert");
    }
    // Among the ranks of a stage: what comes once at the end of each step is of gradients, what comes with each
    // micro-batch is of a layer that is divided.
    let staged = samples.iter().filter(|(_, sample)| {
        family
            .communicators
            .iter()
            .any(|at| sample.usage.contains_key(at))
    });
    let staged: Vec<(u32, &Sample)> = staged.map(|(&rank, sample)| (rank, sample)).collect();
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

/// Two families that together span the ranks, one inside the other: the inner one of neighbours is called for each layer,
/// the outer one for gradients. If the outer one reduces just what the inner one has scattered, it replicates shards,
/// and both are of data parallelism.
pub fn roles_side_by_side(families: &mut [Family], samples: &BTreeMap<u32, Sample>, world: usize) {
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
