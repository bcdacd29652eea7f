//! Finds the steps of each world, and its structure, from samples of its logs.

use crate::identity::{Identities, WorldIdentity};
use crate::merge::logs::Logs;
use crate::merge::progress::Progress;
use crate::rank::anchors::Anchors;
use crate::steps::plan::StepPlan;
use crate::steps::{finder, marks};
use crate::structure::sample::Sample;
use crate::structure::{self, Structure, step_links};
use rankscope_formats::ids::{CommunicatorId, RankIndex};
use std::collections::BTreeMap;

/// Maximum number of kinds of marks that are tried. Each takes a pass over a log.
const MAX_MARKS: usize = 3;

/// Finds the steps of each world.
pub fn find_steps(
    logs: Logs<'_>,
    identities: &Identities,
    progress: &mut dyn FnMut(Progress),
) -> Vec<StepPlan> {
    identities
        .worlds
        .iter()
        .map(|world| {
            progress(Progress::of_phase("finding steps", 0));
            steps_of_world(logs, identities, world)
        })
        .collect()
}

/// Finds the steps of a world, from the first of its ranks that has marks, else from its first rank.
fn steps_of_world(logs: Logs<'_>, identities: &Identities, world: &WorldIdentity) -> StepPlan {
    let Some(&first) = world.ranks.first() else {
        return StepPlan {
            source: "none",
            reason: Some("no rank was recorded".to_owned()),
            ..StepPlan::default()
        };
    };
    let reader_of = |rank: RankIndex| logs.operation_reader(identities, rank, Anchors::default());
    let width = |communicator: CommunicatorId| {
        identities
            .communicators
            .get(communicator.index())
            .map_or(0, |known| known.size)
    };
    // Reading a log for marks takes as long as reading it for a pattern. It is worthwhile only if its texts contain
    // such names.
    let marking = world.ranks.iter().copied().find(|&rank| {
        let log = logs.of_rank(identities, rank);
        log.texts.values().any(|text| marks::is_step_like(text))
    });
    let by_marks = marking.and_then(|rank| {
        let likely = marks::find(&mut reader_of(rank));
        likely
            .iter()
            .take(MAX_MARKS)
            .find_map(|marks| finder::plan_by_marks(&mut reader_of(rank), marks, width))
    });
    match by_marks {
        Some(plan) => StepPlan {
            reference: marking,
            ..plan
        },
        None => StepPlan {
            reference: Some(first),
            ..finder::plan(|| reader_of(first), width)
        },
    }
}

/// Determines the structure of each world from samples of its ranks. Completes the plan for ranks that take no part in
/// the anchors.
pub fn find_structures(
    logs: Logs<'_>,
    identities: &mut Identities,
    plans: &mut [StepPlan],
) -> Vec<Structure> {
    let worlds = plans.iter_mut().enumerate();
    worlds
        .map(|(world, plan)| {
            let samples = samples_of_world(logs, identities, world, plan);
            structure::learn(identities, world, plan, &samples)
        })
        .collect()
}

/// Reads samples of the ranks of a world. Corrects the plan where the samples show better anchors.
fn samples_of_world(
    logs: Logs<'_>,
    identities: &Identities,
    world: usize,
    plan: &mut StepPlan,
) -> BTreeMap<RankIndex, Sample> {
    let reader_of = |rank: RankIndex, anchors: Anchors| logs.operation_reader(identities, rank, anchors);
    let samples = structure::samples(identities, world, |rank| reader_of(rank, plan.anchors_of(rank)));
    if samples.len() < 2 {
        return samples;
    }
    if let Some(first) = first_of_a_chain(plan, &samples) {
        let width = |communicator: CommunicatorId| identities.communicators[communicator.index()].size;
        let by_first = finder::plan(|| reader_of(first, Anchors::default()), width);
        if !by_first.anchors.is_empty() {
            *plan = StepPlan {
                reference: Some(first),
                ..by_first
            };
        }
    }
    let Some(reference) = plan.reference else {
        return samples;
    };
    step_links::complete(plan, reference, identities, world, &samples, reader_of);
    if plan.others.is_empty() {
        return samples;
    }
    structure::samples(identities, world, |rank| reader_of(rank, plan.anchors_of(rank)))
}

/// Returns the rank that sends the first message along a chain, if only messages determine the steps and it is not the
/// reference. To the last rank of a chain, each micro-batch looks like a step.
fn first_of_a_chain(plan: &StepPlan, samples: &BTreeMap<RankIndex, Sample>) -> Option<RankIndex> {
    if plan.anchors.communicators().is_some() {
        return None;
    }
    let sends_first = |rank: &RankIndex| {
        let sample = samples.get(rank)?;
        let is_end = sample.peers().count() == 1;
        is_end.then(|| sample.messages.first().is_some_and(|first| first.is_send))
    };
    let reference = plan.reference?;
    if sends_first(&reference) == Some(true) {
        return None;
    }
    samples
        .keys()
        .copied()
        .find(|rank| sends_first(rank) == Some(true))
}
