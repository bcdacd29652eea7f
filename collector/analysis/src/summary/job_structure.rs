//! Structure of each world for `session.json`.

use crate::measures::merge_result::MergeResult;
use crate::measures::stages::{imbalance, own_per_step};
use crate::measures::step_board::StageTime;
use crate::structure::chains;
use crate::structure::lattice::Family;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Scope;
use rankscope_formats::session::{Figure, Pipeline, Ratio, RoleGroup, Stage, WorldStructure};

/// Returns an entry per world.
pub fn structure(parts: &MergeResult<'_>) -> Vec<WorldStructure> {
    let worlds = parts.structures.iter().enumerate();
    worlds
        .map(|(world, known)| WorldStructure {
            world: world as u32,
            groups: known.groups.iter().map(|family| group(parts, family)).collect(),
            peers: numbers(&known.peers),
            peers_source: known.peers_source.to_owned(),
            pipelines: known
                .pipelines
                .iter()
                .map(|pipeline| self::pipeline(parts, world, pipeline))
                .collect(),
            no_pipeline: known.no_pipeline.clone(),
        })
        .collect()
}

/// Returns lists of ranks as the session stores them.
fn numbers(lists: &[Vec<RankIndex>]) -> Vec<Vec<u32>> {
    lists
        .iter()
        .map(|ranks| ranks.iter().map(|rank| rank.0).collect())
        .collect()
}

fn group(parts: &MergeResult<'_>, family: &Family) -> RoleGroup {
    let known = &parts.identities.communicators;
    let mut scopes = family.communicators.iter().map(|&at| known[at.index()].scope);
    let first = scopes.next().unwrap_or(Scope::Unknown);
    let scope = if scopes.all(|scope| scope == first) {
        first
    } else {
        Scope::Mixed
    };
    RoleGroup {
        role: family.role.to_owned(),
        role_source: family.role_source.to_owned(),
        size: family.size,
        stride: family.stride(),
        scope,
        communicators: family.communicators.iter().map(|id| id.0).collect(),
    }
}

fn pipeline(parts: &MergeResult<'_>, world: usize, known: &chains::Pipeline) -> Pipeline {
    let stages: Vec<Stage> = known
        .stages
        .iter()
        .map(|ranks| stage(parts, world, ranks))
        .collect();
    let p = stages.len() as i64;
    let varies = "the number of messages differs between steps or between chains";
    let micro = known.micro_batches.map(i64::from);
    Pipeline {
        chains: numbers(&known.chains),
        micro_batches: known
            .micro_batches
            .map_or_else(|| Figure::unknown(varies), Figure::known),
        messages_per_micro_batch: known.per_micro_batch,
        ideal_bubble: micro.map_or_else(
            || Figure::unknown(varies),
            |m| Ratio::figure(p - 1, m + p - 1, "no micro-batch was recorded"),
        ),
        imbalance_per_step_ns: match (micro, own_per_step(&stages)) {
            (None, _) => Figure::unknown(varies),
            (_, None) => Figure::unknown("no step is whole on all ranks"),
            (Some(m), Some(own)) => Figure::known(imbalance(&own, m)),
        },
        stages,
    }
}

fn stage(parts: &MergeResult<'_>, world: usize, ranks: &[RankIndex]) -> Stage {
    let rows = &parts.identities.worlds[world].ranks;
    let board = &parts.measures.steps.boards[world];
    let mut sum = StageTime::default();
    for rank in ranks {
        let row = rows.iter().position(|of_world| of_world == rank);
        let Some(time) = row.and_then(|row| board.stage_times.get(row)) else {
            continue;
        };
        sum.steps = time.steps;
        sum.window_ns += time.window_ns;
        sum.own_ns += time.own_ns;
        sum.bubble_ns += time.bubble_ns;
    }
    let has_no_times = ranks.iter().any(|&rank| {
        let sums = parts.sums.get(rank.index());
        sums.is_some_and(|sums| sums.operations.enqueued > 0)
    });
    Stage {
        ranks: ranks.iter().map(|rank| rank.0).collect(),
        steps: sum.steps,
        window_rank_ns: sum.window_ns,
        own_rank_ns: sum.own_ns,
        bubble_rank_ns: sum.bubble_ns,
        bubble: if has_no_times {
            Figure::unknown("completion times were not recorded")
        } else {
            Ratio::figure(sum.bubble_ns, sum.window_ns, "no step is whole on all ranks")
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_stage_costs_all_but_the_first_micro_batch() {
        // Stages of 4 and 8 ms for each of 4 micro-batches: 12 + 3 · 8 = 36 ms. Even stages of 6 ms: 12 + 3 · 6 = 30
        // ms.
        assert_eq!(imbalance(&[16, 32], 4), 6);
        assert_eq!(imbalance(&[10, 10, 10], 8), 0);
        assert_eq!(
            imbalance(&[10, 30], 1),
            0,
            "one micro-batch passes one stage after the other"
        );
    }
}
